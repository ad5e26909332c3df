from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal import commands
from hyperpod_ray_sandbox.rehearsal.options import Options


@pytest.mark.parametrize(("verb", "words"), [("rehearse", []), ("soak", ["--kills", "3"])])
def test_the_longest_wait_can_be_raised_as_its_message_says(
    verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[float]()

    def started(env: str, *, options: Options, **_: Any) -> bool:
        given.append(options.fault_timeout_s)
        return True

    monkeypatch.setattr(commands, verb, started)
    assert main(["local", "rehearse", "local", *words]) == 0
    assert main(["local", "rehearse", "local", *words, "--fault-timeout", "900"]) == 0
    assert given == [240, 900]
