"""One screen of a long story: its steps with their times. Everything else that it prints goes into a log file."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

TAIL_BYTES = 4096
LINES_OF_A_FAILURE = 15
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass
class Step:
    """A step of the story."""

    title: str
    start: float | None = None
    seconds: float | None = None
    failed: bool = False
    log: Path | None = None
    facts: list[str] = field(default_factory=list)


class Screen:
    """The terminal, or short lines where there is none; file descriptors 1 and 2 write into the log until its end.

    Args:
        log: File of everything that is printed.
        steps: Titles of the steps, in order.
    """

    def __init__(self, log: Path, *, steps: Sequence[str]) -> None:
        self.log = log
        self.steps = [Step(title) for title in steps]
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        file = self._resources.enter_context(self.log.open("w", encoding="utf-8"))
        self._terminal = self._resources.enter_context(_redirected(file))
        self.console = Console(file=self._terminal, highlight=False, soft_wrap=not self._terminal.isatty())
        self.console.print(f"log: {self.log}", style="dim")
        if self.console.is_terminal:
            live = Live(self, console=self.console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False)
            self._resources.enter_context(live)
        return self

    def __exit__(self, *failure: object) -> None:
        self._resources.close()

    def begin(self, title: str, *, log: Path) -> None:
        """Begin a step that runs beside others until `step` waits for it.

        Args:
            title: The step.
            log: File of what it prints.
        """
        step = self._named(title)
        step.start, step.log = time.monotonic(), log

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A step, from here or from its beginning to the end of the block."""
        step = self._current = self._named(title)
        step.start = step.start or time.monotonic()
        print(f"\n=== {title}", flush=True)
        try:
            yield
        except BaseException:
            step.failed = True
            raise
        finally:
            step.seconds = time.monotonic() - step.start
            if not self.console.is_terminal:
                self.console.print(_line(step))
                for fact in step.facts:
                    self.console.print(f"           {fact}")

    def _named(self, title: str) -> Step:
        return next(step for step in self.steps if step.title == title)

    def fact(self, label: str, value: str) -> None:
        """What the step has shown."""
        self._current.facts.append(f"{label}: {value}")
        print(f"--- {label}: {value}", flush=True)

    @property
    def seconds(self) -> float:
        """Time since the screen's beginning."""
        return time.monotonic() - self._began

    def last_lines(self, count: int = LINES_OF_A_FAILURE, *, log: Path | None = None) -> list[str]:
        """The end of the log, or of a step's own, without colours."""
        path = log or self.log
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
        lines = [_CONTROL.sub("", line).rstrip() for line in text.splitlines()]
        return [line for line in lines if line][-count:]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The steps; below each that runs, the last line of its log."""
        for step in self.steps:
            yield _cut(_line(step), "bold red" if step.failed else "bold" if step.start else "dim")
            for fact in step.facts:
                yield _cut(f"           {fact}", "green")
            if step.start is not None and step.seconds is None:
                yield _cut(f"           {''.join(self.last_lines(1, log=step.log))}", "dim")


def _line(step: Step) -> str:
    if step.start is None:
        return f"           {step.title}"
    mark = "✗" if step.failed else "…" if step.seconds is None else "✓"
    seconds = time.monotonic() - step.start if step.seconds is None else step.seconds
    return f"{mark} {seconds:6.1f} s {step.title}"


def _cut(line: str, style: str) -> Text:
    return Text(line, style=style, no_wrap=True, overflow="ellipsis")


@contextlib.contextmanager
def _redirected(log: IO[Any]) -> Iterator[IO[str]]:
    """Descriptors 1 and 2 write into a file, also for child processes; the stream that leads where 1 led before."""
    sys.stdout.flush()
    sys.stderr.flush()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    saved = [os.dup(1), os.dup(2)]
    outside = os.fdopen(os.dup(saved[0]), "w", encoding=encoding, errors="replace", buffering=1)
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        yield outside
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in enumerate(saved, start=1):
            os.dup2(copy, number)
            os.close(copy)
        outside.close()
