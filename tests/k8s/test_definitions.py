"""Karpenter's and Kueue's own definitions, as `definitions.yaml` records them, judge what we write and encode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_rules import kueue
from tests.core.environment_files import judged
from tests.k8s.definitions_helpers import scaled

DEFINITIONS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "definitions.yaml").read_text(encoding="utf-8"))
POOL = DEFINITIONS["NodePool"]


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


def test_a_workloads_pod_sets_are_as_many_as_kueue_takes() -> None:
    assert {version: each["podSets"]["maxItems"] for version, each in DEFINITIONS["Workload"].items()} == kueue.POD_SETS


@pytest.mark.parametrize("version", DEFINITIONS["Workload"])
def test_a_worker_groups_name_is_a_pod_sets(version: str) -> None:
    name = DEFINITIONS["Workload"][version]["name"]
    ours = "a" + "-b" * 31
    assert len(ours) <= name["maxLength"]
    assert re.fullmatch(name["pattern"], ours)
    assert re.fullmatch(name["pattern"], kueue.HEAD)
