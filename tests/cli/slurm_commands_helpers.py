"""What tests of `orchestrator_support`, `slurm_commands` share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_command_line import LEAVES, commands
from tests.support.slurm_account import NAME, SlurmAccount

NODES = dict(commands())
PATHS = {" ".join(path): path for path in LEAVES}


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    return SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch).install()


def line(words: str) -> list[str]:
    """A command line on the example: every required argument has a value."""
    path, _, option = words.partition(" --")
    given = []
    for param in NODES[PATHS[path]].params:
        if param.param_type_name == "argument" and (param.required or param.name in ("env", "names_")):
            given.append(NAME if param.name in ("env", "names_") else "x")
        elif param.required:
            given += [param.opts[0], "x"]
    return [*PATHS[path], *given, *([f"--{option}"] if option else [])]
