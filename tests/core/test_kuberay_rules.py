"""The table of the KubeRay operator's rules, against the answers of its own tests and of a running operator."""

from __future__ import annotations

import copy
import zoneinfo
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.checks import operator
from hyperpod_ray_rules import kuberay
from hyperpod_ray_rules.kuberay import syntax
from tests.core.environment_files import plan

DATA = yaml.safe_load(Path(__file__).with_name("kuberay_cases.yaml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = DATA["cases"]


def merge(base: Any, change: Any) -> Any:
    """Mappings merged, `None` removes, anything else replaces."""
    if isinstance(base, dict) and isinstance(change, dict):
        made = {key: value for key, value in base.items() if key not in change}
        return made | {key: merge(base.get(key), value) for key, value in change.items() if value is not None}
    return copy.deepcopy(change)


def manifest(case: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = merge(copy.deepcopy(DATA["bases"][case["kind"]]), case.get("change") or {})
    made["kind"], made["apiVersion"] = case["kind"], "ray.io/v1"
    if "worker" in case:
        made["spec"]["workerGroupSpecs"][0] = merge(made["spec"]["workerGroupSpecs"][0], case["worker"])
    if "head_env" in case:
        (container,) = made["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        container["env"] = [{"name": name, "value": value} for name, value in case["head_env"].items()]
    return made


def title(case: dict[str, Any]) -> str:
    return f"{case['kind']}-{case['rule']}-{CASES.index(case)}"


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_verdict_is_the_operators(case: dict[str, Any]) -> None:
    verdicts = kuberay.judge(manifest(case), gates={**kuberay.DEFAULT_GATES, **case.get("gates", {})})
    if "says" not in case:
        assert verdicts == []
        return
    assert verdicts, "the operator refuses it"
    assert verdicts[0].message.startswith(case["says"])
    assert verdicts[0].rule == case["rule"]


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] == "RayJob"], ids=title)
def test_the_template_of_a_cron_job_is_judged_as_the_job_is(case: dict[str, Any]) -> None:
    """With whatever feature gates: the operator calls the same validation with the template's spec."""
    job, cron = manifest(case), manifest({"kind": "RayCronJob"})
    job["metadata"] = {"name": "job", "namespace": "default"}
    cron["spec"]["jobTemplate"] = job["spec"]
    own = {rule.name for rule in kuberay.RULES if rule.kind == "RayCronJob"}
    for gates in (
        {**kuberay.DEFAULT_GATES, **case.get("gates", {})},
        dict.fromkeys(kuberay.DEFAULT_GATES, True),
        dict.fromkeys(kuberay.DEFAULT_GATES, False),
    ):
        of_job = [(verdict.rule, verdict.message) for verdict in kuberay.judge(job, gates=gates)]
        of_template = [
            (verdict.rule, verdict.message.removeprefix("invalid RayJob template: "))
            for verdict in kuberay.judge(cron, gates=gates)
            if verdict.rule not in own
        ]
        assert of_template == of_job


@pytest.mark.parametrize("rule", kuberay.RULES, ids=lambda rule: rule.name)
def test_each_rule_has_a_case_that_passes_and_one_that_fails(rule: kuberay.Rule) -> None:
    kinds = {"says" in case for case in CASES if case["rule"] == rule.name}
    assert kinds == {True, False}


def test_no_two_rules_share_a_name_and_each_is_explained() -> None:
    names = [rule.name for rule in kuberay.RULES]
    assert len(names) == len(set(names))
    assert [rule.name for rule in kuberay.RULES if not rule.check.__doc__] == []


def test_the_reason_is_that_of_the_operators_event() -> None:
    reasons = {}
    for case in CASES:
        if "says" in case:
            gates = {**kuberay.DEFAULT_GATES, **case.get("gates", {})}
            reasons[case["kind"], case["rule"]] = kuberay.judge(manifest(case), gates=gates)[0].reason
    assert reasons["RayCluster", "cluster_name"] == "InvalidRayClusterMetadata"
    assert reasons["RayCluster", "group_replicas"] == "InvalidRayClusterSpec"
    assert reasons["RayJob", "job_name"] == "InvalidRayJobMetadata"
    assert reasons["RayJob", "cluster_selector"] == "InvalidRayJobSpec"
    # the job is accepted, and the RayCluster that the operator makes of it is not
    assert reasons["RayJob", "upgrade_strategy"] == "InvalidRayClusterSpec"
    assert reasons["RayCronJob", "cron_schedule"] == "InvalidRayCronJobSpec"


def test_the_operators_order() -> None:
    case = {
        "kind": "RayCluster",
        "head_env": {"RAY_enable_autoscaler_v2": "1"},
        "worker": {"minReplicas": 3, "maxReplicas": 2},
        "change": {"spec": {"upgradeStrategy": {"type": "x"}, "authOptions": {"mode": "token"}}},
    }
    found = [verdict.rule for verdict in kuberay.judge(manifest(case))]
    assert found == ["group_replicas", "autoscaler_variable", "authentication", "upgrade_strategy"]


def test_groups_are_judged_one_after_the_other() -> None:
    made = manifest({"kind": "RayCluster"})
    (group,) = made["spec"]["workerGroupSpecs"]
    first, second = {"groupName": "a", "priority": 1}, {"groupName": "b", "minReplicas": -1}
    made["spec"]["workerGroupSpecs"] = [{**group, **first}, {**group, **second}]
    assert [verdict.rule for verdict in kuberay.judge(made)] == ["group_priority", "group_replicas"]


def test_other_kinds_have_no_rules() -> None:
    assert kuberay.judge({"kind": "Pod", "metadata": {"name": "X"}, "spec": {}}) == []


def test_a_zone_is_looked_up_where_the_machine_knows_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "available_timezones", lambda: {"Europe/Berlin"})
    assert syntax.time_zone("Europe/Berlin")
    assert syntax.time_zone("UTC")
    assert not syntax.time_zone("Invalid/Zone")
    case = {"kind": "RayCronJob", "change": {"spec": {"timeZone": "Invalid/Zone"}}}
    assert kuberay.judge(manifest(case))[0].message == "invalid time zone: unknown time zone Invalid/Zone"
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert kuberay.judge(manifest(case)) == []


