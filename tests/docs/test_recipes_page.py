"""docs/recipes.md: each recipe of jobs/ is there, and its folder holds what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import recipe_losses
from hyperpod_ray.core import job_file

PROJECT = Path(__file__).resolve().parents[2]
JOBS = PROJECT / "jobs"
PAGE = (PROJECT / "docs" / "recipes.md").read_text(encoding="utf-8")
FOLDERS = re.findall(r"^\| \[(\w+)\]\(\.\./jobs/\1/README\.md\) \|", PAGE, re.MULTILINE)
PARTS = {"job.yaml", "README.md", "loss.csv", "loss.svg"}
LIBRARY = (PROJECT / "hyperpod_ray_training" / "run.py").read_text(encoding="utf-8")
TESTS = (PROJECT / "tests" / "resilience" / "test_recipes.py").read_text(encoding="utf-8")
LOCKED = dict(
    re.findall(r"^([a-z0-9-]+)==(\S+)", (PROJECT / "requirements" / "rehearsal.txt").read_text(), re.MULTILINE)
)


def test_the_page_has_each_folder() -> None:
    """`slurm` starts the others on Slurm, and trains nothing itself."""
    folders = {path.name for path in JOBS.iterdir() if path.is_dir() and not path.name.startswith(("_", "."))}
    assert sorted(FOLDERS) == sorted(folders - {"slurm"})
    assert len(FOLDERS) == 8
    assert "[slurm](../jobs/slurm/" in PAGE


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_says_what_to_expect_and_is_run_by_a_test(name: str) -> None:
    assert {path.name for path in (JOBS / name).iterdir()} >= PARTS
    readme = (JOBS / name / "README.md").read_text(encoding="utf-8")
    assert {"## What to expect", "## Limits"} <= set(readme.splitlines())
    assert f"hyperpod-ray submit ENV -f jobs/{name}/job.yaml" in readme
    assert f'"{name}"' in TESTS


@pytest.mark.parametrize("name", FOLDERS)
def test_the_figures_are_those_of_the_recorded_run(name: str) -> None:
    """`tests/resilience/test_recipes.py` compares the record with a run; here the README and the picture with it."""
    curve = recipe_losses.losses(name)
    readme = (JOBS / name / "README.md").read_text(encoding="utf-8").partition("## What to expect")[2]
    table = re.search(r"\n\| step \|(.*)\|\n\|[-|]+\n\| loss \|(.*)\|\n", readme)
    assert table
    shown = [[float(cell) for cell in row.split("|")] for row in table.groups()]
    assert len(shown[0]) >= 3
    assert (shown[0][0], shown[0][-1]) == (curve[0][0], curve[-1][0])
    assert [dict(curve)[int(step)] for step in shown[0]] == pytest.approx(shown[1], abs=0.0051)
    for figure in re.findall(r"here (\d\.\d)", readme):
        assert float(figure) == pytest.approx(curve[0][1], abs=0.1)
    (line,) = re.findall(r'<polyline points="([^"]+)"', (JOBS / name / "loss.svg").read_text(encoding="utf-8"))
    assert len(line.split()) == len(curve)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_script_knows_each_option_of_the_job_file(name: str) -> None:
    job = job_file.load(JOBS / name / "job.yaml", {}).job
    (script,) = (word for word in job.words if word.endswith(".py"))
    text = (JOBS / name / script).read_text(encoding="utf-8") + LIBRARY
    unknown = [option for option in re.findall(r"--[a-z][a-z-]+", job.command) if f'"{option}"' not in text]
    assert unknown == []


@pytest.mark.parametrize("name", FOLDERS)
def test_packages_have_the_versions_that_the_tests_ran_with(name: str) -> None:
    texts = [(JOBS / name / file).read_text(encoding="utf-8") for file in ("job.yaml", "README.md")]
    named = re.findall(r"\b([a-z][a-z0-9-]+)==([\w.]+)", "\n".join(texts))
    assert {package: version for package, version in named if LOCKED.get(package) != version} == {}
