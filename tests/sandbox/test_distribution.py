"""The sandbox as a distribution of its own: built as a wheel, installed elsewhere, used for something else.

No index is asked: what the wheel needs is read from `.venv-emulator`, by a path file. The Python example of the README
runs as it is.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import paths

pytestmark = pytest.mark.emulator
SANDBOX = paths.PACKAGE


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sandbox's wheel and that of the services' rules, which it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for source in (SANDBOX, paths.ROOT / "hyperpod_ray_rules"):
        subprocess.run(command, cwd=source, check=True, capture_output=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def wheel(wheels: dict[str, Path]) -> Path:
    return wheels["hyperpod_ray_sandbox"]


def test_the_wheel_has_every_module_and_its_data(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for path in SANDBOX.glob("*.py"):
        assert f"hyperpod_ray_sandbox/{path.name}" in inside
    for package in ("aws", "kubernetes", "rehearsal"):
        for path in (SANDBOX / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"hyperpod_ray_sandbox/{path.relative_to(SANDBOX)}" in inside
    assert not any("__pycache__" in name for name in inside)
    tops = {name.partition("/")[0] for name in inside}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hyperpod_ray_sandbox"}


def test_it_needs_what_its_lock_pins_and_nothing_else() -> None:
    project = tomllib.loads((SANDBOX / "pyproject.toml").read_text())["project"]
    server = project["optional-dependencies"]["server"]
    needed = {re.split(r"[=<>\[]", text)[0] for text in [*project["dependencies"], *server]}
    asked = {
        re.split(r"[=<>\[]", line)[0].strip()
        for line in (SANDBOX / "requirements.in").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    assert needed == asked | {"hyperpod-ray-rules"}
    imported = set()
    for path in SANDBOX.rglob("*.py"):
        if {"node_modules", "rehearsal"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    own = {"hyperpod_ray_sandbox", "hyperpod_ray_rules"}
    # name of the module by name of the distribution
    names = {"cel_expr_python": "cel-expr-python", "yaml": "pyyaml", "kubernetes_validate": "kubernetes-validate",
             "botocore": "boto3"}  # fmt: skip
    third = {names.get(name, name) for name in imported - own - set(sys.stdlib_module_names)}
    assert third - needed == set(), "what it imports, it asks for"


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and the packages of .venv-emulator in place of an index."""
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    (site,) = (home / "lib").glob("python*/site-packages")
    packages = next((paths.VENV.resolve() / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(f"{packages}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index"]
    # what is imported is compiled then
    subprocess.run([*pip, "--quiet", "--no-compile", *map(str, wheels.values())], check=True)
    return home


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PYTHON")) and k != "KUBECONFIG"}
    return {**kept, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.slow
def test_the_example_of_the_readme_runs_where_nothing_else_of_this_project_is(installed: Path, tmp_path: Path) -> None:
    """With the pytest and the Kubernetes client of this environment in place of an index's."""
    (example,) = re.findall(r"```python\n(.*?)```", (SANDBOX / "README.md").read_text(), re.DOTALL)
    (tmp_path / "test_hyperpod.py").write_text(example)
    variables = {**environment(tmp_path), "PYTHONPATH": str(Path(pytest.__file__).parents[1])}
    done = subprocess.run(
        [str(installed / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hyperpod.py"],
        cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert str(paths.ROOT) not in done.stdout + done.stderr


def test_the_printed_installation_is_one_that_pip_accepts() -> None:
    """A lock with hashes beside a wheel without one is refused, and a version that is printed grows old."""
    text = (SANDBOX / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("$ pip install")]
    assert lines
    lock = (SANDBOX / "requirements.txt").read_text()
    assert "--hash=sha256" in lock
    assert not any("requirements.txt" in line and ".whl" in line for line in lines)
    extra = tomllib.loads((SANDBOX / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cdk"]
    assert sum(all(pin in line for pin in extra) for line in lines) == 1


def test_its_own_command(installed: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(installed / "bin" / "hyperpod-sandbox"), *arguments, "--state", str(tmp_path / "aws")]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=900, check=False
        )

    assert run("status").returncode == 3
    up = run("up", "--region", "eu-west-1")
    assert up.returncode == 0, up.stderr
    assert f'eval "$(hyperpod-sandbox env --state {tmp_path / "aws"})"' in up.stderr
    try:
        assert "export AWS_REGION=eu-west-1" in run("env").stdout
        assert isinstance(json.loads(run("inventory").stdout), list)
        assert run("fail-node", "i-0").returncode == 1
    finally:
        assert run("down").returncode == 0
    assert run("status").returncode == 3
