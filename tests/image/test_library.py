"""The training library is a distribution of its own: its wheel builds offline and imports without this project."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hyperpod_ray_training as resilience

PROJECT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    subprocess.run([*PIP, "wheel", *options, str(PROJECT / "resilience")], check=True, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_and_its_types(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "resilience").rglob("*.py")}
    assert names == modules | {"hyperpod_ray_training/py.typed"}


def test_it_imports_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([*PIP, "install", "--no-index", "--no-deps", "--target", str(site), str(wheel)], check=True)
    code = (
        "import resilience, sys, importlib.metadata as m\n"
        "hyperpod_ray_training.Settings()\n"
        "print(resilience.__file__, resilience.__version__, m.version('resilience'))\n"
        "ours = {'core', 'k8s', 'cli', 'ops', 'stacks', 'sandbox', 'rehearsal'}\n"
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
    assert done.stdout.split() == [f"{site}/resilience/__init__.py", resilience.__version__, resilience.__version__]


def test_the_image_installs_that_wheel() -> None:
    text = (PROJECT / "image" / "Dockerfile").read_text(encoding="utf-8")
    assert "pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /tmp/wheels /tmp/resilience" in text
    assert "pip install --no-cache-dir --no-index --no-deps /tmp/wheels/*.whl" in text
    # a folder on the path would come before a job's own packages of the same name
    assert "PYTHONPATH=/opt" not in text
