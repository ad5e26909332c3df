"""Is Debian's Slurm on this machine?"""

from __future__ import annotations

import os
import shutil

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

INSTALL = "sudo apt-get install --no-install-recommends slurm-wlm munge"
PROGRAMS = ("slurmctld", "slurmd", "munged", "mungekey", "sbatch", "srun", "scontrol", "squeue", "sinfo")
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def found(program: str) -> str | None:
    """Path of a program, also where an ordinary user's PATH has no `sbin`."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SYSTEM}")


def why_not() -> str | None:
    """Why no Slurm can be started here, in one line; None where it can."""
    missing = [program for program in PROGRAMS if found(program) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}. Fix: {INSTALL}"
    if isolation.choose() == "session":
        return "no process namespaces on this system, which a node that can be lost needs. Fix: run as root"
    return None


def require() -> None:
    """LocalError where no Slurm can be started here."""
    missing = [program for program in PROGRAMS if found(program) is None]
    if missing:
        raise LocalError(
            f"Slurm is not installed: no {', '.join(missing)}", expected="Debian's slurm-wlm and munge", fix=INSTALL
        )
    if isolation.choose() == "session":
        raise LocalError(
            "Slurm: no process namespaces on this system",
            expected="them: a node that can be lost is one",
            fix="run as root, or allow user namespaces",
        )
