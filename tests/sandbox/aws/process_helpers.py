"""What tests of the process and of its paths share: a state folder, and commands of local."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import process
from tests.support.emulator import ROOT


def local(state: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hyperpod_ray.cli", "local", *arguments, "--state", str(state)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def said(started: subprocess.Popen[str], *, code: int = 0) -> str:
    text, _ = started.communicate(timeout=600)
    assert started.returncode == code, text
    return text


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "aws"
    yield folder
    process.clear(folder)
