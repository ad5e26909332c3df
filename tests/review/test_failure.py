"""A pull request whose file cannot be used gets a comment all the same; a harmless one gets a short comment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyperpod_ray.cli import review as command
from hyperpod_ray.cli.main import main
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.report import as_json, failure
from hyperpod_ray.review.report.differences import together
from hyperpod_ray.review.report.markdown import render
from hyperpod_ray.review.report.terminal import render as terminal
from hyperpod_ray.review.review import review
from tests.review.scenario import Assemble, Side
from tests.review.small import resources, write

PROBLEM = "hyperpod.instance_groups[1].count: -8 is too small. Expected 0 or more. Fix: correct the value"
NOISE = """\
[Warning at /prod/Eks] Supply a stack id () to look this up
Supply a stack id () …
83 feature flags are not configured. Run 'cdk flags' to learn more.
environments/prod.yaml:9: warning: budget: its mails go to nobody
"""


def synth_failed(folder: str, problem: str = PROBLEM) -> ReviewError:
    return ReviewError(
        f"'python app.py' failed in /tmp/x: exit code 2:\n{NOISE}/tmp/{folder}/prod.yaml:52: {problem}\n",
        expected="0",
        fix="correct the environment files of that revision",
    )


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("review-ab12_c/head-environments", "environments/prod.yaml:52"),
        ("review-ab12_c/head-source/environments", "environments/prod.yaml:52"),
        ("review-ab12_c/base-environments", "(base) environments/prod.yaml:52"),
    ],
)
def test_a_message_has_the_repositorys_own_path(folder: str, path: str) -> None:
    assert failure.messages(synth_failed(folder)) == [f"{path}: {PROBLEM}"]


def test_what_names_no_file_is_said_without_noise_and_folders() -> None:
    error = ReviewError(
        f"'python app.py' failed in /tmp/review-1/head-source: exit code 1:\n{NOISE}TypeError: x\n",
        expected="0",
        fix="y",
    )
    said = "\n".join(failure.messages(error).copy())
    assert "TypeError: x" in said
    assert "/tmp" not in said
    assert "feature flags" not in said
    assert "stack id" not in said


def test_the_comment_of_a_file_that_cannot_be_used() -> None:
    text = failure.markdown(synth_failed("review-1/head-environments", "``` <b>"), base="main", head="working tree")
    lines = text.splitlines()
    assert lines[0] == "<!-- ray-on-hyperpod review -->"
    assert lines[1] == "## ❌ Review: environments/prod.yaml cannot be used"
    assert "environments/prod.yaml:52: ` ` ` <b>" in lines
    assert "/tmp" not in text
    assert len(text.encode()) < 65_536


def test_the_comment_is_written_and_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise synth_failed("review-1/head-environments")

    monkeypatch.setattr(command, "_review", fails)
    out = tmp_path / "report.md"
    assert main(["review", "--base", "main", "--output", "markdown", "--out", str(out)]) == 2
    assert "environments/prod.yaml:52: " in out.read_text(encoding="utf-8")
    said = capsys.readouterr().err
    assert f"environments/prod.yaml:52: {PROBLEM}" in said
    assert "/tmp/review" not in said
    assert "feature flags" not in said


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


def test_a_harmless_tag_is_five_lines(assemble: Assemble) -> None:
    made = review(assemble("prod", Side()), assemble("prod", Side(set={"tags.stage": "production"})), only="prod")
    for text in (render(made), terminal(made)):
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= 5 + (text == terminal(made)), text
        assert "tags: stage prod → production" in text
    assert len(render(made).encode()) < 600


def test_equal_differences_are_one() -> None:
    same = ["@@ -1 +1 @@", "-a: 1", "+a: 2"]
    blocks = [(f"~ T{number}", [f"@@ -{number} @@", *same[1:]]) for number in range(7)] + [("~ other", ["+b: 1"])]
    shown = list(together(blocks))
    assert shown == [("~ T0 and 6 more: ~ T1, ~ T2, ~ T3…", same[1:]), ("~ other", ["+b: 1"])]


def test_a_chart_that_was_not_fetched_is_called_so(assemble: Assemble) -> None:
    edit = {"type": "Custom::AWSCDK-EKS-HelmChart", "id": "Dependencies"}
    absent = {"Properties.ChartAssetURL": "__remove__"}
    named = {**absent, "Properties.Chart": "hyperpod-helm-chart", "Properties.Version": "0.1.0"}
    sides = [Side(resources=[{**edit, "set": change}]) for change in (absent, named)]
    made = review(*(assemble("prod", side) for side in sides), only="prod")
    (row,) = [row for row in made.environments[0].rows if row.code == "release-upgraded"]
    assert row.change == "a chart that was not fetched → hyperpod-helm-chart 0.1.0"
