"""`runs export`: the model of a checkpoint in `safetensors`, on this machine or by a job.

The command has neither torch nor the training library: it starts `hyperpod_ray_training.export` with a Python that has
both, or submits that line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import hyperpod_ray
from hyperpod_ray.core import job_file
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.runs import pull

MODULE = "hyperpod_ray_training.export"
PROBE = "import torch, safetensors, hyperpod_ray_training.export"


@dataclass(frozen=True, kw_only=True)
class Model:
    """Which part of a checkpoint, and beside which configuration."""

    rank: int | None = None
    prefix: str = ""
    like: str = ""
    lora_scaling: float | None = None

    def words(self) -> list[str]:
        """Options of the module."""
        rank = ["--rank", str(self.rank)] if self.rank is not None else []
        prefix = ["--prefix", self.prefix] if self.prefix else []
        scaling = ["--lora-scaling", str(self.lora_scaling)] if self.lora_scaling is not None else []
        return [*rank, *prefix, *(["--like", self.like] if self.like else []), *scaling]


def run(
    target: AnyTarget, name: str, *, selection: pull.Wanted, to: str, model: Model, source: Source, python: str
) -> int:
    """Copy the checkpoint where it is elsewhere, write its model, remove the copy."""
    folder = Path(to)
    pull.require_free_name(folder)
    program = _python(python)
    if "/" in name:
        return _write(program, name, folder, model=model)
    if source.here:
        return _write(
            program, pull.checkpoint_of(target, name, selection=selection, source=source), folder, model=model
        )
    copy = folder.with_name(f"{folder.name}.checkpoint")
    if copy.exists():
        checkpoint = copy.absolute()
        raise OpsError(
            f"{copy} is there: the checkpoint of an export that failed",
            expected="no such folder",
            fix=f"hyperpod-ray runs export {target.name} {checkpoint} --to {to}, or remove it",
            code=BAD_USE,
        )
    pull.fetch(target, name, selection=selection, to=copy, source=source)
    code = _write(program, str(copy), folder, model=model)
    shutil.rmtree(copy)
    return code


def submit(target: AnyTarget, name: str, *, selection: pull.Wanted, to: str, model: Model, source: Source) -> int:
    """The same by a job of the cluster, which reads and writes where the run does."""
    for option, folder in (("--to", to), ("--like", model.like)):
        if folder and not folder.startswith("/"):
            raise OpsError(
                f"{option}: {folder} is no folder of the cluster",
                expected="with --job, an absolute path there",
                fix=f"{option} /fsx/models/{Path(folder).name}",
                code=BAD_USE,
            )
    folder = name if "/" in name else pull.checkpoint_of(target, name, selection=selection, source=source)
    command = ["python", "-m", MODULE, folder, to, *model.words()]
    job = job_file.load(None, {"command": shlex.join(command)})
    return orchestrators.of(target).jobs.submit(
        job, runtime_env=None, submission_id="", address=source.address, wait=True
    )


def _python(chosen: str) -> str:
    """A Python with torch, safetensors and the training library.

    Raises:
        OpsError: It lacks one of them.
    """
    program = chosen or sys.executable
    try:
        probe = subprocess.run([program, "-c", PROBE], env=_environment(), capture_output=True, text=True, check=False)
        trouble = (probe.stderr.strip().splitlines() or ["it does not start"])[-1] if probe.returncode else ""
    except OSError as error:
        trouble = str(error)
    if trouble:
        raise OpsError(
            f"{program}: {trouble}",
            expected="a Python with torch, safetensors and hyperpod-ray-training",
            fix="name another with --python, use --job, or pip install torch safetensors hyperpod-ray-training",
            code=BAD_USE,
        )
    return program


def _environment() -> dict[str, str]:
    """This process's, where a checkout's folder also has the training library."""
    checkout = Path(hyperpod_ray.__file__).parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))}


def _write(program: str, source: str, to: Path, *, model: Model) -> int:
    command = [program, "-m", MODULE, source, str(to), *model.words()]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    said = [line.removeprefix("[resilience] ") for line in done.stderr.splitlines()]
    if done.returncode:
        failed, _, rest = (
            (said or [f"export: exit code {done.returncode}"])[-1].removeprefix("error: ").partition(". Expected ")
        )
        expected, _, fix = rest.partition(". Fix: ")
        raise OpsError(
            failed,
            expected=expected or "the model of a checkpoint",
            fix=fix.rstrip(".") or f"run it by hand: {shlex.join(command)}",
            code=BAD_USE if done.returncode == BAD_USE else CONDITION_FALSE,
        )
    for line in said:
        output.log(line)
    output.write_line(str(to))
    return OK
