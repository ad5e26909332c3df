"""Rules of a RayJob, in the words of KubeRay's ValidateRayJobSpec and of its own tests.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go
"""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_rules.kuberay import ray_job
from hyperpod_ray_rules.kuberay.table import Check, Subject

Json = dict[str, Any]
SELECTOR = {"clusterSelector": {"ray.io/cluster": "mine"}}
SCALES = {"rayClusterSpec": {"enableInTreeAutoscaling": True}}


def said(rule: Check, spec: Json, name: str = "train", **gates: bool) -> list[str]:
    return list(rule(Subject(spec=spec, metadata={"name": name}, gates={"RayJobDeletionPolicy": True, **gates})))


def after(policy: str, status: str | None = "SUCCEEDED", **condition: Any) -> Json:
    return {"policy": policy, "condition": {**({"jobStatus": status} if status else {}), **condition}}


def deletes(*rules: Json, **more: Any) -> Json:
    return {"deletionStrategy": {"deletionRules": list(rules)}, **more}


def older(success: str | None, failure: str | None, **more: Any) -> Json:
    policies = {"onSuccess": {"policy": success}, "onFailure": {"policy": failure}}
    return {"deletionStrategy": policies, **more}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n" * 47, ""),
        ("n" * 48, "no more than 47 characters"),
        ("Train", "valid DNS1035 label"),
        ("1a", "valid DNS1035 label"),
    ],
)
def test_names(name: str, words: str) -> None:
    verdicts = said(ray_job.job_name, {}, name)
    assert [words in verdict for verdict in verdicts] == ([True] if words else [])


