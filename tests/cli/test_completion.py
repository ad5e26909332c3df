"""Completion in real shells: a terminal, a prefix, the Tab key."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main

PROJECT = Path(__file__).resolve().parents[2]
MARKS = {
    "bash": ["complete -o default -F _hyperpod_ray_completion hyperpod-ray"],
    "zsh": ["#compdef hyperpod-ray", "compdef _hyperpod_ray_completion hyperpod-ray"],
    "fish": ["complete --command hyperpod-ray"],
}
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
LOAD = {
    "bash": "source <(hyperpod-ray completion bash)",
    "zsh": "source <(hyperpod-ray completion zsh)",
    "fish": "hyperpod-ray completion fish | source",
}
SECONDS = 600  # no assertion on speed: the machine may be busy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder on PATH with the command of this source tree."""
    program = tmp_path / "bin" / "hyperpod-ray"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{PROJECT}" exec "{sys.executable}" -m hyperpod_ray.cli "$@"\n')
    program.chmod(0o755)
    return program.parent


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command: list[str], *, path: str, home: Path) -> None:
        environment = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "> "}
        self.pid, self.master = pty.fork()  # a controlling terminal, which fish insists on
        if self.pid == 0:
            os.chdir(PROJECT)
            os.execvpe(command[0], command, environment)  # noqa: S606  (the shell itself)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> bool:
        """Read until a text came; whether it did."""
        end = time.monotonic() + SECONDS
        while text not in self.seen and time.monotonic() < end:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    break
                self.seen += data.decode(errors="replace")
                if b"\x1b[c" in data:  # fish asks what terminal this is
                    self.type("\x1b[?1;2c")
        return text in self.seen

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.mark.parametrize("shell", MARKS)
def test_the_script_of_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(mark in script for mark in MARKS[shell])
    assert "python" not in script


@pytest.mark.parametrize("shell", [shell for shell in START if shutil.which(shell)])
@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("hyperpod-ray teard\t--help", "Usage: hyperpod-ray teardown"),
        ("hyperpod-ray local ray replace-\t--help", "Usage: hyperpod-ray local ray replace-node"),
        ("hyperpod-ray env check loc\t", "ok local"),
    ],
)
def test_tab_completes_in_a_real_shell(shell: str, typed: str, shown: str, folder: Path, tmp_path: Path) -> None:
    terminal = Terminal(START[shell], path=f"{folder}:{os.environ['PATH']}", home=tmp_path)
    try:
        terminal.type(f"{LOAD[shell]}\necho load''ed\n")
        assert terminal.until("loaded\r\n") or terminal.until("loaded"), terminal.seen
        terminal.type(f"{typed}\n")
        assert terminal.until(shown), terminal.seen[-2000:]
    finally:
        terminal.close()


def test_a_shell_is_there_to_try() -> None:
    """Bash is what this project's Makefile runs on: one shell at least is tried for real."""
    assert shutil.which("bash")
