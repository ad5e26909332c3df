"""A pull request whose file cannot be used gets a comment all the same; a harmless one gets a short comment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hyperpod_ray.cli import review as command
from hyperpod_ray.cli.main import main
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.report import as_json, failure
from hyperpod_ray.review.review import review
from tests.review.scenario import PROJECT, Assemble, Side
from tests.review.small import resources, write

PROBLEM = "hyperpod.instance_groups[1].count: -8 is too small. Expected 0 or more. Fix: correct the value"
NOISE = """\
[Warning at /prod/Eks] Supply a stack id () to look this up
Supply a stack id () …
83 feature flags are not configured. Run 'cdk flags' to learn more.
environments/prod.yaml:9: warning: budget: its mails go to nobody
"""


def synth_failed(path: str, problem: str = PROBLEM) -> ReviewError:
    return ReviewError(
        f"'python app.py' ended with exit code 2:\n{NOISE}{path}:52: {problem}",
        expected="exit code 0",
        fix="run it in a checkout of that revision",
    )


def test_what_names_no_file_is_said_without_noise_and_folders() -> None:
    error = ReviewError(
        f"'python app.py' ended with exit code 1:\n{NOISE}TypeError: \x1b[2Jx", expected="exit code 0", fix="run it"
    )
    said = "\n".join(failure.messages(error))
    assert "TypeError: \ufffd[2Jx. Expected exit code 0. Fix: run it" in said
    assert "feature flags" not in said
    assert "stack id" not in said


def test_the_comment_of_a_file_that_cannot_be_used() -> None:
    text = failure.markdown(synth_failed("environments/prod.yaml", "``` <b>"), base="main", head="working tree")
    lines = text.splitlines()
    assert lines[0] == "<!-- ray-on-hyperpod review -->"
    assert lines[1] == "## ❌ Review: environments/prod.yaml cannot be used"
    assert "environments/prod.yaml:52: ` ` ` <b>" in lines
    assert "its mails go to nobody" not in text
    assert len(text.encode()) < 65_536


def test_the_comment_is_written_and_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise synth_failed("environments/prod.yaml")

    monkeypatch.setattr(command, "_review", fails)
    out = tmp_path / "report.md"
    assert main(["review", "--base", "main", "--output", "markdown", "--out", str(out)]) == 2
    assert "environments/prod.yaml:52: " in out.read_text(encoding="utf-8")
    said = capsys.readouterr().err
    assert f"environments/prod.yaml:52: {PROBLEM}" in said
    assert said.startswith("error: environments/prod.yaml cannot be used; nothing was compared:")
    assert "feature flags" not in said


APP = """\
from pathlib import Path

from hyperpod_ray.stacks.app import synthesize


def main(*, outdir=None, context=None):
    return synthesize(Path(__file__).resolve().parent, outdir=outdir, context=context)


if __name__ == "__main__":
    raise SystemExit(main())
"""
TEAMS = """\
account: "111122223333"
region: eu-north-1
network: {availability_zone_ids: [eun1-az1, eun1-az2]}
hyperpod:
  cluster_name: fjord
  instance_groups:
    - {name: head, type: ml.m5.2xlarge, count: 2, threads_per_core: 2}
    - {name: gpu, type: ml.g5.8xlarge, count: 2}
ray:
  head: {instance_group: head}
  workers:
    - {name: gpu, instance_group: gpu, replicas: 2}
"""
SLURM = """\
account: "111122223333"
region: ap-northeast-1
orchestrator: slurm
network: {availability_zone_ids: [apne1-az1, apne1-az4]}
hyperpod:
  cluster_name: kumo
  instance_groups:
    - {name: controller, type: ml.m5.xlarge, count: 1, slurm: {role: controller}}
    - {name: gpu, type: ml.g5.8xlarge, count: 2, slurm: {role: compute, partitions: [gpu]}}
"""


@pytest.fixture(params=[("", "environments"), ("our infra", "clusters of ours")], ids=["top", "below"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Another repository's project, whose folders have other names, and its folder of environments."""
    project_name, folder = request.param
    top = tmp_path / "repo"
    project = top / project_name
    (project / folder).mkdir(parents=True)
    (project / "app.py").write_text(APP)
    (project / "cdk.json").write_text('{"app": "python app.py"}')
    (project / "lifecycle").mkdir()
    (project / "lifecycle" / "on_create.sh").write_text("true\n")
    (project / folder / "fjord.yaml").write_text(TEAMS)
    (project / folder / "kumo.yaml").write_text(SLURM)
    git(top, "init", "--quiet", "--initial-branch=main")
    commit(top)
    return project, folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(top: Path) -> None:
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "-m", "x")


