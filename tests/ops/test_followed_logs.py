"""A log that is followed is printed once, whatever is lost in between, and is not read again for each new line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import jobs_api


class Jobs:
    """Ray's Jobs API: connections for the log, and the job's states after each."""

    def __init__(self, connections: list[list[str | None]], states: list[str | None]) -> None:
        self.connections, self.states = iter(connections), iter(states)

    def log(self, _job: str) -> Iterator[str]:
        """The portions of one connection; None where it is lost."""
        for text in next(self.connections):
            if text is None:
                raise ConnectionError("lost")
            yield text

    def json(self, _method: str, _path: str) -> Any:
        """The job."""
        state = next(self.states)
        if state is None:
            raise ConnectionRefusedError("no head")
        return {"status": state}


@pytest.mark.parametrize(
    ("connections", "states", "printed"),
    [
        ([["one\n", "two\n"]], ["SUCCEEDED"], "one\ntwo\n"),
        ([["one\n", None], ["one\ntw", "o\nthree\n"]], ["RUNNING", "SUCCEEDED"], "one\ntwo\nthree\n"),
        ([["one\n", None], [None], ["one\n", "two\n"]], [None, None, "SUCCEEDED"], "one\ntwo\n"),
        ([["one\n", None], ["one\n", "two\n"]], ["SUCCEEDED", "SUCCEEDED"], "one\ntwo\n"),
        ([["one\n", None], *[[None]] * jobs_api.TRIES], ["SUCCEEDED"] * (jobs_api.TRIES + 1), "one\n"),
    ],
    ids=["whole", "lost", "head-away", "lost-at-the-end", "gone-with-its-node"],
)
def test_a_jobs_log_is_printed_once(
    connections: list[list[str | None]], states: list[str | None], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = Jobs(connections, states)
    assert jobs_api.follow(jobs, "x", environment="env", poll=0.0) == 0  # type: ignore[arg-type]
    assert capsys.readouterr().out == printed
    assert next(jobs.connections, None) is None


def test_a_head_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_api, "AWAY_SECONDS", -1)
    jobs = Jobs([["one\n", None]], [None])
    with pytest.raises(OpsError, match="no head"):
        jobs_api.follow(jobs, "x", environment="env", poll=0.0)  # type: ignore[arg-type]
