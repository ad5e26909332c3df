"""Each row once per epoch through kills, by the trained model itself: its parameters count the rows of kept steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spares_helpers import Party, alive
from test_spares import HELD

pytestmark = pytest.mark.slow
SAMPLES, EPOCHS, STEPS = 64, 3, 30
STEPS_OF_AN_EPOCH = 11


@pytest.fixture
def run(forker: subprocess.Popen[str], tmp_path: Path) -> Iterator[Callable[..., Party]]:
    """A run over rows on the file system."""
    pq.write_table(pa.table({"id": list(range(SAMPLES))}), tmp_path / "rows.parquet", row_group_size=9)
    made: list[Party] = []

    def make(**options: Any) -> Party:
        data = {"rows": str(tmp_path / "rows.parquet"), "epochs": EPOCHS, "samples": SAMPLES}
        made.append(Party(forker, tmp_path, "run", **data, **(HELD | options)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def seen(run: Party) -> list[list[float]]:
    found: list[list[float]] = json.loads((run.folder / "seen.json").read_text())
    return found


ONCE = [[1.0] * SAMPLES] * EPOCHS


def test_a_rank_is_killed_and_a_spare_takes_its_place(run: Callable[..., Party]) -> None:
    party = run()
    party.start(3)
    party.until_warm(1)
    party.strike(1)
    party.until_done()
    assert [event["path"] for event in party.events("restore")] == ["memory"]
    assert seen(party) == ONCE


def test_a_rank_is_killed_and_the_rest_goes_on_from_a_checkpoint_until_it_is_back(run: Callable[..., Party]) -> None:
    party = run(active=2, spares=0, least=1, every=3, gates=[8, 14])
    party.start(2)
    party.until(lambda: party.events("save"))
    party.strike(1)
    party.until(lambda: len(party.events("generation")) >= 2)
    party.until_gate(14)  # a move that comes before the test looks for a spare would not be seen
    party.start(1, first=2)
    party.until_spare()
    (party.folder / "go-14").touch()
    party.until_done()
    worlds = [event["world"] for event in party.events("step")]
    assert worlds[0] == 2
    assert 1 in worlds, "it went on with one rank"
    assert worlds[-1] == 2, "and with two again"
    begun = party.events("restore")[0]
    assert Path(begun["path"]).name.startswith("step-")
    assert begun["step"] % (SAMPLES // 6), "in the middle of an epoch"
    assert seen(party) == ONCE


@pytest.mark.parametrize("spares", [2, 0], ids=["spares", "checkpoint"])
def test_a_node_is_killed_with_all_of_its_ranks(run: Callable[..., Party], spares: int) -> None:
    """Every process of one host ends at once, with the copies in its memory: in the middle of an epoch."""
    party = run(active=4, spares=spares, per_node=2, least=2, every=3)
    party.start(4 + spares)
    party.until_warm(spares)
    party.until(lambda: party.events("save"))
    party.until_gate()
    ranks = party.events("generation")[-1]["ranks"]
    host = next(holder["node"] for holder in ranks.values())
    there = {holder["pid"] for holder in ranks.values() if holder["node"] == host}
    assert len(there) == 2
    assert len(ranks) == 4
    for pid in there:
        os.kill(pid, signal.SIGKILL)
    (party.folder / "go-8").touch()
    party.until_done()
    assert not any(alive(pid) for pid in there)
    after = party.events("generation")[-1]["ranks"]
    assert len(after) == 2 + spares
    assert host not in {holder["node"] for holder in after.values()}
    restored = party.events("restore")[0]
    assert (restored["path"] == "memory") == bool(spares)
    assert restored["step"] % STEPS_OF_AN_EPOCH, "in the middle of an epoch"
    assert seen(party) == ONCE
