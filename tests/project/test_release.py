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
from tests.project.story import Run

WORKFLOW = SOURCE / ".github" / "workflows" / "release.yml"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_all_distributions_have_one_version() -> None:
    modules = (hyperpod_ray_rules, hyperpod_ray_sandbox, hyperpod_ray_training)
    assert {module.__version__ for module in modules} == {version.__version__}


def test_all_wheels_of_a_commit_have_its_version(wheels: dict[str, Path], run: Run, tmp_path: Path) -> None:
    expected = version._of_checkout(SOURCE)
    versions = {name: path.name.split("-")[1] for name, path in wheels.items()}
    assert versions == dict.fromkeys((name or "hyperpod_ray" for name in DISTRIBUTIONS), expected)
    for words in (["hyperpod-sandbox", "--version"], ["--version"]):
        done = run(*words, cwd=tmp_path)
        assert done.stdout.split()[-1:] == [expected], done.stderr


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


def test_a_commit_is_named_unless_it_is_the_release(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0"
    (tmp_path / "file").write_text("first")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    commit = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0+g{commit}"
    git(tmp_path, "tag", "v0.0.1")
    assert version._of_checkout(tmp_path).endswith(f"+g{commit}"), "a tag of another version is no release of this one"
    git(tmp_path, "tag", f"v{version.__version__}")
    assert version._of_checkout(tmp_path) == version.__version__
    (tmp_path / "file").write_text("second")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0+g{commit}.dirty"


@pytest.mark.parametrize(
    ("text", "numbers"), [("0.3.0", (0, 3, 0)), ("0.10.2-rc.1", (0, 10, 2)), ("1.0.0+g1", (1, 0, 0))]
)
def test_versions_are_compared_by_their_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version.release(text) == numbers


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
