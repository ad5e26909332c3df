"""The training library is a distribution of its own: its wheel builds offline and imports without this project."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hyperpod_ray_training
from hyperpod_ray.core.version import full_version
from hyperpod_ray.image.context import stage
from hyperpod_ray.image.versions import choose

PROJECT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    subprocess.run([*PIP, "wheel", *options, str(PROJECT / "hyperpod_ray_training")], check=True, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_its_types(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "hyperpod_ray_training").rglob("*.py")}
    assert names == modules | {f"hyperpod_ray_training/{name}" for name in ("py.typed", "pyproject.toml")}


def test_it_imports_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([*PIP, "install", "--no-index", "--no-deps", "--target", str(site), str(wheel)], check=True)
    code = (
        "import hyperpod_ray_training, sys, importlib.metadata as m\n"
        "hyperpod_ray_training.Settings()\n"
        "print(hyperpod_ray_training.__file__, hyperpod_ray_training.__version__, m.version('hyperpod-ray-training'))\n"
        "ours = {'hyperpod_ray', 'hyperpod_ray_sandbox', 'hyperpod_ray_rules'}\n"
        "assert not ours & set(sys.modules)\n"
        "assert not {'torch', 'ray'} & set(sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"],
        cwd=empty,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [hyperpod_ray_training.__version__, full_version()]
    assert done.stdout.split() == [f"{site}/hyperpod_ray_training/__init__.py", *expected]


def test_the_image_has_another_tag_with_another_release_not_with_each_commit(tmp_path: Path) -> None:
    context, out = tmp_path / "context", tmp_path / "out"
    context.mkdir()
    stage(context, chosen=choose())
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=context / "hyperpod_ray_training", check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    assert built.name == f"hyperpod_ray_training-{hyperpod_ray_training.__version__}-py3-none-any.whl"


def test_the_image_installs_that_wheel() -> None:
    text = (PROJECT / "hyperpod_ray" / "image" / "Dockerfile").read_text(encoding="utf-8")
    assert (
        "pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /tmp/wheels /tmp/hyperpod_ray_training" in text
    )
    assert "pip install --no-cache-dir --no-index --no-deps /tmp/wheels/*.whl" in text
    # a folder on the path would come before a job's own packages of the same name
    assert "PYTHONPATH=/opt" not in text
