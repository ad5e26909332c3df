"""docs/recipes.md: each recipe of jobs/ is there, and its folder holds what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperpod_ray.core import job_file

PROJECT = Path(__file__).resolve().parents[2]
JOBS = PROJECT / "jobs"
PAGE = (PROJECT / "docs" / "recipes.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \[(\w+)\]\(\.\./jobs/\1/([\w.]+)\) \|", PAGE, re.MULTILINE))
FOLDERS = [name for name, file in ROWS.items() if file == "README.md"]
LIBRARY = (PROJECT / "hyperpod_ray_training" / "run.py").read_text(encoding="utf-8")
TESTS = (PROJECT / "tests" / "resilience" / "test_recipes.py").read_text(encoding="utf-8")
LOCKED = dict(
    re.findall(r"^([a-z0-9-]+)==(\S+)", (PROJECT / "requirements" / "rehearsal.txt").read_text(), re.MULTILINE)
)


def test_the_page_has_each_folder() -> None:
    scripts = {path.parent.name for path in JOBS.glob("*/*.py")}
    assert ROWS.keys() == scripts
    assert len(FOLDERS) >= 6


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_says_what_to_expect_and_is_run_by_a_test(name: str) -> None:
    readme = (JOBS / name / "README.md").read_text(encoding="utf-8")
    assert {"## What to expect", "## Limits"} <= set(readme.splitlines())
    assert f"hyperpod-ray submit ENV -f jobs/{name}/job.yaml" in readme
    assert f'"{name}"' in TESTS
    if (JOBS / name / "train.py").exists():
        assert "(loss.svg)" in readme
        assert len(re.findall(r"<(path|polyline|line) ", (JOBS / name / "loss.svg").read_text(encoding="utf-8"))) > 2


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
