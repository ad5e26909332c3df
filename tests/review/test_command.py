"""The command: arguments, exit codes, forms of output, real worktrees."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.main import main as cli
from hyperpod_ray.planner.data import node_durations
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.report.failure import MARKER
from hyperpod_ray.review.report.markdown import LIMIT, render
from hyperpod_ray.review.review import review
from hyperpod_ray.review.worktrees import FETCHED, _Repository, assemblies
from tests.core.environment_files import changed
from tests.review.small import resources, write


def main(arguments: list[str]) -> int:
    return cli(["review", *arguments])


def cluster(count: int, recovery: str = "Automatic") -> dict[str, Any]:
    group = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
    properties = {"ClusterName": "c", "NodeRecovery": recovery, "InstanceGroups": [group]}
    return resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": properties})


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    base, head = write(tmp_path / "base", {"A": cluster(4)}), write(tmp_path / "head", {"A": cluster(3)})
    return ["--base-assembly", str(base), "--head-assembly", str(head)]


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ([], 0),
        (["never"], 0),
        (["loses-data"], 0),
        (["loses-nodes"], 3),
        (["rejected"], 3),
        (["interrupts"], 3),
        (["any-rejected"], 0),
        (["any-weakened"], 0),
        (["any-change"], 3),
        (["loses-data", "any-change"], 3),
    ],
)
def test_exit_codes(folders: list[str], fail_on: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*folders, *(part for on in fail_on for part in ("--fail-on", on))]) == code
    assert "compared in" in capsys.readouterr().err


def test_weakened_recovery_fails_when_asked(tmp_path: Path) -> None:
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": cluster(4, "None")})
    arguments = ["--base-assembly", str(base), "--head-assembly", str(head)]
    assert main([*arguments, "--fail-on", "interrupts"]) == 0
    assert main([*arguments, "--fail-on", "any-weakened"]) == 3
    assert main([*arguments, "--fail-on", "weakens"]) == 3


def test_json(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*folders, "--output", "json"])
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "loses-nodes"
    (environment,) = data["environments"]
    assert [row["code"] for row in environment["rows"]] == ["count-down"]
    assert environment["money"]["lines"][0]["before"] == "4 × ml.p5.48xlarge"
    assert environment["time"]["minutes"][1] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no revision to compare with"),
        (["--base-assembly", "x"], "Expected --base-assembly and --head-assembly together"),
        (["--base-assembly", "nowhere", "--head-assembly", "nowhere"], "no such file"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_an_unknown_environment_is_named_with_those_there_are(
    folders: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["other", *folders]) == 2
    assert "environment: 'other'. Expected one of env" in capsys.readouterr().err


def test_equal_assemblies_give_an_empty_report(tmp_path: Path) -> None:
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": cluster(4)})
    made = review(base, head)
    assert made.empty
    text = render(made)
    assert text.startswith(MARKER)
    assert "no change" in text
    assert "|" not in text


def test_a_new_environment_and_one_that_left(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "manifest.json").write_text('{"artifacts": {}}')
    full = write(tmp_path / "full", {"A": cluster(4)})
    assert [row.code for row in review(empty, full).environments[0].rows] == ["environment-added"]
    assert [row.code for row in review(full, empty).environments[0].rows] == ["environment-left"]


def test_safe_rows_are_folded_beneath_the_others(tmp_path: Path) -> None:
    extra = cluster(3, "None")
    group = {"InstanceGroupName": "more", "InstanceType": "ml.g5.48xlarge", "InstanceCount": 4}
    extra["Resources"]["Cluster"]["Properties"]["InstanceGroups"].append(group)
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": extra})
    text = render(review(base, head))
    assert (
        text.index("loses nodes | group workers")
        < text.index("NodeRecovery")
        < text.index("<details><summary>🟢 safe (1)")
        < text.index("4 ml.g5.48xlarge nodes created")
    )
    assert "loses nodes (1 ml.p5.48xlarge node), weakens security, recovery or alarms (1)" in text.splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("count", [300, 1500])
def test_a_comment_never_exceeds_githubs_limit(tmp_path: Path, count: int) -> None:
    def many(word: str) -> dict[str, Any]:
        tags = [{"Key": f"k{index}", "Value": word} for index in range(20)]
        keys = ({"Description": f"{word * 200} {index}", "Tags": tags} for index in range(count))
        return resources(
            **{f"K{index}": {"Type": "AWS::KMS::Key", "Properties": key} for index, key in enumerate(keys)}
        )

    text = render(review(write(tmp_path / "b", {"A": many("ä")}), write(tmp_path / "h", {"A": many("ö")})))
    assert len(text.encode()) <= LIMIT
    assert "mitted, because" in text or "cut off" in text
    assert "updated in place" in text.lower()


def test_a_report_too_long_for_its_tables_says_that_it_is_cut(tmp_path: Path) -> None:
    many = cluster(1)
    many["Resources"]["Cluster"]["Properties"]["InstanceGroups"] = [
        {"InstanceGroupName": f"g{count}", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
        for count in range(1, 40)
    ]
    text = render(review(write(tmp_path / "b", {"A": many}), write(tmp_path / "h", {"A": cluster(1)})), limit=8_000)
    assert len(text.encode()) <= 8_000
    assert "cut off here" in text
    assert "loses nodes (780 ml.p5.48xlarge nodes)" in text.splitlines()[1]


def test_markdown_takes_names_for_text(tmp_path: Path) -> None:
    def tagged(name: str) -> dict[str, Any]:
        group = {"InstanceGroupName": name, "InstanceType": "ml.p5.48xlarge", "InstanceCount": 1}
        properties = {"ClusterName": "c", "InstanceGroups": [group]}
        return resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": properties})

    base, head = write(tmp_path / "b", {"A": tagged("a")}), write(tmp_path / "h", {"A": tagged("<b>|@team #1")})
    (row,) = [line for line in render(review(base, head)).splitlines() if "renamed" in line]
    assert "<b>" not in row
    assert "\\|" in row
    assert "@team" not in row
    assert " #1" not in row


# --- the run in the section training ----------------------------------------------------------------------------------

SENTENCE = "goodput 98.6 % → 93.8 %, +16.5 days to the end"


def training(*, save: str, gib: int) -> str:
    """An environment file whose run a file system of 1000 MB/s per TiB and so much serves."""
    storage = {"capacity_gib": gib, "throughput_mbs_per_tib": 1000}
    edits = {
        "ray/workers/0/replicas": 8, "hyperpod/instance_groups/1/count": 8, "storage": storage,
        "training": {"model": "llama-3.1-70b", "tokens": "1T", "save": save},
    }  # fmt: skip
    return yaml.safe_dump(changed(edits))


def lustre(gib: int, throughput: int) -> dict[str, Any]:
    return {
        "Type": "AWS::FSx::FileSystem",
        "Properties": {
            "StorageCapacity": gib,
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": throughput},
        },
    }


def test_a_storage_change_says_what_it_does_to_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both assemblies are given: the run is that of the file as it is."""
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "env.yaml").write_text(training(save="sync", gib=9600))
    base, head = (
        write(tmp_path / name, {"Storage": resources(FileSystem=lustre(*size))})
        for name, size in (("base", (9600, 1000)), ("head", (1200, 250)))
    )
    arguments = [
        "--environments",
        str(environments),
        "review",
        "--base-assembly",
        str(base),
        "--head-assembly",
        str(head),
    ]
    for form in ("table", "markdown", "json"):
        assert cli([*arguments, "--output", form]) == 0
        assert SENTENCE in " ".join(capsys.readouterr().out.split())
    (environments / "env.yaml").write_text(training(save="async", gib=9600))
    assert cli(arguments) == 0
    assert "goodput 99.4 % → 99.1 %" in " ".join(capsys.readouterr().out.split())
    (environments / "env.yaml").unlink()
    assert cli(arguments) == 0
    assert "goodput" not in capsys.readouterr().out


