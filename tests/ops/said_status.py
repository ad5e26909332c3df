"""What `status` says of each fault: `status.txt`, for a person to read. `make records` writes it.

The services answer as they do in a healthy environment, whose JSON and whose screen stand whole. Each fault of the
runbook (`tests/support/faults.py`) stands with the properties and the lines of the screen that it changes.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from unittest import mock

from hyperpod_ray.ops import output, status
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.verdict import judge
from tests.ops.ops_status_tables_helpers import shown
from tests.support import records
from tests.support.answers import Answers
from tests.support.faults import FAULTS

FILE = Path(__file__).with_name("status.txt")
HEALTHY = "healthy"
TRAINS = "training runs"
TITLE = "What `status` says: of a healthy environment all, of each fault what differs."


def properties(snapshot: Snapshot) -> dict[str, str]:
    """The document of `status -o json`, property by property, and each line of the screen."""
    document = output.plain(status.as_data(snapshot, judge(snapshot)))
    with mock.patch.object(output, "now", return_value=snapshot.at):
        screen = [line.rstrip() for line in shown(snapshot).splitlines()]
    lines = {f"screen {number:02}": records.text_of(line) for number, line in enumerate(screen) if line.strip("─")}
    return dict(records.flat(document)) | lines


def today() -> records.Record:
    """Every line of the file."""
    record = {HEALTHY: properties(Answers().snapshot())}
    for fault in FAULTS:
        record |= of(fault.name, fault.answers().snapshot())
    return record


def of(fault: str, snapshot: Snapshot) -> records.Record:
    """What a fault changes: in an environment without a job, or where a run trains, whichever is more like it."""
    own = properties(snapshot)
    bases = {name: _differing(properties(base), own) for name, base in _bases().items() if name != fault}
    nearest = min(bases, key=lambda name: len(bases[name]))
    return {f"{fault}, beside {nearest}": bases[nearest]}


@functools.cache
def _bases() -> dict[str, Snapshot]:
    (trains,) = [fault for fault in FAULTS if fault.name == TRAINS]
    return {HEALTHY: Answers().snapshot(), TRAINS: trains.answers().snapshot()}


@functools.cache
def recorded() -> records.Record:
    """What the file holds."""
    return records.read(FILE.read_text(encoding="utf-8"))


def difference(record: records.Record) -> list[str]:
    """How a part of today's record differs from the file."""
    return records.differences({name: recorded().get(name, {}) for name in record}, record)


def _differing(healthy: dict[str, str], faulty: dict[str, str]) -> dict[str, str]:
    """What a fault changes. A line of the screen that only moved is none; a list is named by its elements."""
    usual = {text for path, text in healthy.items() if path.startswith("screen ")}
    changed = {
        path: text
        for path, text in faulty.items()
        if (text not in usual if path.startswith("screen ") else healthy.get(path) != text)
    }
    gone = sorted(path for path in healthy.keys() - faulty.keys() if not path.startswith("screen "))
    return changed | dict.fromkeys(gone, "nothing")


def write() -> int:
    """Write the file."""
    text = records.written(today(), title=TITLE)
    FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(text.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
