from __future__ import annotations

import re
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.orchestrator_support import APART, ON_SLURM, Instead
from tests.cli.slurm_commands_helpers import NODES, PATHS, line
from tests.cli.test_one_command import problem
from tests.support.slurm_account import SlurmAccount

REFUSED = sorted(words for words, found in ON_SLURM.items() if isinstance(found, Instead))


def parameters(path: tuple[str, ...]) -> dict[str, Any]:
    return {param.name: param for param in NODES[path].params}


def reads_an_environment(path: tuple[str, ...]) -> bool:
    if path == ("init",):
        return False  # it names the environment that it writes
    return bool({"env", "names_"} & set(parameters(path)))


@pytest.mark.parametrize("words", sorted(PATHS))
def test_every_command_has_its_decision(words: str) -> None:
    """A new command without a row in hyperpod_ray/core/orchestrator_support.py fails here."""
    assert words in ON_SLURM
    assert (ON_SLURM[words] == APART) == (not reads_an_environment(PATHS[words]))


def test_every_decision_has_its_command() -> None:
    for words in ON_SLURM:
        path, _, option = words.partition(" --")
        assert path in PATHS, words
        if option:
            options = {name for parameter in parameters(PATHS[path]).values() for name in parameter.opts}
            assert f"--{option}" in options, words


@pytest.mark.parametrize("words", REFUSED)
def test_a_refusal_is_one_message_with_what_to_use(account: SlurmAccount, words: str) -> None:
    done = account.run(*line(words))
    assert (done.code, done.out) == (2, ""), done.err
    said = done.err.splitlines()
    assert len(said) == 2, done.err
    assert said[0].startswith(f"error: hyperpod-ray {words}: environment 'slurm' is on Slurm: ")
    assert said[1].startswith("Fix: ")
    assert "{env}" not in said[1]
    assert not account.calls
    assert not account.sessions


@pytest.mark.parametrize("words", REFUSED)
def test_what_to_use_instead_exists_and_works_on_slurm(words: str) -> None:
    found = ON_SLURM[words]
    assert isinstance(found, Instead)
    named = re.findall(r"hyperpod-ray ([^;,]+)", found.use)
    for text in named:
        assert problem(text.replace("{env}", "dev").replace("NODE", "i-0123456789abcdef0")) == "", text
        other = max((path for path in ON_SLURM if text.replace(" {env}", "").startswith(path)), key=len)
        assert not isinstance(ON_SLURM[other], Instead), text
    assert named or "sbatch" in found.use


def test_the_line_of_sbatch_is_that_of_the_page() -> None:
    found = ON_SLURM["submit"]
    assert isinstance(found, Instead)
    page = (FOLDER.parent / "docs" / "slurm.md").read_text(encoding="utf-8")
    assert "jobs/slurm/ray.sbatch finetune --name" in page
    assert "jobs/slurm/ray.sbatch finetune --name" in found.use
    assert {"ray.sbatch", "train.sbatch"} <= {path.name for path in (FOLDER.parent / "jobs/slurm").iterdir()}


def test_the_page_lists_every_refusal() -> None:
    page = (FOLDER.parent / "docs" / "slurm.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \| .+ \|$", page.partition("## Commands")[2].partition("\n## ")[0], re.MULTILINE)
    assert sorted(word for row in rows for word in re.findall(r"`([^`]+)`", row)) == REFUSED
