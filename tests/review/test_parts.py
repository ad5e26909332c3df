"""Single rules of the review, each on values of its own: releases, metrics, refusals, and stacks side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review import assembly, schemas
from hyperpod_ray.review import review as reviewed
from hyperpod_ray.review.assembly import Key
from hyperpod_ray.review.effects import eks, kubernetes, team_files
from hyperpod_ray.review.findings import Findings
from hyperpod_ray.review.kubernetes import Release
from hyperpod_ray.review.schedule import Minutes, _side_by_side
from tests.review.small import write

Json = dict[str, Any]
RELEASE = Release(
    name="kuberay", namespace="kuberay-operator", chart="kuberay-operator", version="1.7.0", content="abc",
    values={"a": 1}, where="Platform/Kuberay", key=Key("A", "Release"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("after", "change", "crds"),
    [
        ({"version": "1.8.0"}, "kuberay-operator 1.7.0 → 1.8.0", True),
        ({"version": "1.8.0", "content": "def"}, "kuberay-operator 1.7.0 → 1.8.0", True),
        ({"chart": "other"}, "kuberay-operator 1.7.0 → other 1.7.0", True),
        ({"values": {"a": 2}}, "values: a", False),
        ({"content": "def"}, "content of chart kuberay-operator 1.7.0", True),
        ({"version": "1.8.0", "values": {"a": 2}}, "kuberay-operator 1.7.0 → 1.8.0; values: a", True),
        ({"chart": "?", "version": "?"}, "kuberay-operator 1.7.0 → a chart that was not fetched", True),
        ({"where": "elsewhere"}, None, False),
    ],
)
def test_what_an_upgrade_of_a_release_is(after: Json, change: str | None, crds: bool) -> None:
    """https://helm.sh/docs/chart_best_practices/custom_resource_definitions/"""
    findings = Findings()
    kubernetes._release(RELEASE, replace(RELEASE, **after), findings)
    assert [row.change for row in findings.rows] == ([] if change is None else [change])
    assert ["Helm does not upgrade CRDs" in row.consequence for row in findings.rows] == (
        [] if change is None else [crds]
    )


def configuration(level: str, interval: int | None = 30) -> str:
    return json.dumps({"metricsProvider": {"gpu": {"level": level, "scrapeInterval": interval}}})


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        (configuration("ADVANCED"), configuration("BASIC"), ["gpu ADVANCED → BASIC"]),
        (configuration("BASIC"), configuration("DISABLED"), ["gpu BASIC → DISABLED"]),
        (configuration("BASIC"), "{}", ["gpu BASIC → DISABLED"]),
        (configuration("BASIC"), configuration("ADVANCED"), []),
        # what lasts a minute is missed by samples further apart
        (configuration("BASIC", 30), configuration("BASIC", 60), []),
        (configuration("BASIC", 30), configuration("BASIC", 61), ["gpu every 30 s → 61 s"]),
        (configuration("BASIC", 120), configuration("BASIC", 120), []),
        (configuration("BASIC", 120), configuration("BASIC", 121), ["gpu every 120 s → 121 s"]),
        (configuration("BASIC", 300), configuration("BASIC", 120), []),
        (configuration("DISABLED", 30), configuration("DISABLED", 300), []),
    ],
)
def test_fewer_metrics(before: str, after: str, less: list[str]) -> None:
    assert eks._fewer_metrics(before, after) == less


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 77 + "…"), (3, "3")]
)
def test_a_long_value_is_cut(value: Any, text: str) -> None:
    assert eks._short(value) == text


def stacks(**templates: Json) -> Json:
    return {name: {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, **more} for name, more in templates.items()}


def refusing(*operands: Any, why: str = "the chart was not fetched") -> Json:
    return {
        "Rules": {"Fetched": {"Assertions": [{"Assert": {"Fn::Equals": list(operands)}, "AssertDescription": why}]}}
    }


def read(folder: Path, listed: Json, **options: Any) -> assembly.EnvironmentAssembly:
    return assembly.read(write(folder, listed, **options))["env"]


