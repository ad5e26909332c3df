"""The whole suite, its two halves side by side: `python -m tests.run [pytest's arguments]`, which `make test` calls.

`tests/resilience` needs the interpreter with torch and Ray; everything else runs in this one. The output of the first
half is shown as it comes, that of the other at its end. The exit code is 1 when either fails. What the tests started
ends with this process, however it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandbox import leash

PROJECT = Path(__file__).resolve().parents[1]
REHEARSAL = PROJECT / ".venv-rehearsal" / "bin" / "python"
# tests wait for states of servers and of Ray for as long as they compute
WORKERS = max(4, 2 * (os.cpu_count() or 1))
NOTHING_COLLECTED = 5


@dataclass(kw_only=True)
class Half:
    """One pytest run."""

    name: str
    command: list[str]
    output: IO[bytes] | None = None
    process: subprocess.Popen[bytes] | None = None
    seconds: float = 0.0

    def start(self) -> None:
        """Start it, without a terminal and without input."""
        self.process = subprocess.Popen(
            self.command,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT if self.output else None,
        )

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than with every test passed."""
        return self.process is None or self.process.returncode not in (0, NOTHING_COLLECTED)


def main(arguments: list[str]) -> int:
    """Run both halves; 0 when both pass."""
    # a shell starts background jobs with SIGINT ignored, and the tests' processes would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    leash.hold()
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        halves = [
            Half(
                name="tests/resilience",
                command=[str(REHEARSAL), "-m", "pytest", "tests/resilience", *arguments],
                output=output,
            ),
            Half(
                name="all other tests",
                # the long files come first: see tests/conftest.py
                command=[
                    *(sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist", "loadfile"),
                    *("--no-loadscope-reorder", "tests", "--ignore=tests/resilience", *arguments),
                ],
            ),
        ]
        try:
            for half in halves:
                half.start()
            _wait(halves, start)
        except KeyboardInterrupt:
            _stop(halves)
            return 130
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    for half in halves:
        print(f"{half.name}: {'failed' if half.failed else 'passed'} in {half.seconds:.0f} s")
    print(f"the whole suite: {time.monotonic() - start:.0f} s (load {os.getloadavg()[0]:.1f})")
    return 1 if any(half.failed for half in halves) else 0


def _wait(halves: list[Half], start: float) -> None:
    running = list(halves)
    while running:
        for half in list(running):
            assert half.process is not None
            if half.process.poll() is not None:
                half.seconds = time.monotonic() - start
                running.remove(half)
        time.sleep(0.1)


def _stop(halves: list[Half]) -> None:
    """Let pytest end its fixtures; what is left after that ends with this process."""
    for number in (signal.SIGINT, signal.SIGKILL):
        for half in halves:
            if half.process and half.process.poll() is None:
                half.process.send_signal(number)
        deadline = time.monotonic() + 30
        while any(h.process and h.process.poll() is None for h in halves) and time.monotonic() < deadline:
            time.sleep(0.1)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
