"""What `status` finds in each case, word for word: `findings.txt`, for a person to read. `make records` writes it.

Each line is a finding of a case of `test_ops_verdict.py`, or of a fault of the runbook (`tests/support/faults.py`): how
bad it is, what and why, since when and until when by the snapshot's clock, the next command, and what it is about. A
changed word shows as a changed line; read it before you write the file again.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.verdict import judge

FILE = Path(__file__).with_name("findings.txt")


@functools.cache
def recorded() -> dict[str, list[str]]:
    """The file's lines by case."""
    by_case: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        by_case.setdefault(line.partition(" | ")[0], []).append(line)
    return by_case


def lines_of(case: str, snapshot: Snapshot) -> list[str]:
    """What a verdict says, a line for each finding; one line where there is none."""

    def at(word: str, moment: datetime | None) -> str:
        return f"{word} {(moment - snapshot.at).total_seconds():+.0f} s" if moment else ""

    verdict = judge(snapshot)
    findings = [
        " | ".join(
            (
                *(case, finding.kind, finding.what, finding.why),
                *(at("since", finding.since), at("by", finding.expected_by)),
                *(finding.next, finding.subject, finding.recovery),
            )
        )
        for finding in verdict.findings
    ]
    without = [f"{case} | without | {source}" for source in verdict.without]
    return [*(findings or [f"{case} | {verdict.state}"]), *without]


def assert_said(case: str, snapshot: Snapshot) -> None:
    """A case's findings must be those of the file, word for word."""
    expected, said = recorded().get(case, []), lines_of(case, snapshot)
    if expected != said:
        lines = ["new findings:", *said, f"in {FILE.name}:", *expected, "read them, then: make records"]
        raise AssertionError("\n".join(lines))


def cases() -> Iterator[tuple[str, Snapshot]]:
    """Every case, with its snapshot."""
    from tests.ops import test_ops_verdict
    from tests.support.faults import FAULTS

    yield from ((name, case[0]) for name, case in test_ops_verdict.CASES.items())
    yield from test_ops_verdict.MORE.items()
    yield from ((f"fault: {fault.name}", fault.answers().snapshot()) for fault in FAULTS)


def main() -> int:
    """Write the file."""
    written = [line for case, snapshot in cases() for line in lines_of(case, snapshot)]
    FILE.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    sys.stdout.write(f"{len(written)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