# --- worktrees -------------------------------------------------------------------------------------------------------

APP = """
import json, os, pathlib
def main(*, outdir=None, context=None):
    out = pathlib.Path(outdir or os.environ["CDK_OUTDIR"]); out.mkdir(parents=True, exist_ok=True)
    context = context or json.loads(os.environ["CDK_CONTEXT_JSON"])
    if pathlib.Path("stacks/broken").exists():
        raise SystemExit("environments/x.yaml:3: broken on purpose")
    files = pathlib.Path(context["environments"])
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{os.getpid()}\\n")
    said = {path.stem: path.read_text() for path in files.glob("*.yaml")}
    word = pathlib.Path("stacks/word").read_text()
    (out / "manifest.json").write_text(json.dumps({"artifacts": {}, "says": word, "files": said}))
    return 0
if __name__ == "__main__":
    raise SystemExit(main())
"""


LUSTRE_APP = """
import json, os, pathlib, re
out = pathlib.Path(os.environ["CDK_OUTDIR"]); inner = out / "assembly-x"; inner.mkdir(parents=True)
text = (pathlib.Path(json.loads(os.environ["CDK_CONTEXT_JSON"])["environments"]) / "x.yaml").read_text()
size, rate = (int(re.search(name + r": (\\d+)", text)[1]) for name in ("capacity_gib", "throughput_mbs_per_tib"))
lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": rate}
system = {"Type": "AWS::FSx::FileSystem", "Properties": {"StorageCapacity": size, "LustreConfiguration": lustre}}
(inner / "S.template.json").write_text(json.dumps({"Resources": {"F": system}}))
stack = {"type": "aws:cloudformation:stack", "environment": "aws://111122223333/us-west-2", "displayName": "x/S",
         "properties": {"templateFile": "S.template.json", "stackName": "x-S"}}
(inner / "manifest.json").write_text(json.dumps({"artifacts": {"S": stack}}))
outer = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-x", "displayName": "x"}}
(out / "manifest.json").write_text(json.dumps({"artifacts": {"a": outer}}))
"""


def test_the_run_is_that_of_the_reviewed_revision(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the head where one is given, though the working tree has another run; else of the working tree."""
    node_durations()  # of this project, not of that repository
    (repository / "cdk.json").write_text("{}")
    file = repository / "environments" / "x.yaml"
    (repository / "environments" / "y.yaml").unlink()
    (repository / "app.py").write_text(LUSTRE_APP)
    (repository / "image").mkdir()
    (repository / "image" / "Dockerfile").write_text("FROM scratch")
    for gib in (9600, 1200):
        file.write_text(training(save="sync", gib=gib))
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "-m", str(gib))
    file.write_text(training(save="async", gib=1200))
    arguments = ["--environments", str(repository / "environments"), "review", "--base", "HEAD~1"]
    assert cli([*arguments, "--head", "HEAD"]) == 0
    assert "synchronous saves" in (out := " ".join(capsys.readouterr().out.split()))
    assert "asynchronous saves" not in out
    assert "goodput 98.6 % →" in out
    assert cli(arguments) == 0
    assert "asynchronous saves" in capsys.readouterr().out


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "stacks").mkdir()
    (folder / "environments").mkdir()
    (folder / "environments" / "x.yaml").write_text("x")
    (folder / "environments" / "y.yaml").write_text("y")
    (folder / "app.py").write_text(APP)
    for word in ("first", "second"):
        (folder / "stacks" / "word").write_text(word)
        if word == "first":
            git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", word)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


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


def calls(repository: Path) -> list[str]:
    file = repository.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []


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