def comment(project: Path, folder: str, *arguments: str) -> str:
    """What a pull request's comment says of a project that cannot be reviewed."""
    out = project.parent / "report.md"
    command_line = ["--environments", str(project / folder), "review", *arguments]
    with pytest.MonkeyPatch.context() as there:
        there.chdir(project)
        there.setenv("PYTHONPATH", str(PROJECT))  # this checkout, wherever the installed one is
        assert main([*command_line, "--output", "markdown", "--out", str(out)]) == 2
    return out.read_text(encoding="utf-8")


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.slow
def test_a_wrong_file_of_another_repository_has_its_own_path(
    theirs: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the working tree, in a revision, and in the base: never a folder of the machine."""
    project, folder = theirs
    place = Path(project.name if project.name != "repo" else "", folder).as_posix()
    top = project if project.name == "repo" else project.parent
    fjord, kumo = project / folder / "fjord.yaml", project / folder / "kumo.yaml"
    fjord.write_text(TEAMS.replace("count: 2}", "count: -8}"))
    kumo.write_text(SLURM.replace("partitions: [gpu]", "partitions: [DEFAULT]"))
    at = {
        name: line_of(path.read_text(), part)
        for name, path, part in (("fjord", fjord, "-8"), ("kumo", kumo, "DEFAULT"))
    }
    for revision in ((), ("--head", "HEAD")):
        if revision:
            commit(top)
        text = comment(project, folder, "--base", "HEAD~1" if revision else "HEAD", *revision)
        assert f"## ❌ Review: {place}/fjord.yaml, {place}/kumo.yaml cannot be used" in text
        for name, line in at.items():
            assert f"\n{place}/{name}.yaml:{line}: " in text
        assert "/tmp" not in text
        assert str(top) not in text
        assert f"{place}/fjord.yaml:{at['fjord']}: " in capsys.readouterr().err
    fjord.write_text(TEAMS)
    kumo.write_text(SLURM)
    text = comment(project, folder, "--base", "HEAD")
    assert f"\n(base) {place}/fjord.yaml:{at['fjord']}: " in text
    assert str(top) not in text


def test_a_limit_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "--base", "main", "--fail-on", "costs=ten"]) == 2
    assert "--fail-on: 'costs=ten'. Expected one of never" in capsys.readouterr().err


def test_json_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side = write(tmp_path / "a", {"A": resources(T={"Type": "AWS::SNS::Topic", "Properties": {}})})
    assert main(["review", "--base-assembly", str(side), "--head-assembly", str(side), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "review"
    assert document["schema_version"] >= 3
    assert document["format"] == as_json.FORMAT_VERSION


def test_a_chart_that_was_not_fetched_is_called_so(assemble: Assemble) -> None:
    edit = {"type": "Custom::AWSCDK-EKS-HelmChart", "id": "Dependencies"}
    absent = {"Properties.ChartAssetURL": "__remove__"}
    named = {**absent, "Properties.Chart": "hyperpod-helm-chart", "Properties.Version": "0.1.0"}
    sides = [Side(resources=[{**edit, "set": change}]) for change in (absent, named)]
    made = review(*(assemble("prod", side) for side in sides), only="prod")
    (row,) = [row for row in made.environments[0].rows if row.code == "release-upgraded"]
    assert row.change == "a chart that was not fetched → hyperpod-helm-chart 0.1.0"


# --- a project that `hyperpod-ray init` wrote, below the top of somebody's repository ---------------------------------

SYNTH_NOISE = ("Supply a stack id", "feature flags", "cdk acknowledge", "NOTICES", "Deprecat", "Traceback", "? ?")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "their repo"
    top.mkdir()
    monkeypatch.chdir(top)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    where = ["--account", "111122223333", "--region", "us-east-2", "--type", "ml.g5.48xlarge", "--count", "2"]
    assert main(["init", "research", *where]) == 0
    git(top, "init", "--quiet", "--initial-branch=main")
    commit(top)
    monkeypatch.chdir(top / "research")
    return top / "research"


def reviewed(project: Path) -> tuple[int, str]:
    """Exit code and comment of the working tree against what was committed."""
    out = project.parent / "report.md"
    code = main(["review", "--base", "HEAD", "--output", "markdown", "--out", str(out)])
    return code, out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_tag_of_a_written_project_is_five_lines(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written / "environments" / "dev.yaml"
    file.write_text(file.read_text() + "\ntags: {owner: lab}\n")
    capsys.readouterr()
    code, text = reviewed(written)
    printed = capsys.readouterr()
    assert code == 0
    assert len([line for line in text.splitlines() if line.strip()]) <= 5
    assert "tags: owner none → lab" in text
    assert [noise for noise in SYNTH_NOISE if noise in text + printed.out + printed.err] == []


@pytest.mark.slow
def test_a_wrong_file_of_a_written_project_has_its_path(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written / "environments" / "dev.yaml"
    good = file.read_text()
    for wrong, said in (
        ("\ntags: [owner]\n", "tags: "),
        ("\nstorage: [\n", "not valid YAML"),
        ("\ncolour: red\n", "colour"),
    ):
        file.write_text(good + wrong)
        capsys.readouterr()
        code, text = reviewed(written)
        assert code == 2
        assert "## ❌ Review: research/environments/dev.yaml cannot be used" in text
        assert "\nresearch/environments/dev.yaml:" in text
        assert said in text
        everything = text + capsys.readouterr().err
        assert "/tmp" not in everything
        assert str(written) not in everything
        assert [noise for noise in SYNTH_NOISE if noise in everything] == []
