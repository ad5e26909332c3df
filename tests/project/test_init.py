"""A project of somebody's own, from the wheels: made, checked, synthesized, reviewed."""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
from pathlib import Path

import pytest
import yaml

from tests.project.conftest import ANSWERS, SOURCE, commit
from tests.project.story import Run

SAFE_ONLY = ("review", "--base", "main", "--fail-on", "weakens")

OTHERS = ("hyperpod-ray-training", "hyperpod-ray-sandbox")


def edit(project: Path, **changes: str) -> None:
    file = project / "environments" / "dev.yaml"
    text = file.read_text()
    for before, after in changes.items():
        changed = text.replace(before.replace("__", ": "), after)
        assert changed != text, before
        text = changed
    file.write_text(text)


def test_it_holds_what_a_project_needs(project: Path, run: Run) -> None:
    for name in ("test", "review", "deploy", "destroy"):
        workflow = yaml.safe_load((project / ".github" / "workflows" / f"{name}.yml").read_text())
        assert workflow["name"] == name
        assert "make " not in str(workflow)
    pins = (project / "requirements.txt").read_text()
    version = run("--version", cwd=project).stdout.split()[1]
    pinned = [line for line in pins.splitlines() if line.startswith("hyperpod-ray")]
    assert pinned == [f"{name}=={version}" for name in ("hyperpod-ray[deploy]", *OTHERS)]
    assert "{" not in pins + (project / "README.md").read_text()
    assert run("env", "check", cwd=project).stdout == "ok dev\n"


