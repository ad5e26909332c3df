from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.review import assembly
from hyperpod_ray.review.schedule import Minutes, _group, _side_by_side, first_deploy, load_durations
from tests.review.parts_helpers import read, stacks
from tests.review.scenario import Assemble, Side
from tests.review.small import resources, write


def test_durations_have_sources_and_spans() -> None:
    table = load_durations()
    for name, entry in {**table["types"], "default": table["default"]}.items():
        assert entry["source"], name
        for action in ("create", "update", "delete"):
            low, mid, high = entry[action]
            assert 0 <= low <= mid <= high, name
    for name, entry in table["nodes"].items():
        assert entry["source"] and entry["minutes"] == sorted(entry["minutes"]), name
        assert len(entry["minutes"]) == 3, name


def test_checks_of_the_head_group_hold_up_what_needs_its_nodes(tmp_path: Path) -> None:
    group = {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.8xlarge", "InstanceCount": 2}
    cluster = {
        "Type": "AWS::SageMaker::Cluster",
        "Properties": {
            "NodeProvisioningMode": "Continuous",
            "InstanceGroups": [{**group, "OnStartDeepHealthChecks": ["InstanceStress"]}],
        },
    }
    first = {"Type": "Custom::HyperPodNodesRunning", "DependsOn": ["C"], "Properties": {"InstanceGroupName": "gpu"}}
    folder = write(tmp_path, {"HyperPod": resources(C=cluster, N=first)})
    made = first_deploy(assembly.read(folder)["env"])
    assert made is not None
    assert made.nodes == []
    assert made.side_by_side.mid == pytest.approx(80.3)


def test_four_stacks_at_once_are_enough(assemble: Assemble) -> None:
    """`make deploy` works on four: with more at once, the figure would be for another command."""
    head = assembly.read(assemble("prod", Side()))["prod"]
    made = first_deploy(head)
    assert made is not None
    ends: dict[str, float] = {}
    spans = []
    for stack in head.stacks.values():
        start = max((ends[other] for other in stack.depends_on), default=0.0)
        ends[stack.id] = start + made.each[stack.name].mid
        spans.append((start, ends[stack.id]))
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) <= 4


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


@pytest.mark.parametrize(
    ("count", "largest", "wait_s", "batches", "pauses_min"),
    [
        (4, {"Type": "INSTANCE_COUNT", "Value": 1}, 600, 4, 30),
        (4, {"Type": "INSTANCE_COUNT", "Value": 2}, 600, 2, 10),
        (5, {"Type": "INSTANCE_COUNT", "Value": 2}, 3600, 3, 120),
        (8, {"Type": "CAPACITY_PERCENTAGE", "Value": 25}, 300, 4, 15),
        (8, {"Type": "INSTANCE_COUNT", "Value": 1}, 0, 8, 0),
    ],
)
def test_a_rolling_update_takes_its_batches_and_the_pauses_between_them(
    count: int, largest: dict[str, object], wait_s: int, batches: int, pauses_min: int
) -> None:
    """Seconds: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeploymentConfiguration.html ."""
    deployment = {"WaitIntervalInSeconds": wait_s, "RollingUpdatePolicy": {"MaximumBatchSize": largest}}
    before = {
        "InstanceGroupName": "gpu", "InstanceType": "ml.g5.8xlarge", "InstanceCount": count, "ImageReleaseVersion": "1",
        "ScheduledUpdateConfig": {"DeploymentConfig": deployment},
    }  # fmt: skip
    table = load_durations()["nodes"]
    span, _ = _group(before, {**before, "ImageReleaseVersion": "2"}, table, fresh=False)
    assert span == pytest.approx([batches * each + pauses_min for each in table["software_update"]["minutes"]])


def test_spans_in_words() -> None:
    assert [str(span) for span in (minutes(0.5), minutes(2), Minutes(3, 3, 3))] == [
        "under a minute",
        "1–4 min",
        "3 min",
    ]
    assert [span.usual for span in (minutes(0.2), minutes(2.4), minutes(2.6))] == ["1 min", "2 min", "3 min"]
    assert minutes(1) + minutes(3) == Minutes(2, 4, 8)
