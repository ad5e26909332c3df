"""Where the RayCluster manifest comes from: a file, or the chart of an environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest, load, pick

STACK_PYTHON = Path(".venv") / "bin" / "python"


def manifest_of(environment: str, *, project: Path) -> Manifest:
    """The RayCluster of an environment (`local`, `dev`, …) as `k8s/` renders it, or of a manifest file.

    Rendering needs cdk8s, which is not in the rehearsal environment, so it runs in the stack's own.

    Raises:
        LocalError: no such environment, or it cannot be rendered; the renderer's own message.
    """
    if environment.endswith((".yaml", ".yml")) and Path(environment).parent.name != "environments":
        return load(Path(environment))
    python = project / STACK_PYTHON
    interpreter = str(python if python.exists() else sys.executable)
    done = subprocess.run(
        [interpreter, "-m", "hyperpod_ray_sandbox.rehearsal.ray_hosts.render", environment],
        cwd=project,
        # cdk8s needs Node.js, which the stack's environment carries
        env=os.environ | {"PATH": os.pathsep.join([str(Path(interpreter).parent), os.environ.get("PATH", os.defpath)])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalError.passed_on(
            (done.stderr.strip().splitlines() or ["rendering the raycluster failed"])[-1], code=done.returncode
        )
    return pick(yaml.safe_load_all(done.stdout), where=f"environment {environment}")
