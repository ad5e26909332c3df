"""Commands that Slurm has no use for, where another command reaches them: each names what to use in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.orchestrator_support import ON_SLURM, Instead
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.orchestrators.slurm.instead import refused_command
from hyperpod_ray.ops.orchestrators.slurm.jobs import SlurmJobs
from hyperpod_ray.ops.orchestrators.slurm.repair import SlurmRepair
from hyperpod_ray.ops.orchestrators.slurm.runs import SlurmRuns

TARGET: Any = SimpleNamespace(
    name="mine", plan=SimpleNamespace(settings=SimpleNamespace(orchestrator="slurm"))
)  # fmt: skip
PAGE = (FOLDER.parent / "docs" / "slurm.md").read_text(encoding="utf-8")
ANY: Any = None
CALLS: dict[str, Any] = {
    "submit": lambda: SlurmJobs(TARGET).submit(ANY, runtime_env=None, submission_id="", address="", wait=False),
    "runs logs": lambda: SlurmRuns(TARGET).log("x", following=False, source=ANY),
    "runs stop": lambda: SlurmRuns(TARGET).stop("x", yes=True, source=ANY, limit_s=1),
    "runs pull": lambda: SlurmRuns(TARGET).files("x", [], ANY),
    "nodes drill": lambda: SlurmRepair(TARGET, ANY).drill("x", action="replace", yes=True),
    "nodes free": lambda: SlurmRepair(TARGET, ANY).free("x", yes=True),
}
"""What the parts of Slurm refuse by themselves."""


@pytest.mark.parametrize("words", CALLS)
def test_a_part_refuses_with_the_words_of_the_page(words: str) -> None:
    """The page of Slurm lists the command, so that its refusal is no surprise."""
    with pytest.raises(OpsError) as refused:
        CALLS[words]()
    decided = ON_SLURM[words]
    assert isinstance(decided, Instead)
    assert refused.value.what == f"hyperpod-ray {words}: environment 'mine' is on Slurm: {decided.why}"
    assert refused.value.code == BAD_USE
    assert "{env}" not in refused.value.fix and "mine" in refused.value.fix
    assert f"`{words}`" in PAGE


def test_a_command_that_nobody_decided_leads_to_the_help() -> None:
    refused = refused_command(TARGET, "no such command")
    assert (refused.fix, refused.expected) == ("hyperpod-ray --help", "an environment with orchestrator eks")
