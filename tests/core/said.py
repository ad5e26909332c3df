"""What the rules say, word for word: `messages.txt`, for a person to read. `make records` writes it.

Each line is of a case of `test_checks_*.py`, `test_slurm_files.py` or `account/test_sabotaged.py`: the rule,
how bad it is, where, and the message. A changed word shows as a changed line; read it before you write the file again.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from hyperpod_ray.core import today

FILE = Path(__file__).with_name("messages.txt")


@functools.cache
def lines() -> frozenset[str]:
    """The file's lines."""
    return frozenset(FILE.read_text(encoding="utf-8").splitlines())


def line_of(rule: str, severity: str, path: str, message: str) -> str:
    """One line of the file."""
    return " | ".join((rule, severity, path, message.replace("\n", " ")))


def assert_said(line: str) -> None:
    """A line must be in the file, word for word."""
    if line in lines():
        return
    start = line.rpartition(" | ")[0]
    near = "\n".join(other for other in sorted(lines()) if other.startswith(start)) or "none of this rule and path"
    raise AssertionError(f"new words:\n{line}\nin {FILE.name}:\n{near}\nread them, then: make records")


def main() -> int:
    """Write the file."""
    from tests.core import test_environment_checks, test_slurm_files
    from tests.core.account import sabotage, test_sabotaged

    os.environ[today.VARIABLE] = sabotage.DAY
    written = {*test_environment_checks.said_by_cases(), *test_slurm_files.said_by_cases()}
    written |= {*test_sabotaged.said_by_cases()}
    FILE.write_text("".join(f"{line}\n" for line in sorted(written)), encoding="utf-8")
    sys.stdout.write(f"{len(written)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
