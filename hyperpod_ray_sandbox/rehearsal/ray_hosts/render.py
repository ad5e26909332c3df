"""`python -m hyperpod_ray_sandbox.rehearsal.ray_hosts.render ENV`: an environment's RayCluster as YAML.

A process of its own because cdk8s lives in the stack's environment and Ray in the rehearsal's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml


def render(environment: str) -> str:
    """The environment's RayCluster. Raises `hyperpod_ray.core.loader.EnvironmentFileError` for a bad file."""
    from hyperpod_ray.core import loader, names
    from hyperpod_ray.k8s.bindings import placeholders
    from hyperpod_ray.k8s.ray_cluster import ray_cluster

    name = Path(environment).stem if environment.endswith(".yaml") else environment
    folder = Path(os.environ.get(names.ENVIRONMENTS_VARIABLE) or loader.FOLDER)
    plan = loader.load(name, folder=folder).plan
    return yaml.safe_dump_all(ray_cluster(plan, placeholders(plan)).objects, sort_keys=False)


def main(argv: list[str]) -> int:
    """0, or 2 and one line a problem on stderr."""
    from hyperpod_ray.core.loader import EnvironmentFileError

    try:
        sys.stdout.write(render(argv[0]))
    except EnvironmentFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
