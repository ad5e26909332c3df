"""Karpenter's and Kueue's own definitions, as `definitions.yaml` records them, judge what we write and encode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hyperpod_ray.core.model import InstanceGroup
from hyperpod_ray.k8s.node_pools import node_pools
from hyperpod_ray_rules import kueue
from tests.core.environment_files import GOOD, changed, judged
from tests.k8s.test_k8s_valid import strict

DEFINITIONS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "definitions.yaml").read_text(encoding="utf-8"))
POOL = DEFINITIONS["NodePool"]
BURST = {"name": "Burst", "type": "ml.p5.48xlarge", "count": 0, "deep_health_checks": []}
WORKER = {"name": "burst", "instance_group": "Burst", "replicas": 0, "max_replicas": 4}


def scaled(group: dict[str, Any]) -> dict[str, Any]:
    """A file with one group that Karpenter scales."""
    groups, workers = GOOD["hyperpod"]["instance_groups"], GOOD["ray"]["workers"]
    return changed(
        {
            "hyperpod/managed_autoscaling": True,
            "ray/autoscaling": True,
            f"hyperpod/instance_groups/{len(groups)}": {**BURST, **group},
            f"ray/workers/{len(workers)}": WORKER,
        }
    )


def pools(data: dict[str, Any]) -> list[dict[str, Any]]:
    file, problems = judged(yaml.safe_dump(data, sort_keys=False))
    assert file is not None, problems
    return [item for item in node_pools(file.plan).objects if item["kind"] == "NodePool"]


GROUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "labels and taints": {
        "labels": {"example.com/Tier": "a.b_c-D", "plain": "x"},
        "taints": [
            {"key": "a.example.com/b", "effect": "NoSchedule"},
            {"key": "c", "value": "d", "effect": "NoExecute"},
        ],
    },
    "processors": {"type": "ml.c5.4xlarge"},
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_node_pool_is_one_that_karpenter_takes(name: str) -> None:
    (pool,) = pools(scaled(GROUPS[name]))
    validator = jsonschema.Draft202012Validator(strict(POOL))
    assert [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(pool["spec"])] == []
    labels = pool["spec"]["template"]["metadata"]["labels"]
    assert list(
        validator.iter_errors({**pool["spec"], "template": {"metadata": {"labels": {**labels, "a": "x" * 64}}}})
    )


def restricted() -> set[str]:
    """Labels that the definition's rules refuse, by the words of their messages."""
    rules = POOL["properties"]["template"]["properties"]["metadata"]["properties"]["labels"]["x-kubernetes-validations"]
    messages = [re.fullmatch(r'label (domain )?"([^"]+)" is restricted', rule["message"]) for rule in rules]
    assert all(messages), "the definition has a rule of another form: judge it here"
    return {f"{match[2]}/a" if match[1] else match[2] for match in messages if match} | {"sub.karpenter.sh/a"}


@pytest.mark.parametrize("key", sorted(restricted()))
@pytest.mark.parametrize("where", ["labels", "taints"])
def test_a_label_that_karpenter_refuses_is_refused_in_the_file(key: str, where: str) -> None:
    group = {"labels": {key: "x"}} if where == "labels" else {"taints": [{"key": key, "effect": "NoSchedule"}]}
    _, problems = judged(yaml.safe_dump(scaled(group), sort_keys=False))
    assert any(problem.severity == "error" and key in str(problem) for problem in problems)


def test_group_limits_of_labels_leave_room_for_ours() -> None:
    labels = POOL["properties"]["template"]["properties"]["metadata"]["properties"]["labels"]
    most = InstanceGroup.model_json_schema()["properties"]["labels"]["maxProperties"]
    (pool,) = pools(scaled({}))
    assert most + len(pool["spec"]["template"]["metadata"]["labels"]) <= labels["maxProperties"]


def test_a_workloads_pod_sets_are_as_many_as_kueue_takes() -> None:
    assert {version: each["podSets"]["maxItems"] for version, each in DEFINITIONS["Workload"].items()} == kueue.POD_SETS


@pytest.mark.parametrize("version", DEFINITIONS["Workload"])
def test_a_worker_groups_name_is_a_pod_sets(version: str) -> None:
    name = DEFINITIONS["Workload"][version]["name"]
    ours = "a" + "-b" * 31
    assert len(ours) <= name["maxLength"]
    assert re.fullmatch(name["pattern"], ours)
    assert re.fullmatch(name["pattern"], kueue.HEAD)