UPSTREAM = yaml.safe_load(Path(__file__).with_name("kuberay_upstream_cases.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", UPSTREAM["cases"], ids=lambda case: f"{case['test']}-{case['case']}")
def test_every_case_of_the_operators_own_tests(case: dict[str, Any]) -> None:
    verdicts = kuberay.judge(case["manifest"], gates={**kuberay.DEFAULT_GATES, **case.get("gates", {})})
    assert bool(verdicts) == case["refused"], verdicts
    if "says" in case:
        assert case["says"] in verdicts[0].message or verdicts[0].message in case["says"]


def test_the_operators_tests_are_all_there() -> None:
    """32 test functions: 24 of them judge an object that this project can render."""
    judged = {case["test"] for case in UPSTREAM["cases"]}
    assert len(UPSTREAM["cases"]) == 174
    assert len(judged | set(UPSTREAM["outside"])) == 32
    assert not judged & set(UPSTREAM["outside"])
    assert sum(count for count, _ in UPSTREAM["outside"].values()) == 68


@pytest.mark.parametrize(
    ("edits", "at", "value"),
    [
        ({}, ("authOptions",), {"mode": "token"}),
        ({"ray/auth": "none"}, ("authOptions",), {"mode": "disabled"}),
        ({}, ("enableInTreeAutoscaling",), None),
        ({"ray/autoscaling": True, "ray/workers/0/max_replicas": 4}, ("enableInTreeAutoscaling",), True),
        ({"ray/autoscaling": True, "ray/workers/0/max_replicas": 4}, ("autoscalerOptions",), {"version": "v2"}),
        ({}, ("gcsFaultToleranceOptions",), None),
        ({}, ("workerGroupSpecs", 0, "minReplicas"), 4),
        ({}, ("workerGroupSpecs", 0, "maxReplicas"), 4),
        ({"ray/autoscaling": True, "ray/workers/0/min_replicas": 1}, ("workerGroupSpecs", 0, "minReplicas"), 1),
        ({"ray/version": "2.60.0"}, ("rayVersion",), "2.60.0"),
    ],
)  # fmt: skip
def test_what_the_operators_rules_read_of_a_file(edits: dict[str, Any], at: tuple[Any, ...], value: Any) -> None:
    """https://ray-project.github.io/kuberay/reference/api/#rayclusterspec"""
    spec: Any = operator.outline(plan(edits))["spec"]
    for key in at:
        spec = spec.get(key) if isinstance(spec, dict) else spec[key]
    assert spec == value
