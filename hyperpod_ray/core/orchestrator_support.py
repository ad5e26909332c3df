"""What each command does on each orchestrator: it works, needs no environment, or names what to use in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Orchestrator = Literal["eks", "slurm"]


@dataclass(frozen=True, kw_only=True)
class Instead:
    """A command that an orchestrator has no use for."""

    why: str
    """What is missing there; continues "environment 'x' is on Slurm: …"."""
    use: str
    """What to do in its place, with {env} for the environment."""


WORKS: Literal["works"] = "works"
APART: Literal["apart"] = "apart"
"""It reads no environment file."""
Decision = Literal["works", "apart"] | Instead

LOGIN = "hyperpod-ray nodes shell {env} NODE, on a login node, and there "
SBATCH = LOGIN + "sbatch --nodes N jobs/slurm/ray.sbatch finetune --name NAME; train.sbatch is torchrun: docs/slurm.md"
RUNS = LOGIN + "look into /fsx/runs/NAME"
JOBS = "jobs are Slurm's, without a Ray Jobs API"
NO_KUBERNETES = "there is no Kubernetes"
REHEARSE = "hyperpod-ray local slurm"

ON_SLURM: dict[str, Decision] = {
    # --- the environment file
    "env new": APART,
    "init": APART,
    "env check": WORKS,
    "env upgrade": WORKS,
    "env show": WORKS,
    "env needs": WORKS,
    "env schema": APART,
    "plan": WORKS,
    "plan --write": Instead(
        why="its file has no section training",
        use="hyperpod-ray plan {env}, without --write; give the run's save interval to sbatch",
    ),
    # --- deploy
    "preflight": WORKS,
    "capacity": WORKS,
    "review": WORKS,
    "diff": WORKS,
    "deploy": WORKS,
    "wait": WORKS,
    "teardown": WORKS,
    "manifests": Instead(why=NO_KUBERNETES, use="hyperpod-ray diff {env}, which shows what the stacks create"),
    "charts fetch": APART,
    "charts verify": APART,
    "image build-args": APART,
    "image pin": APART,
    "image lock": WORKS,
    # --- operate
    "status": WORKS,
    "status --web": WORKS,
    "nodes list": WORKS,
    "nodes show": WORKS,
    "nodes events": WORKS,
    "nodes check": WORKS,
    "nodes reboot": WORKS,
    "nodes replace": WORKS,
    "nodes remove": WORKS,
    "nodes drill": Instead(
        why="the drill is a label of Kubernetes",
        use="hyperpod-ray nodes reboot {env} NODE --when after-jobs; without an account: " + REHEARSE,
    ),
    "nodes free": Instead(
        why="there is no pod to free; Slurm requeues the jobs of a lost node by itself",
        use="hyperpod-ray nodes replace {env} NODE --when now",
    ),
    "nodes shell": WORKS,
    "logs": WORKS,
    "connect": Instead(
        why="there is no Ray dashboard",
        use="hyperpod-ray status {env} --web, with nodes and jobs; hyperpod-ray nodes shell {env} NODE, to log in",
    ),
    "cost": WORKS,
    "cost --so-far": WORKS,
    "cost --actual": WORKS,
    # --- train
    "submit": Instead(why=JOBS, use=SBATCH),
    "ray-job": Instead(why=NO_KUBERNETES, use=SBATCH),
    "runs list": WORKS,
    "runs show": WORKS,
    "runs logs": Instead(why=JOBS, use=LOGIN + "tail -f slurm-ID.out, in the folder in which sbatch was called"),
    "runs stop": Instead(why=JOBS, use=LOGIN + "scancel ID; the run saves and can be continued"),
    "runs compare": WORKS,
    "runs best": WORKS,
    "runs plot": WORKS,
    "runs pull": Instead(why=JOBS, use=RUNS),
    "runs export": Instead(
        why=JOBS,
        use=LOGIN + "srun python -m hyperpod_ray_training.export /fsx/runs/NAME /fsx/models/NAME",
    ),
    # --- this machine
    "data": APART,
    "demo": APART,
    "completion": APART,
    "local setup": APART,
    "local up": APART,
    "local down": APART,
    "local status": APART,
    "local env": APART,
    "local repair": APART,
    "local deploy": WORKS,
    "local destroy": WORKS,
    "local fail-node": APART,
    "local quota": APART,
    "local conformance": APART,
    "local inventory": APART,
    "local faults set": APART,
    "local faults clear": APART,
    "local faults list": APART,
    "local rehearse": Instead(why="it rehearses Ray's recovery", use=REHEARSE),
    "local slurm": APART,
    "local teams": Instead(why="it rehearses teams of a Ray cluster", use=REHEARSE),
    "local ray start": Instead(why="there is no RayCluster", use=REHEARSE),
    "local ray stop": APART,
    "local ray status": APART,
    "local ray bridge": APART,
    "local ray inject": APART,
    "local ray replace-node": APART,
}
"""Every command by its words; with an option where that decides. A command without a row fails the tests."""


DECISIONS = {"slurm": ON_SLURM}
"""Decisions of each orchestrator that some command has no use for."""


def instead(orchestrator: str, path: str, options: list[str]) -> tuple[str, Instead] | None:
    """The words that are refused on an orchestrator and what to use; None where the command works there."""
    decisions = DECISIONS.get(orchestrator, {})
    for words in (path, *(f"{path} {option}" for option in options)):
        replacement = decisions.get(words)
        if isinstance(replacement, Instead):
            return words, replacement
    return None


def undecided(path: str) -> bool:
    """Whether an orchestrator can refuse a command, so that the file has to be looked at first."""
    return any(
        isinstance(replacement, Instead) and words.split(" --")[0] == path for words, replacement in ON_SLURM.items()
    )
