"""The demo's screen: steps and times outside, everything else in a log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
STORY = """
import subprocess, sys
from pathlib import Path
from hyperpod_ray_sandbox.rehearsal.screen import Screen

try:
    with Screen(Path(sys.argv[1]), steps=["build", "break", "never"]) as screen:
        with screen.step("build"):
            for number in range(300):
                print("noise", number)
            subprocess.run(["sh", "-c", "echo of a child; echo its complaint >&2"], check=True)
            screen.fact("built", "8 stacks")
        with screen.step("break"):
            sys.stderr.write("\\x1b[31mlast words\\x1b[0m\\n")
            raise RuntimeError("as planned")
except RuntimeError:
    print("after", screen.last_lines(2))
"""


def story(log: Path, *, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, "-c", STORY, str(log)], env=variables, capture_output=True, encoding=encoding, check=False
    )


def test_without_a_terminal_a_step_is_a_line(tmp_path: Path) -> None:
    log = tmp_path / "below" / "demo.log"
    done = story(log)
    assert (done.returncode, done.stderr) == (0, "")
    first, build, fact, broken, after = done.stdout.splitlines()
    assert first == f"log: {log}"
    assert re.fullmatch(r"✓ +\d+\.\d s build", build)
    assert fact.strip() == "built: 8 stacks"
    assert re.fullmatch(r"✗ +\d+\.\d s break", broken)
    assert after == "after ['=== break', 'last words']"
    text = log.read_text(encoding="utf-8")
    for words in ("noise 299", "of a child", "its complaint", "last words", "=== build", "--- built: 8 stacks"):
        assert words in text


BESIDE = """
import sys, time
from pathlib import Path
from hyperpod_ray_sandbox.rehearsal.screen import Screen

own = Path(sys.argv[1] + ".own")
own.write_text("its own words\\n")
with Screen(Path(sys.argv[1]), steps=["build", "beside"]) as screen:
    screen.begin("beside", log=own)
    with screen.step("build"):
        time.sleep(0.3)
        print("words of the build")
        screen.fact("built", "8 stacks")
        screen.console.print(screen)
    with screen.step("beside"):
        screen.fact("done", "yes")
    whole = screen.seconds
build, beside = (step.seconds for step in screen.steps)
print(0.3 <= build < beside < whole)
"""


def test_a_step_beside_others_has_a_log_and_a_time_of_its_own(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", BESIDE, str(tmp_path / "log")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()]
    # while both run, each shows the last line of its own log; a fact is the step's in whose block it is said
    while_both_run = [re.sub(r" +[\d.]+ s ", " T s ", line) for line in lines[1:6]]
    assert while_both_run == [
        "… T s build", "built: 8 stacks", "--- built: 8 stacks", "… T s beside", "its own words",
    ]  # fmt: skip
    (build, beside) = (line for line in lines if line.startswith("✓"))
    assert lines[lines.index(build) + 1] == "built: 8 stacks"
    assert lines[lines.index(beside) + 1] == "done: yes"
    # its time begins where it began, before the other step
    assert lines[-1] == "True"


def test_a_terminal_that_is_not_utf_8(tmp_path: Path) -> None:
    done = story(tmp_path / "log", encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^\? +\d+\.\d s build$", done.stdout, re.MULTILINE)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_terminal_shows_one_screen(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    main, other = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm", "COLUMNS": "60", "LINES": "30"}
    process = subprocess.Popen([sys.executable, "-c", STORY, str(log)], env=variables, stdout=other, stderr=other)
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(main)
    assert process.wait() == 0
    text = shown.decode()
    assert "noise 17" not in text
    assert "of a child" not in re.sub(r"noise \d+", "", text).split("after")[-1]
    # a frame begins with as many lines up as the one before it has
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\x1b[1A", "\n")).replace("\r", "")
    lines = [line.rstrip() for line in last.splitlines() if line.strip()]
    assert lines[-1] == "after ['=== break', 'last words']"
    (build, fact, broken, never) = lines[-5:-1]
    assert re.fullmatch(r"✓ +\d+\.\d s build", build)
    assert fact.strip() == "built: 8 stacks"
    assert re.fullmatch(r"✗ +\d+\.\d s break", broken)
    assert never.strip() == "never"
    assert "noise 299" in log.read_text(encoding="utf-8")