@pytest.mark.parametrize("content", ["README.md", ".gitignore", "environments/dev.yaml"])
def test_a_folder_in_use_is_refused(run: Run, tmp_path: Path, content: str) -> None:
    there = tmp_path / "mine" / content
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    done = run("init", "mine", *ANSWERS, cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing was written. Expected a new or empty folder" in done.stderr
    assert there.read_text() == "mine"
    assert len([path for path in (tmp_path / "mine").rglob("*") if path.is_file()]) == 1


def test_a_fresh_clone_of_an_empty_repository_is_taken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    run("git", "init", "--quiet", cwd=tmp_path / "mine")
    assert run("init", "mine", *ANSWERS, cwd=tmp_path).returncode == 0
    assert (tmp_path / "mine" / "app.py").is_file()


def test_wrong_answers_write_nothing(run: Run, tmp_path: Path) -> None:
    done = run("init", "mine", *ANSWERS[:-1], "2", "--account", "1111", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing was written" in done.stderr
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
def test_synthesis_and_its_own_lifecycle_step(project: Path, run: Run) -> None:
    def bucket_prefix() -> str:
        done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
        assert done.returncode == 0, done.stderr
        (template,) = (project / "cdk.out").glob("**/devHyperPod*.template.json")
        return json.dumps(json.loads(template.read_text())["Resources"])

    first = bucket_prefix()
    (project / "lifecycle").mkdir()
    (project / "lifecycle" / "after_create.sh").write_text("#!/bin/bash\ntrue\n")
    second = bucket_prefix()
    assert first != second
    scripts = list((project / "cdk.out").glob("asset.*/on_create.sh"))
    assert scripts
    assert (SOURCE / "lifecycle" / "on_create.sh").read_bytes() == scripts[0].read_bytes()


@pytest.mark.slow
def test_a_destroying_change_of_somebodys_own_repository_is_no_safe_one(project: Path, run: Run) -> None:
    """Its folder, its environments and its history: the group renamed, the storage replaced and deleted on destroy."""
    edit(project, name__workers="name: trainers", instance_group__workers="instance_group: trainers")
    edit(project, mode__static="mode: dynamic", on_destroy__retain="on_destroy: delete")
    done = run("review", "--base", "main", "--fail-on", "loses-nodes", "-o", "json", cwd=project)
    assert done.returncode == 3, done.stderr
    review = json.loads(done.stdout)
    assert review["verdict"] == "loses-nodes"
    (environment,) = review["environments"]
    codes = {row["code"] for row in environment["rows"]}
    assert "group-renamed" in codes or any("renamed" in row["change"] for row in environment["rows"])
    # from another folder too, by --environments
    folder = str(project / "environments")
    away = run("--environments", folder, "review", "dev", "--base", "main", "--fail-on", "loses-nodes", cwd=Path("/"))
    assert away.returncode == 3, away.stderr
    assert "renamed to trainers" in away.stdout
    commit(run, project, "rename")
    assert run(*SAFE_ONLY, cwd=project).returncode == 0  # nothing differs from main, which has the rename now
    assert run("review", "--base", "HEAD~1", "--head", "HEAD", "--fail-on", "loses-nodes", cwd=project).returncode == 3


@pytest.mark.slow
def test_the_projects_own_app_is_run(project: Path, run: Run) -> None:
    app = (project / "app.py").read_text()
    (project / "app.py").write_text(
        app.replace(
            'nothing."""\n',
            'nothing."""\n    import aws_cdk as cdk\n    from aws_cdk import aws_sqs as sqs\n'
            '    sqs.Queue(cdk.Stack(stage, "Company"), "Jobs")\n',
        )
    )
    done = run("review", "--base", "main", "-o", "json", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "Company" in done.stdout
    commit(run, project, "own stack")
    (project / "app.py").write_text(app)
    done = run("review", "--base", "main", cwd=project)
    assert "dev-Company" in done.stdout


@pytest.mark.slow
def test_a_read_only_repository_is_reviewed(project: Path, run: Run) -> None:
    edit(project, name__workers="name: trainers", instance_group__workers="instance_group: trainers")
    before = {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")}
    for path in (project / ".git").rglob("*"):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    done = run("review", "--base", "main", "--fail-on", "loses-nodes", cwd=project)
    assert done.returncode == 3, done.stderr
    assert {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")} == before


def refused(done_code: int, error: str, *words: str) -> None:
    assert done_code == 2, error
    assert "internal error" not in error
    assert "Traceback" not in error
    for word in (*words, "Expected", "Fix"):
        assert word in error


def test_what_cannot_be_reviewed_says_why(project: Path, run: Run, tmp_path: Path) -> None:
    done = run("review", "staging", "--base", "main", cwd=project)
    refused(done.returncode, done.stderr, "environment: 'staging'. Expected one of dev")
    done = run("review", "--base", "nope", cwd=project)
    refused(done.returncode, done.stderr, "a revision that this clone has")
    done = run("review", "--base", "main", cwd=tmp_path)
    refused(done.returncode, done.stderr, "no cdk.json in", "hyperpod-ray init FOLDER")
    (project / "package-lock.json").write_text("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n")
    done = run("review", "--base", "main", cwd=project)
    refused(done.returncode, done.stderr, "package-lock.json:1: conflict markers of a merge")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["env check", "review dev --base main", "charts fetch", "charts verify", "image pin", "env schema", "deploy dev"],
)
def test_without_a_project_no_verb_takes_the_products_files(run: Run, tmp_path: Path, words: str) -> None:
    done = run(*words.split(), cwd=tmp_path)
    refused(done.returncode, done.stderr, str(tmp_path), "hyperpod-ray init FOLDER")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", ["local ray start dev", "local ray stop", "local rehearse dev", "demo"])
def test_what_needs_the_products_checkout_says_so(project: Path, run: Run, words: str) -> None:
    before = sorted(project.rglob("*"))
    done = run(*words.split(), cwd=project)
    refused(done.returncode, done.stderr, "installed from wheels", "a checkout of the product", "local deploy ENV")
    assert sorted(project.rglob("*")) == before


def test_a_folder_without_history_says_so(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    assert run("init", str(folder), *ANSWERS, cwd=tmp_path).returncode == 0
    done = run("review", "--base", "main", cwd=folder)
    refused(done.returncode, done.stderr, f"{folder} is in no git repository")
    run("git", "init", "--quiet", cwd=folder)
    done = run("review", "--base", "main", cwd=folder)
    refused(done.returncode, done.stderr, "has no commit")


@pytest.mark.slow
def test_each_verb_works_with_the_projects_files(project: Path, run: Run) -> None:
    done = run("manifests", "dev", cwd=project)
    assert done.returncode in (0, 2), done.stderr
    assert (project / "dist" / "manifests" / "dev").is_dir()
    assert str(SOURCE) not in done.stdout + done.stderr
    done = run("env", "needs", "dev", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!-- Written by `hyperpod-ray env needs dev`")
    done = run("preflight", "dev", "--offline", cwd=project)
    assert "Traceback" not in done.stderr
    assert re.search(r"make (setup|charts)", done.stdout + done.stderr) is None


@pytest.mark.slow
def test_digests_are_recorded_in_the_project(project: Path, run: Run) -> None:
    """No registry answers here: what is recorded counts for the build."""
    base = "docker.io/rayproject/ray:2.60.0-py312-cu130"
    digest = "sha256:" + "1a" * 32
    note = run("env", "check", cwd=project).stderr
    assert base in note
    (project / "images.lock.yaml").write_text(yaml.safe_dump({"images": {base: digest}}))
    note = run("env", "check", cwd=project).stderr
    assert base not in note
    (installer,) = re.findall(r"aws-efa-installer-[\d.]+\.tar\.gz", note)
    (project / installer).write_bytes(gzip.compress(os.urandom(1 << 20)))
    done = run("image", "pin", "--only", "installer", "--installer", installer, cwd=project)
    assert done.returncode == 0, done.stderr
    assert installer in (project / "images.lock.yaml").read_text()
    done = run("env", "check", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false").returncode == 0
    (template,) = (project / "cdk.out").glob("**/devImage*.template.json")
    assert digest in template.read_text()