@pytest.mark.parametrize(
    ("operands", "refused"),
    [(("a", "b"), True), (("a", "a"), False), (({"Ref": "P"}, "b"), False), (("a", {"Ref": "P"}), False)],
)
def test_a_template_that_refuses_whatever_its_parameters_are(
    operands: tuple[Any, ...], refused: bool, tmp_path: Path
) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html"""
    head = read(tmp_path, stacks(A=refusing(*operands)))
    assert reviewed.refusals(head) == ([("env-A", "the chart was not fetched")] if refused else [])


def test_what_could_not_be_deployed_before_is_one_short_note(tmp_path: Path) -> None:
    chart, image = refusing("a", "b"), refusing("a", "b", why="the image has no digest")
    base = read(tmp_path / "base", stacks(A=chart, B={}))
    head = read(tmp_path / "head", stacks(A=chart, B=image))
    (new, short) = reviewed._refusals(head, base)
    assert new == "env-B cannot be deployed as synthesized here (the image has no digest)"
    assert short == "charts were not fetched: versions and values were compared, contents were not"
    (alone,) = reviewed._refusals(base)
    assert alone.startswith("env-A cannot be deployed as synthesized here (the chart was not fetched); versions and")
    # one of two reasons is a chart: the note is about it
    both = read(tmp_path / "both", stacks(A=image, B=chart))
    assert reviewed._refusals(both, both) == [short]
    only_image = read(tmp_path / "image", stacks(A=image))
    assert reviewed._refusals(only_image, only_image) == []


@pytest.mark.parametrize(
    ("resource_type", "known", "create_only", "identifier"),
    [
        ("AWS::S3::Bucket", True, ("BucketName",), (("BucketName",),)),
        ("AWS::SQS::Queue", True, ("QueueName",), None),
        ("Custom::HyperPodNodesRunning", False, None, None),
        ("AWS::Nobody::Knows", False, None, None),
    ],
)
def test_what_the_registry_knows_of_a_type(
    resource_type: str, known: bool, create_only: tuple[str, ...] | None, identifier: Any
) -> None:
    found = schemas.rules(resource_type, "us-west-2")
    assert found.known is known
    assert create_only is None or create_only in found.create_only
    assert identifier is None or identifier in found.identifiers


def minutes(usual: float) -> Minutes:
    return Minutes(usual / 2, usual, usual * 2)


def test_a_stack_begins_when_the_slowest_that_it_needs_is_done(tmp_path: Path) -> None:
    """Network 5, then Eks 20 and Storage 10 at once, then Ray 3: 28 minutes, and not 38."""
    needs = {"Eks": ["Network"], "Storage": ["Network"], "Ray": ["Eks", "Storage"]}
    head = read(tmp_path, stacks(Network={}, Eks={}, Storage={}, Ray={}), depends=needs)
    names = {stack_id: stack.name.removeprefix("env-") for stack_id, stack in head.stacks.items()}
    took = {"Network": 5.0, "Eks": 20.0, "Storage": 10.0, "Ray": 3.0}
    ends = _side_by_side(head, {stack_id: (minutes(took[name]), []) for stack_id, name in names.items()})
    shown = {names[key]: (span.mid, [names[one] for one in way]) for key, (span, way) in ends.items()}
    assert shown == {
        "Network": (5, ["Network"]),
        "Eks": (25, ["Network", "Eks"]),
        "Storage": (15, ["Network", "Storage"]),
        "Ray": (28, ["Network", "Eks", "Ray"]),
    }
    without = _side_by_side(head, {key: (minutes(took[name]), []) for key, name in names.items() if name != "Eks"})
    assert {names[key]: span.mid for key, (span, _) in without.items()}["Ray"] == 18


def test_spans_in_words() -> None:
    assert [str(span) for span in (minutes(0.5), minutes(2), Minutes(3, 3, 3))] == [
        "under a minute",
        "1–4 min",
        "3 min",
    ]
    assert [span.usual for span in (minutes(0.2), minutes(2.4), minutes(2.6))] == ["1 min", "2 min", "3 min"]
    assert minutes(1) + minutes(3) == Minutes(2, 4, 8)


def test_users_of_teams_by_the_arguments_of_the_job() -> None:
    words = ["/fsx", "--", "vision", "1001", "runs/a", "runs/b", "--", "data", "speech", "1002", "--", ""]
    assert dict(team_files._parsed(words)) == {"vision": ("1001", ["runs/a", "runs/b"]), "speech": ("1002", [])}
    assert dict(team_files._parsed(["/fsx", "runs"])) == {}


@pytest.mark.parametrize("late", [False, True])
def test_a_folder_that_moves_to_a_team(late: bool) -> None:
    row = team_files._moves("vision", "runs/a", "Storage", late=late)
    assert row.change == "runs/a → teams/vision/runs/a"
    assert ("Nothing moves: the team has its folder already" in row.consequence) is late
    assert ("It is renamed in the file system" in row.consequence) is not late
    assert (row.unavailable == "") is late


GROUP = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/ours"}}
TRAIL = {"Type": "AWS::Logs::MetricFilter", "Properties": {"LogGroupName": "/ours", "FilterPattern": "x"}}


@pytest.mark.parametrize(
    ("base", "taken"), [({"Trail": TRAIL}, True), ({"Trail": TRAIL, "Old": GROUP}, False), ({}, False)]
)
def test_a_name_that_exists_and_belongs_to_no_stack(base: Json, taken: bool, tmp_path: Path) -> None:
    topic = {"Topic": {"Type": "AWS::SNS::Topic"}}
    sides = [
        write(tmp_path / name, {"A": {"Resources": {**topic, **base, **more}}})
        for name, more in (("base", {}), ("head", {"New": GROUP}))
    ]
    (environment,) = reviewed.review(*sides).environments
    assert any(row.code == "name-taken" for row in environment.rows) is taken
