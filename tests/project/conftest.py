"""Somebody's own project: the wheels of all distributions, installed elsewhere, and a folder that `init` made.

No index is asked: what the wheels need is read from the ready environments, by a path file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import paths
from tests.project.examples import check_package
from tests.project.story import Run

SOURCE = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = ("", "hyperpod_ray_rules", "hyperpod_ray_training", "hyperpod_ray_sandbox")
ANSWERS = ("--account", "111122223333", "--region", "us-west-2", "--type", "ml.g5.8xlarge", "--count", "2")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution, by the name of its package."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for name in DISTRIBUTIONS:
        subprocess.run(command, cwd=SOURCE / name, check=True, capture_output=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="session")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheels, and nothing of this checkout."""
    home = tmp_path_factory.mktemp("somewhere") / "venv"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    (site,) = (home / "lib").glob("python*/site-packages")
    packages = next((Path(sys.prefix).resolve() / "lib").glob("python*/site-packages"))
    # a path file in that folder, such as this checkout's editable install, is not followed
    (site / "dependencies.pth").write_text(f"{packages}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index"]
    # what is imported is compiled then
    subprocess.run([*pip, "--quiet", "--no-compile", *map(str, wheels.values())], check=True)
    # what pip would install with what the wheels need
    (home / "bin" / "node").symlink_to((Path(sys.prefix) / "bin" / "node").resolve())
    return home


@pytest.fixture(scope="session")
def run(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs an installed program in a folder, where `local setup` installed what is installed here."""
    home = tmp_path_factory.mktemp("home")
    (home / "cache").mkdir()
    tools = home / "cache" / "hyperpod-sandbox"
    tools.mkdir()
    for folder in (SOURCE / ".cache").iterdir():
        (tools / folder.name).symlink_to(folder.resolve())
    (tools / "venv").symlink_to(paths.VENV.resolve())
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PYTHON", "HYPERPOD_RAY_", "GIT_")) and name != "KUBECONFIG"
    }
    common = {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "HYPERPOD_RAY_DATE": os.environ["HYPERPOD_RAY_DATE"],
        "PATH": f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }

    def call(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        program = words if words[0] in ("git", "python", "cdk", "hyperpod-sandbox") else ("hyperpod-ray", *words)
        path = cwd / "node_modules" / ".bin" / "cdk" if program[0] == "cdk" else installed / "bin" / program[0]
        first = str(path) if path.exists() else program[0]
        return subprocess.run(
            [first, *program[1:]], cwd=cwd, env={**common, **more}, capture_output=True, text=True, timeout=900,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    return call


@pytest.fixture
def project(run: Run, installed: Path, tmp_path: Path) -> Path:
    """A project that `init` made, under version control and with its set-up done."""
    folder = tmp_path / "platform"
    done = run("init", str(folder), *ANSWERS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder / ".venv").symlink_to(installed)
    (folder / "node_modules").symlink_to(SOURCE / "node_modules")
    commit(run, folder, "first")
    return folder


def commit(run: Run, folder: Path, message: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    if not (folder / ".git").exists():
        run("git", "init", "--quiet", "--initial-branch=main", cwd=folder)
    run("git", "add", "--all", cwd=folder)
    done = run("git", *who, "commit", "--quiet", "--message", message, cwd=folder)
    assert done.returncode == 0, done.stderr


def install_check(folder: Path) -> Path:
    """Build and install the package with a check of one's own; the folder in which it is."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=check_package(folder), check=True, capture_output=True)
    (wheel,) = folder.glob("company*.whl")
    own = folder / "own"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(own)]
    subprocess.run([*pip, str(wheel)], check=True)
    return own
