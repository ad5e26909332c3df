"""Other people's scripts as the judge: killed at a random step, each ends with every loss equal, or was refused.

The page for users has the table of the outcomes; each test compares its own with the table's row.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
import shapes_of_laboratories  # noqa: F401 - adds its own
import shapes_of_researchers  # noqa: F401 - adds its own
import shapes_of_strangers  # noqa: F401 - adds its own
import shapes_of_trainers  # noqa: F401 - adds its own
from conftest import ROOT, job_environment
from shapes import EVERY, SHAPES, STEPS
from spares_helpers import Party

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "make-your-script-survive.md"
OUTCOMES = ("equal", "refused")
AT_ONCE = {"fsdp1", "zero_redundancy"}
"""Refused when `Resumable` is made; the others by the end of the third step that is watched, the sixth."""
LATE = {"dataset_with_an_order_forgotten", "late_target_forgotten", "late_average_forgotten", "lookahead_forgotten"}
"""What they forget changes after the sixth step; refused where the next steps that are watched have ended."""


def table() -> dict[str, tuple[str, str]]:
    """Of each shape the outcome from a checkpoint and from memory, as the page says."""
    rows = re.findall(r"^\|[^|]*\| `(\w+)` \| (\w+) \| (\w+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return {name: (disk, memory) for name, disk, memory in rows}


def losses(run: Path) -> dict[int, float]:
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return {event["step"]: event["loss"] for event in events if event["kind"] == "step"}


def launch(
    launcher: subprocess.Popen[str], folder: Path, name: str, run: str, *, kill_at: int = -1
) -> tuple[list[int], str]:
    """Two ranks without Ray; their exit codes, and what they said."""
    output = folder / f"{run}.{kill_at}"
    request = {
        "script": str(ROOT / "tests" / "resilience" / "run_shape.py"),
        "arguments": [name, str(folder), run, str(kill_at)], "ranks": 2,
        "environment": job_environment(GLOO_SOCKET_IFNAME="lo"), "output": str(output),
    }  # fmt: skip
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps(request) + "\n")
    launcher.stdin.flush()
    codes = json.loads(launcher.stdout.readline())
    return codes, "".join(path.read_text() for path in sorted(folder.glob(f"{output.name}.?")))


def refusal_in(said: str) -> str | None:
    """The line that refuses, with the fix in it; a shape that says none is not refused."""
    lines = [line for line in said.splitlines() if "Fix:" in line and "Expected" in line]
    return lines[0] if lines else None


def is_refused(name: str, run: Path, said: str) -> bool:
    line = refusal_in(said)
    if line is None:
        return False
    trained = len(losses(run)) if (run / "events.jsonl").exists() else 0
    assert trained == 0 if name in AT_ONCE else trained <= (10 if name in LATE else 6), "refused when it was late"
    return True


def test_the_page_has_each_shape_and_no_other_word() -> None:
    assert table().keys() == SHAPES.keys()
    assert {word for outcomes in table().values() for word in outcomes} <= set(OUTCOMES)


@pytest.mark.parametrize("name", SHAPES)
def test_from_a_checkpoint(name: str, tmp_path: Path, launcher: subprocess.Popen[str]) -> None:
    codes, said = launch(launcher, tmp_path, name, "whole")
    if any(codes):
        assert is_refused(name, tmp_path / "whole", said), said[-3000:]
        assert table()[name][0] == "refused", refusal_in(said)
        return
    kill_at = random.randrange(EVERY + 1, STEPS)
    codes, _ = launch(launcher, tmp_path, name, "hit", kill_at=kill_at)
    assert codes == [-9, -9]
    codes, said = launch(launcher, tmp_path, name, "hit")
    assert codes == [0, 0], said[-3000:]
    whole, hit = losses(tmp_path / "whole"), losses(tmp_path / "hit")
    assert len(whole) == STEPS
    assert {step for step in whole if whole[step] != hit.get(step)} == set(), f"killed before step {kill_at}"
    assert table()[name][0] == "equal"


@pytest.mark.parametrize(
    ("name", "kills"),
    # a checkpoint in mid-epoch after the first return holds what was restored and not yet logged again
    [("lightning_states", (5, 8)), ("dqn_prioritized", (5, 10)), ("swa", (8, 11)), ("packed_stream", (4, 8))],
)
def test_twice_from_a_checkpoint(
    name: str, kills: tuple[int, ...], tmp_path: Path, launcher: subprocess.Popen[str]
) -> None:
    codes, said = launch(launcher, tmp_path, name, "whole")
    assert codes == [0, 0], said[-3000:]
    for kill_at in kills:
        codes, _ = launch(launcher, tmp_path, name, "hit", kill_at=kill_at)
        assert codes == [-9, -9]
    codes, said = launch(launcher, tmp_path, name, "hit")
    assert codes == [0, 0], said[-3000:]
    assert losses(tmp_path / "whole") == losses(tmp_path / "hit")


@pytest.mark.parametrize("name", SHAPES)
def test_from_memory(name: str, tmp_path: Path, launcher: subprocess.Popen[str], forker: subprocess.Popen[str]) -> None:
    gate = random.randrange(11 if name in LATE else 7, STEPS - 1)
    party = Party(forker, tmp_path, "hit", shape=name, gates=[gate], spares=1)
    try:
        party.start(3)
        party.until(lambda: party.events("generation") and (
            refusal_in(party.log()) or all(
                (tmp_path / f"at-{gate}-{pid}").exists() for pid in party.rank_pids().values()
            )
        ))  # fmt: skip
        if refusal_in(party.log()):
            assert is_refused(name, tmp_path / "hit", party.log())
            assert table()[name][1] == "refused", refusal_in(party.log())
            return
        party.until_spare()
        party.strike(random.randrange(2), gate=gate)
        party.until(lambda: party.events("done"))
        assert [event["path"] for event in party.events("restore")] == ["memory"], party.log()[-3000:]
    finally:
        party.close()
    codes, said = launch(launcher, tmp_path, name, "whole")
    assert codes == [0, 0], said[-3000:]
    whole, hit = losses(tmp_path / "whole"), losses(tmp_path / "hit")
    assert {step for step in whole if whole[step] != hit.get(step)} == set(), f"killed before step {gate}"
    assert table()[name][1] == "equal"


def test_a_rank_is_lost_between_the_steps_of_two_optimizers(
    tmp_path: Path, launcher: subprocess.Popen[str], forker: subprocess.Popen[str]
) -> None:
    """The survivor's tensors are of two steps then, its copy is of one (docs/adr/0020-copies-beside-replicas.md)."""
    (tmp_path / "lost-in-9").touch()
    party = Party(forker, tmp_path, "hit", shape="gan", gates=[8], spares=1)
    try:
        party.start(3)
        party.until(lambda: party.events("generation"))
        party.until_gate(8)
        party.until_spare()
        (tmp_path / "go-8").touch()
        party.until(lambda: party.events("done"))
        assert [(event["path"], event["step"]) for event in party.events("restore")] == [("memory", 9)]
    finally:
        party.close()
    assert not (tmp_path / "lost-in-9").exists()
    codes, said = launch(launcher, tmp_path, "gan", "whole")
    assert codes == [0, 0], said[-3000:]
    assert losses(tmp_path / "whole") == losses(tmp_path / "hit")
