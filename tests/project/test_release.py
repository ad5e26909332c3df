"""A release: one version everywhere, elsewhere one that names its commit, and sources that build the same wheels."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import hyperpod_ray_rules
import hyperpod_ray_sandbox
import hyperpod_ray_training
from hyperpod_ray.core import version
from tests.project.conftest import DISTRIBUTIONS, SOURCE

WORKFLOW = SOURCE / ".github" / "workflows" / "release.yml"


def test_all_distributions_have_one_version() -> None:
    modules = (hyperpod_ray_rules, hyperpod_ray_sandbox, hyperpod_ray_training)
    assert {module.__version__ for module in modules} == {version.__version__}


def test_what_a_wheel_needs_takes_its_neighbours_of_the_same_commit(wheels: dict[str, Path]) -> None:
    needed = {}
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            for line in archive.read(name).decode().splitlines():
                if line.startswith("Requires-Dist: hyperpod-ray-"):
                    requirement = Requirement(line.partition(": ")[2])
                    needed[requirement.name] = requirement.specifier
    assert needed.keys() >= {"hyperpod-ray-rules", "hyperpod-ray-training"}
    for name, specifier in needed.items():
        assert specifier.contains(wheels[name.replace("-", "_")].name.split("-")[1], prereleases=True), name


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS, ids=lambda name: name or "hyperpod_ray")
def test_a_source_distribution_builds_the_same_wheel(name: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build"]
    subprocess.run([*build, "-t", "sdist", "-d", str(tmp_path)], cwd=SOURCE / name, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path / "source", filter="data")
    (folder,) = (tmp_path / "source").iterdir()
    subprocess.run([*build, "-t", "wheel", "-d", str(tmp_path)], cwd=folder, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    first = wheels[name or "hyperpod_ray"]
    assert built.name == first.name
    contents = [
        {member.filename: member.CRC for member in zipfile.ZipFile(wheel).infolist()} for wheel in (first, built)
    ]
    assert contents[0] == contents[1]
    # the tests, the documentation and other distributions are not in it
    assert not {path.name for path in folder.iterdir()} & {"tests", "docs", "benchmarks", ".github"}


def test_only_the_job_that_attests_may_sign_and_it_runs_nothing_of_the_repository() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {}
    build, attest = workflow["jobs"]["build"], workflow["jobs"]["attest"]
    assert build["permissions"] == {"contents": "read"}
    assert attest["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    assert attest["needs"] == "build"
    used = [step["uses"] for step in attest["steps"] if "uses" in step]
    assert not any("checkout" in action for action in used)
    assert any(action.startswith("actions/attest-build-provenance@") for action in used)
    for action in re.findall(r"uses: (\S+)", WORKFLOW.read_text()):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
