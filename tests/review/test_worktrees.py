from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.worktrees import FETCHED, _Repository, assemblies
from tests.review.command_helpers import calls, git


def says(folder: Path) -> str:
    return str(json.loads((folder / "manifest.json").read_text())["says"])


def test_two_revisions_are_synthesized_and_nothing_is_left(repository: Path) -> None:
    with assemblies("HEAD~1", "HEAD", project=repository) as made:
        assert (says(made.base), says(made.head)) == ("first", "second")
    assert not made.base.exists()
    assert git(repository, "worktree", "list").count("\n") == 0


def test_fetched_charts_travel_with_a_revision_and_the_repository_is_only_read(
    repository: Path, tmp_path: Path
) -> None:
    """Without them a side would have stand-ins, and differ from the other in every chart."""
    for folder in FETCHED:
        (repository / folder).mkdir(parents=True)
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    copy = _Repository.of(repository, repository / "environments").copy("HEAD~1", tmp_path / "copy")
    assert (copy.project / "stacks" / "word").read_text() == "first"
    for folder in FETCHED:
        assert (copy.project / folder).resolve() == repository / folder
    assert {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")} == before


def test_a_project_below_the_top_of_its_repository(repository: Path, tmp_path: Path) -> None:
    top = tmp_path / "monorepo"
    top.mkdir()
    shutil.copytree(repository, top / "infra", ignore=shutil.ignore_patterns(".git"))
    git(top, "init", "--quiet", "--initial-branch=main")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "first")
    (top / "infra" / "environments" / "x.yaml").write_text("other")
    (top / "README.md").write_text("no source of templates")
    with assemblies("main", None, project=top / "infra") as made:
        assert made.unchanged == ["y"]
        assert json.loads((made.base / "manifest.json").read_text())["files"] == {"x": "x"}
        assert json.loads((made.head / "manifest.json").read_text())["files"] == {"x": "other"}
        assert made.synths == 1
    (top / "infra" / "own.py").write_text("# a module of the app")
    with assemblies("main", None, project=top / "infra") as made:
        assert (made.unchanged, made.synths) == ([], 2)


def test_environment_files_of_another_repository_are_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with (
        pytest.raises(ReviewError, match="is outside of the repository"),
        assemblies("HEAD~1", None, project=repository, folder=tmp_path / "other"),
    ):
        pass


def test_the_working_tree_is_the_head(repository: Path) -> None:
    (repository / "stacks" / "word").write_text("not committed")
    with assemblies("HEAD", None, project=repository) as made:
        assert (says(made.base), says(made.head)) == ("second", "not committed")


def test_what_others_merged_is_no_part_of_the_review(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "feature")
    (repository / "environments" / "x.yaml").write_text("feature")
    git(repository, "commit", "--quiet", "-am", "feature")
    git(repository, "checkout", "--quiet", "main")
    (repository / "stacks" / "word").write_text("merged by others")
    git(repository, "commit", "--quiet", "-am", "others")
    git(repository, "checkout", "--quiet", "feature")
    with assemblies("main", None, project=repository) as made:
        assert says(made.base) == says(made.head) == "second"
        assert (made.unchanged, made.synths) == (["y"], 1)


def test_a_synth_that_fails_is_told_and_nothing_is_left(repository: Path) -> None:
    (repository / "stacks" / "broken").write_text("")
    with pytest.raises(ReviewError, match="broken on purpose"), assemblies("HEAD", None, project=repository):
        pass
    assert git(repository, "worktree", "list").count("\n") == 0


def test_an_unknown_revision_is_told(repository: Path) -> None:
    with pytest.raises(ReviewError, match="fetch the base first"), assemblies("nowhere", None, project=repository):
        pass


def files_of(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "manifest.json").read_text()).get("files", {}))


def test_a_changed_environment_file_is_one_synth(repository: Path) -> None:
    """Equal code: one process makes both sides, and only of the environment whose file differs."""
    (repository / "environments" / "x.yaml").write_text("changed")
    with assemblies("HEAD", None, project=repository) as made:
        assert (files_of(made.base), files_of(made.head)) == ({"x": "x"}, {"x": "changed"})
        assert made.unchanged == ["y"]
        assert made.synths == 1
    assert len(calls(repository)) == 2
    assert len(set(calls(repository))) == 1


def test_an_app_that_makes_one_assembly_a_process_runs_twice(repository: Path) -> None:
    text = (
        (repository / "app.py")
        .read_text()
        .replace("def main(*, outdir=None, context=None):", "def main(context=None):")
    )
    (repository / "app.py").write_text(text.replace("outdir or ", ""))
    git(repository, "commit", "--quiet", "-am", "older")
    (repository / "environments" / "x.yaml").write_text("changed")
    with assemblies("HEAD", None, project=repository) as made:
        assert (files_of(made.base), files_of(made.head)) == ({"x": "x"}, {"x": "changed"})
        assert made.synths == 2


def test_changed_code_is_made_by_each_sides_own(repository: Path) -> None:
    with assemblies("HEAD~1", "HEAD", project=repository) as made:
        assert made.synths == 2
        assert files_of(made.base) == files_of(made.head) == {"x": "x", "y": "y"}
    assert len(set(calls(repository))) == 2


def test_what_no_template_is_made_of_needs_no_synth(repository: Path) -> None:
    (repository / "README.md").write_text("text")
    with assemblies("HEAD", None, project=repository) as made:
        assert made.synths == 0
    assert calls(repository) == []


def test_a_new_file_of_code_is_changed_code(repository: Path) -> None:
    (repository / "stacks" / "new.py").write_text("")
    with assemblies("HEAD", None, project=repository) as made:
        assert made.synths == 2


def test_a_new_environment_is_compared_with_all(repository: Path) -> None:
    (repository / "environments" / "z.yaml").write_text("z")
    with assemblies("HEAD", None, project=repository) as made:
        assert (made.unchanged, sorted(files_of(made.head))) == ([], ["x", "y", "z"])


def test_a_head_that_goes_back_is_compared_with_the_base_itself(repository: Path) -> None:
    """A rollback: its merge base is the head, which would read as no change."""
    with assemblies("HEAD", "HEAD~1", project=repository) as made:
        assert (says(made.base), says(made.head)) == ("second", "first")
        assert "goes back" in made.notes[0]
    git(repository, "checkout", "--quiet", "--detach", "HEAD~1")
    with assemblies("main", None, project=repository) as made:
        assert (says(made.base), says(made.head)) == ("second", "first")


def test_work_that_is_behind_is_compared_with_where_it_began(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach", "HEAD~1")
    (repository / "environments" / "x.yaml").write_text("edited")
    with assemblies("main", None, project=repository) as made:
        assert files_of(made.base) == {"x": "x"}
        assert "behind main" in made.notes[0]


def test_an_environment_of_neither_side_is_refused_with_those_there_are(repository: Path) -> None:
    with (
        pytest.raises(ReviewError, match=r"environment: 'nowhere'\. Expected one of x, y\. Fix: correct the name"),
        assemblies("HEAD~1", "HEAD", project=repository, environment="nowhere"),
    ):
        pass
