"""What a new object has that nobody wrote, as a Kubernetes 1.36.2 API server answered a create of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]

TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
ONCE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
WORKLOAD = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def created(api: Api, api_version: str, kind: str, **body: Any) -> Json:
    stored: Json = api.create(api.kind(api_version, kind), "default", {"metadata": {"name": "web"}, **body})
    return stored


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status"),
    [
        ("v1", "Service", {"ports": [{"port": 80}]}, {"loadBalancer": {}}),
        ("networking.k8s.io/v1", "Ingress", {"defaultBackend": BACKEND}, {"loadBalancer": {}}),
        ("apps/v1", "Deployment", WORKLOAD, {}),
        ("apps/v1", "StatefulSet", WORKLOAD, {"replicas": 0, "availableReplicas": 0}),
        ("batch/v1", "Job", {"template": ONCE}, {}),
        ("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}}, {}),
        ("v1", "ResourceQuota", {"hard": {"pods": "9"}}, {}),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"maxReplicas": 2, "scaleTargetRef": TARGET},
            {"desiredReplicas": 0, "currentMetrics": None},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        ),
    ],
)
def test_the_status_of_a_new_object(api: Api, api_version: str, kind: str, spec: Json, status: Json) -> None:
    assert created(api, api_version, kind, spec=spec)["status"] == status


def test_fields_that_go_writes_though_nobody_did(api: Api) -> None:
    assert created(api, "rbac.authorization.k8s.io/v1", "Role")["rules"] is None
    endpoints = created(api, "discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[])
    assert (endpoints["endpoints"], endpoints["ports"]) == (None, None)
    cron = created(api, "batch/v1", "CronJob", spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": ONCE}}})
    assert cron["spec"]["jobTemplate"]["metadata"] == {}
    assert created(api, "apps/v1", "StatefulSet", spec=WORKLOAD)["spec"]["serviceName"] == ""


def test_a_job_has_the_labels_of_its_template_and_keeps_them(api: Api) -> None:
    job = created(api, "batch/v1", "Job", spec={"suspend": True, "template": ONCE})
    labels = job["metadata"]["labels"]
    assert labels == job["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "web"
    job["spec"]["template"]["metadata"]["labels"]["later"] = "1"
    changed = api.update(api.kind("batch/v1", "Job"), "default", "web", job)
    assert "later" not in changed["metadata"]["labels"]


def test_a_service_of_another_name_has_no_policy_of_traffic(api: Api) -> None:
    """https://kubernetes.io/docs/concepts/services-networking/service/#externalname"""
    service = created(api, "v1", "Service", spec={"type": "ExternalName", "externalName": "db.example.com"})
    assert "internalTrafficPolicy" not in service["spec"]
    assert service["spec"]["sessionAffinity"] == "None"


def test_an_autoscaler_follows_the_processors(api: Api) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/"""
    scaler = created(
        api, "autoscaling/v2", "HorizontalPodAutoscaler", spec={"maxReplicas": 2, "scaleTargetRef": TARGET}
    )
    target = {"type": "Utilization", "averageUtilization": 80}
    assert scaler["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert "generation" not in scaler["metadata"]


def test_a_token_request_says_that_it_is_bound_to_nothing(api: Api) -> None:
    account = api.get(api.kind("v1", "ServiceAccount"), "default", "default")
    assert api.tokens.issue(account, {"spec": {"audiences": ["a"]}})["spec"]["boundObjectRef"] is None
