"""What the wheels hold: one import name each, no module twice, everything that a project needs."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.project.conftest import SOURCE
from tests.project.story import Run

IMPORTS = """
import importlib, os, sys
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
failed = []
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print("\\n".join(failed))
"""


def names(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]


def test_each_wheel_has_one_import_name_and_no_two_share_a_file(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_training", "hyperpod_ray_sandbox"}
    owners: dict[str, str] = {}
    for distribution, wheel in wheels.items():
        for name in names(wheel):
            assert name.partition("/")[0] == distribution
            assert owners.setdefault(name, distribution) == distribution


def test_the_products_wheel_holds_what_a_project_needs(wheels: dict[str, Path]) -> None:
    inside = set(names(wheels["hyperpod_ray"]))
    for room in ("stacks", "constructs", "k8s", "lifecycle"):
        for path in (SOURCE / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and "node_modules" not in path.parts:
                assert f"hyperpod_ray/{path.relative_to(SOURCE)}" in inside
    for path in (SOURCE / "hyperpod_ray" / "locks").iterdir():
        assert f"hyperpod_ray/locks/{path.name}" in inside
    assert "hyperpod_ray/image/Dockerfile" in inside
    assert not any("__pycache__" in name for name in inside)


def test_the_sandboxs_wheel_holds_the_stand_ins(wheels: dict[str, Path]) -> None:
    inside = set(names(wheels["hyperpod_ray_sandbox"]))
    lock = yaml.safe_load((SOURCE / "hyperpod_ray_sandbox/charts/charts.lock.yaml").read_text())
    for chart in lock["charts"].values():
        assert f"hyperpod_ray_sandbox/charts/{chart['source']['folder']}/Chart.yaml" in inside
    assert "hyperpod_ray_sandbox/image/Dockerfile" in inside


@pytest.mark.slow
def test_every_module_imports_from_the_wheels(wheels: dict[str, Path], installed: Path, tmp_path: Path) -> None:
    modules = [
        re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".")
        for name in names(wheels["hyperpod_ray"])
        if name.endswith(".py") and not name.endswith("__main__.py") and "/template/" not in name
        if "/handlers/" not in name  # they run in AWS Lambda, each alone
    ]
    assert len(modules) > 300
    done = subprocess.run(
        [str(installed / "bin" / "python"), "-c", IMPORTS], input="\n".join(modules), cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "", done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_uninstalling_leaves_nothing(wheels: dict[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    before = {path.relative_to(home) for path in home.rglob("*")}
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", *map(str, wheels.values())], check=True)
    code = "import hyperpod_ray.core.names, hyperpod_ray_rules.names, hyperpod_ray_training, hyperpod_ray_sandbox.aws"
    subprocess.run([str(home / "bin" / "python"), "-c", code], cwd=tmp_path, check=True)
    names = [name.replace("_", "-") for name in wheels]
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", *names], check=True)
    assert {path.relative_to(home) for path in home.rglob("*")} == before


IN_PODS = {"fsspec", "ray", "torch"}
"""What programs import that run inside Ray, in the image."""


def imports_of(wheel: Path) -> set[str]:
    """The packages that the modules of a wheel import, functions included."""
    archive, packages = zipfile.ZipFile(wheel), set[str]()
    for name in names(wheel):
        if name.endswith(".py") and "/template/" not in name and "/handlers/" not in name:
            for node in ast.walk(ast.parse(archive.read(name))):
                if isinstance(node, ast.Import):
                    packages |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    packages.add(node.module.partition(".")[0])
    return packages - set(sys.stdlib_module_names)


def test_the_product_declares_what_it_imports(wheels: dict[str, Path]) -> None:
    """What pip brings, with all extras, is all that a command needs: nothing of the tests' requirements."""
    wheel = zipfile.ZipFile(wheels["hyperpod_ray"])
    (metadata,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    normal = re.compile("[-_.]+")
    declared = {
        normal.sub("-", name).lower() for name in re.findall(r"^Requires-Dist: ([\w.-]+)", metadata, re.MULTILINE)
    }
    declared |= {"hyperpod-ray", "hyperpod-ray-sandbox", "botocore"}  # boto3 is botocore's
    owners = importlib.metadata.packages_distributions()
    undeclared = {
        package
        for package in imports_of(wheels["hyperpod_ray"]) - IN_PODS
        if not {normal.sub("-", owner).lower() for owner in owners.get(package, [package])} & declared
        and normal.sub("-", package).lower() not in declared
    }
    assert undeclared == set()


def test_nothing_of_the_checkout_is_imported(run: Run, tmp_path: Path) -> None:
    code = "import hyperpod_ray.cli.main, hyperpod_ray_sandbox, hyperpod_ray_training, sys; "
    code += "print([m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)])"
    done = run("python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{SOURCE}/hyperpod_ray" not in done.stdout


def test_the_template_pins_the_same_cdk_cli(wheels: dict[str, Path]) -> None:
    del wheels
    import json

    own, ours = (
        json.loads((SOURCE / folder / "package-lock.json").read_text())["packages"]["node_modules/aws-cdk"]
        for folder in ("hyperpod_ray/template", ".")
    )
    assert own == ours
    pins = json.loads((SOURCE / "hyperpod_ray/template/package.json").read_text())
    assert pins["devDependencies"]["aws-cdk"] == own["version"]
