"""`python -m hyperpod_ray_sandbox.kubernetes.kueue.digests FOLDER`: write the sandbox's definitions of Kueue's kinds.

FOLDER holds Kueue's own `kueue.x-k8s.io_*.yaml` of `VERSION` (`config/components/crd/bases` of its repository, which is
under Apache License 2.0). A digest keeps what the API server checks: schemas, defaults, bounds and rules.
https://github.com/kubernetes-sigs/kueue
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_sandbox.charts import kuberay_crds

Json = dict[str, Any]

VERSION = "v0.19.2"
"""What the add-on v1.6.0-eksbuild.1 of HyperPod task governance packages."""
GROUP = "kueue.x-k8s.io"
SERVED = ("v1beta1", "v1beta2")
PLURALS = (
    "clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloadpriorityclasses", "workloads",
)  # fmt: skip
FOLDER = Path(__file__).parent / "crds"


@functools.cache
def definitions() -> tuple[Json, ...]:
    """Kueue's CustomResourceDefinitions, in the order of `PLURALS`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    paths = [FOLDER / f"{GROUP}_{plural}.yaml" for plural in PLURALS]
    return tuple(yaml.load(path.read_text(), Loader=loader) for path in paths)  # noqa: S506


def text(source: bytes, name: str) -> str:
    """The digest's file for the bytes of a CRD's file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = kuberay_crds.digest(yaml.load(source, Loader=loader), served=SERVED)  # noqa: S506
    origin = f"kubernetes-sigs/kueue {VERSION}, config/components/crd/bases/{name} (Apache License 2.0)"
    return kuberay_crds.written(crd, source, program=f"{__package__}.digests", origin=origin)


def main(argv: list[str] | None = None) -> int:
    """Write the digests; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hyperpod_ray_sandbox.kubernetes.kueue.digests", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="folder with Kueue's kueue.x-k8s.io_*.yaml")
    args = parser.parse_args(argv)
    for plural in PLURALS:
        file = args.folder / f"{GROUP}_{plural}.yaml"
        if not file.is_file():
            parser.error(f"no such file: {file}. Expected Kueue's CRDs. Fix: name the folder that has them")
        (FOLDER / file.name).write_text(text(file.read_bytes(), file.name))
    sys.stdout.write(f"wrote {len(PLURALS)} digests into {FOLDER}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