@pytest.mark.parametrize(
    ("rule", "spec", "words"),
    [
        (ray_job.suspension_shuts_down, {"suspend": True}, "is not allowed to be suspended"),
        (ray_job.suspension_shuts_down, {"suspend": True, "shutdownAfterJobFinishes": True}, ""),
        (ray_job.suspension_shuts_down, {}, ""),
        (ray_job.time_to_live, {"ttlSecondsAfterFinished": 60}, "cannot have TTLSecondsAfterFinished"),
        (ray_job.time_to_live, {"ttlSecondsAfterFinished": 60, "shutdownAfterJobFinishes": True}, ""),
        (ray_job.time_to_live, {"ttlSecondsAfterFinished": 0}, ""),
        (ray_job.time_to_live, {"ttlSecondsAfterFinished": -1}, "non-negative"),
        (ray_job.deletion_strategy, {}, ""),
        (ray_job.deletion_strategy, {"deletionStrategy": {}}, "cannot be empty"),
        (ray_job.deletion_strategy, {"deletionStrategy": {"deletionRules": []}}, "cannot be empty"),
        (ray_job.deletion_strategy, deletes(after("DeleteSelf")), ""),
        (ray_job.deletion_strategy, deletes(after("DeleteSelf"), shutdownAfterJobFinishes=True), "mutually exclusive"),
        (ray_job.deletion_strategy, {"deletionStrategy": {"deletionRules": [after("DeleteSelf")], "onSuccess": {}}}, "Cannot use both"),
        (ray_job.older_deletion_policies, {}, ""),
        (ray_job.older_deletion_policies, older("DeleteSelf", "DeleteNone"), ""),
        (ray_job.older_deletion_policies, {"deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}}}, "both DeletionStrategy.OnSuccess and"),
        (ray_job.older_deletion_policies, older("DeleteSelf", None), "DeletionStrategy.OnFailure cannot be unset"),
        (ray_job.older_deletion_policies, older("DeleteCluster", "DeleteSelf", **SELECTOR), "DeletionStrategy=DeleteCluster on success"),
        (ray_job.older_deletion_policies, older("DeleteSelf", "DeleteSelf", **SELECTOR), ""),
        (ray_job.older_deletion_policies, older("DeleteWorkers", "DeleteSelf", **SCALES), "autoscaling enabled"),
        (ray_job.older_deletion_policies, older("DeleteNone", "DeleteSelf", shutdownAfterJobFinishes=True), "deletion policy is 'DeleteNone'"),
        (ray_job.deletion_rules, deletes(after("DeleteSelf")), ""),
        (ray_job.deletion_rules, deletes(after("DeleteSelf", None)), "exactly one of"),
        (ray_job.deletion_rules, deletes(after("DeleteSelf", jobDeploymentStatus="Failed")), "cannot set both"),
        (ray_job.deletion_rules, deletes(after("DeleteSelf", ttlSeconds=-1)), "deletionRules[0]: TTLSeconds must be non-negative"),
        (ray_job.deletion_rules, deletes(after("DeleteSelf"), after("DeleteSelf")), "deletionRules[1]: duplicate rule for DeletionPolicyType 'DeleteSelf' and JobStatus 'SUCCEEDED'"),
        (ray_job.deletion_rules, deletes(after("DeleteSelf"), after("DeleteSelf", "FAILED")), ""),
        (ray_job.deletion_rules, deletes(after("DeleteCluster"), **SELECTOR), "not supported when ClusterSelector is set"),
        (ray_job.deletion_rules, deletes(after("DeleteWorkers"), **SCALES), "not supported with autoscaling enabled"),
        (ray_job.deletion_rules, deletes(after("DeleteCluster", ttlSeconds=9), after("DeleteWorkers", ttlSeconds=10)), "DeleteCluster TTL (9) must be >= DeleteWorkers TTL (10)"),
        (ray_job.deletion_rules, deletes(after("DeleteCluster", ttlSeconds=10), after("DeleteWorkers", ttlSeconds=10)), ""),
        (ray_job.cluster_selector, {}, "one of RayClusterSpec or ClusterSelector must be set"),
        (ray_job.cluster_selector, {"rayClusterSpec": {}}, ""),
        (ray_job.cluster_selector, SELECTOR, ""),
        (ray_job.cluster_selector, {"clusterSelector": {"app": "x"}}, "cluster name in ClusterSelector should not be empty"),
        (ray_job.cluster_selector, {**SELECTOR, "suspend": True}, "doesn't support the suspend operation"),
        (ray_job.cluster_selector, {**SELECTOR, "submissionMode": "SidecarMode"}, "not supported in SidecarMode"),
        (ray_job.cluster_selector, {**SELECTOR, "backoffLimit": 1}, "incompatible with ClusterSelector"),
        (ray_job.cluster_selector, {**SELECTOR, "backoffLimit": 0}, ""),
        (ray_job.submission_mode, {"submissionMode": "InteractiveMode", "backoffLimit": 1}, "incompatible with InteractiveMode"),
        (ray_job.submission_mode, {"submissionMode": "InteractiveMode"}, ""),
        (ray_job.submission_mode, {"submissionMode": "SidecarMode", "submitterPodTemplate": {}}, "SubmitterPodTemplate"),
        (ray_job.submission_mode, {"submissionMode": "SidecarMode", "submitterConfig": {}}, "SubmitterConfig"),
        (ray_job.submission_mode, {"submissionMode": "K8sJobMode", "submitterPodTemplate": {}}, ""),
        (ray_job.submission_mode, {"submissionMode": "SidecarMode", "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"restartPolicy": "Always"}}}}}, "should be Never or unset"),
        (ray_job.runtime_environment, {"runtimeEnvYAML": "pip: [torch]"}, ""),
        (ray_job.runtime_environment, {"runtimeEnvYAML": ""}, ""),
        (ray_job.runtime_environment, {"runtimeEnvYAML": "[torch]"}, "failed to unmarshal RuntimeEnvYAML: [torch]"),
        (ray_job.runtime_environment, {"runtimeEnvYAML": "a: ["}, "failed to unmarshal RuntimeEnvYAML: a: ["),
        (ray_job.deadlines_and_retries, {"activeDeadlineSeconds": 1, "backoffLimit": 0}, ""),
        (ray_job.deadlines_and_retries, {"activeDeadlineSeconds": 0}, "activeDeadlineSeconds must be a positive integer"),
        (ray_job.deadlines_and_retries, {"preRunningDeadlineSeconds": -1}, "preRunningDeadlineSeconds must be"),
        (ray_job.deadlines_and_retries, {"backoffLimit": -1}, "backoffLimit must be"),
    ],
)  # fmt: skip
def test_a_spec_and_the_nearest_one_that_is_taken(rule: Check, spec: Json, words: str) -> None:
    verdicts = said(rule, spec)
    assert len(verdicts) == bool(words), verdicts
    assert all(words in verdict for verdict in verdicts), verdicts


def test_rules_of_deletion_need_their_gate() -> None:
    (verdict,) = said(ray_job.deletion_strategy, deletes(after("DeleteSelf")), RayJobDeletionPolicy=False)
    assert verdict == "RayJobDeletionPolicy feature gate must be enabled to use DeletionStrategy"


def test_all_problems_of_rules_are_one_message() -> None:
    (verdict,) = said(ray_job.deletion_rules, deletes(after("DeleteSelf", None), after("DeleteSelf", ttlSeconds=-1)))
    assert [line.partition(":")[0] for line in verdict.splitlines()] == ["deletionRules[0]", "deletionRules[1]"]
