"""Rules for hung jobs: from the environment file into every Ray pod, without a restart."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.core.model import HangRule, HungJobDetection
from hyperpod_ray.k8s.hangs import hang_rules
from hyperpod_ray_training.settings import HANG_RULES_VARIABLE, Settings
from tests.core.environment_files import plan as plan_of
from tests.core.team_quotas_helpers import shared, team
from tests.k8s.k8s_ray_cluster_helpers import env_of

RULES_OF_THE_SERVICE = {
    # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html, "Rule fields"
    "name": ("string", True), "type": ("string", True), "enabled": ("bool", False), "log_pattern": ("string", True),
    "timeout_minutes": ("float", False), "start_timeout_minutes": ("float", False), "stop_pattern": ("string", False),
    "fault_on_match": ("bool", False), "metric_evaluation_data_points": ("int", False),
}  # fmt: skip


def test_the_settings_are_the_services_fields() -> None:
    assert set(HangRule.model_fields) == set(RULES_OF_THE_SERVICE) - {"type"}, "the service has one type"
    schema = HangRule.model_json_schema()["properties"]
    kinds = {"string": "string", "bool": "boolean", "float": "number", "int": "integer"}
    for name in HangRule.model_fields:
        kind, _ = RULES_OF_THE_SERVICE[name]
        options = [one.get("type") for one in schema[name].get("anyOf", [schema[name]])]
        assert kinds[kind] in options, name
    assert HangRule(name="x", log_pattern="y").enabled is False, "the service's default"
    assert HungJobDetection().action == "notify"


def test_the_configmap_holds_what_the_service_takes(render: Any) -> None:
    (found,) = [item for item in render("observed").objects if item["metadata"]["name"] == names.HANG_RULES]
    assert (found["kind"], found["metadata"]["namespace"]) == ("ConfigMap", "ray")
    content = json.loads(found["data"][names.HANG_RULES_FILE])
    assert (content["enabled"], content["action"]) == (True, "cancel")
    progress, memory = content["rules"]
    assert progress == {
        "name": "progress", "type": "log_pattern", "enabled": True, "log_pattern": r"step \d+", "timeout_minutes": 10.0,
        "start_timeout_minutes": 30.5, "stop_pattern": "all steps done", "fault_on_match": False,
        "metric_evaluation_data_points": 1,
    }  # fmt: skip
    assert "timeout_minutes" not in memory, "what is not set is the service's default"
    for rule in content["rules"]:
        assert {name for name, (_, needed) in RULES_OF_THE_SERVICE.items() if needed} <= set(rule)


@pytest.mark.parametrize("name", ["observed", "prod"])
def test_every_pod_mounts_them_whether_they_are_there_or_not(render: Any, name: str) -> None:
    """So that rules which come, change or go change no pod template."""
    pods = [pod for pod in render(name).pods().values() if pod["containers"][0]["name"] in {"ray-head", "ray-worker"}]
    assert len(pods) >= 2
    for pod in pods:
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == names.HANG_RULES]
        assert volume["configMap"] == {"name": names.HANG_RULES, "optional": True}
        (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == names.HANG_RULES]
        assert mount["readOnly"] is True
        assert "subPath" not in mount, "Kubernetes never updates one"
        assert env_of(pod)[HANG_RULES_VARIABLE] == f"{mount['mountPath']}/{names.HANG_RULES_FILE}"


def test_without_the_section_there_is_no_configmap(render: Any) -> None:
    assert not [item for item in render("prod").objects if item["metadata"]["name"] == names.HANG_RULES]


def test_the_variable_is_no_setting_of_the_library() -> None:
    assert Settings.from_env({HANG_RULES_VARIABLE: "/x"}) == Settings()


def test_the_library_imports_awss_only_where_it_sends() -> None:
    """It is optional: a module that names it at its top would end every job of an image without it."""
    for path in (Path(__file__).parents[2] / "hyperpod_ray_training").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            assert "toolkit_for_ray" not in ast.unparse(node) or not isinstance(node, (ast.Import, ast.ImportFrom)), (
                path
            )


def test_each_namespace_has_them_that_may_hold_a_raycluster() -> None:
    """A pod mounts a ConfigMap of its own namespace alone; `optional` hides that it is not there.

    https://kubernetes.io/docs/concepts/configuration/configmap/#using-configmaps-as-files-from-a-pod
    """
    detection = HungJobDetection(rules=[HangRule(name="x", enabled=True, log_pattern="y")])
    user = {"role_arn": "arn:aws:iam::123456789012:role/Researcher", "namespaces": ["ray", "ada"]}
    settled = plan_of({**shared(team("vision"), team("speech")), "eks/ray_users": [user]})
    spaces = [manifest["metadata"]["namespace"] for manifest in hang_rules(settled, detection).objects]
    assert sorted(spaces) == ["ada", "hyperpod-ns-speech", "hyperpod-ns-vision", "ray"]
