from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal import commands
from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene
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


@pytest.mark.parametrize(
    ("faults", "given", "stands_by"),
    [
        (("worker", "node"), {}, "false"),
        (("worker", "driver"), {}, None),
        (("worker",), {"RESILIENCE_STANDBY_DRIVER": "true"}, "true"),
    ],
)
def test_a_driver_stands_by_where_a_fault_kills_the_driver_or_somebody_asks(
    faults: tuple[str, ...], given: dict[str, str], stands_by: str | None
) -> None:
    options = Options(faults=faults, job_env={"A": "1"} | given)
    scene = SimpleNamespace(options=options, project=Path(__file__).parents[2])
    env = Scene.job(scene, steps=1, workers="2").env  # type: ignore[arg-type]
    assert env["A"] == "1" and env.get("RESILIENCE_STANDBY_DRIVER") == stands_by
