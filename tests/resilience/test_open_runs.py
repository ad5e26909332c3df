"""A loop that uses no `with` block leaves what it opened, however it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hyperpod_ray_training import open_runs


class Opened:
    """A `Resumable` that writes down how it is left."""

    def __init__(self, name: str, ends: list[tuple[str, bool]]) -> None:
        self.name, self.ends = name, ends
        open_runs.LIVE.append(self)

    def leave(self, *, failed: bool) -> None:
        self.ends.append((self.name, failed))

    def told(self, metrics: Mapping[str, Any]) -> None: ...


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    open_runs.LIVE.clear()
    yield
    open_runs.LIVE.clear()


def test_a_loop_that_returns_leaves_the_last_one_first() -> None:
    ends: list[tuple[str, bool]] = []

    @open_runs.closing
    def loop(config: dict[str, Any]) -> Any:
        """Trains."""
        Opened("first", ends)
        Opened("second", ends)
        return config["answer"]

    assert loop({"answer": 42}) == 42
    assert ends == [("second", False), ("first", False)]
    assert open_runs.LIVE == []
    assert (loop.__name__, loop.__doc__) == ("loop", "Trains.")


@pytest.mark.parametrize("error", [ValueError("nan"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_loop_that_raises_has_failed_and_its_error_goes_on(error: BaseException) -> None:
    ends: list[tuple[str, bool]] = []

    @open_runs.closing
    def loop(config: dict[str, Any]) -> None:
        Opened("run", ends)
        raise error

    with pytest.raises(type(error)) as raised:
        loop({})
    assert raised.value is error
    assert ends == [("run", True)]


def test_what_an_earlier_loop_of_the_process_left_is_not_this_ones() -> None:
    """Ray gives the next attempt the process of the last one."""
    ends: list[tuple[str, bool]] = []
    Opened("lost", ends)
    open_runs.closing(lambda config: Opened("new", ends))({})
    assert ends == [("new", False)]


def test_nothing_open_is_nothing_to_leave() -> None:
    open_runs.leave_all(failed=True)
    assert open_runs.closing(lambda config: None)({}) is None
