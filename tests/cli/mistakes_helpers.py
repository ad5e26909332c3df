"""What tests of mistakes and of the synthesis share: a project that init wrote, and the form of a refusal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import forked

ANSWERS = ("--account", "111122223333", "--region", "us-west-2", "--type", "ml.g5.8xlarge", "--count", "2")


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return forked.command(*words, cwd=cwd)


def refused(done: subprocess.CompletedProcess[bytes], *said: str) -> None:
    """One message with its way out; nothing on stdout, no defect of the program."""
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert done.stdout == b""
    for words in (*said, "Expected ", "Fix: "):
        assert words in text
    assert "Traceback" not in text
    assert "internal error" not in text


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes") / "platform"
    done = run("init", str(folder), *ANSWERS, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def project(first: Path, tmp_path: Path) -> Path:
    """A project that `init` made."""
    return Path(shutil.copytree(first, tmp_path / "platform"))
