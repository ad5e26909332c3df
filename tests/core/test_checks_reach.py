"""Rules of `hyperpod_ray/core/checks/reach.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, DIGEST, OTHER_REGION, TEAM_IMAGES, assert_named_rule, assert_rule, case_id

CASES = [
    Case("repositories_are_reachable", {**CLOSED, "registries": {"mirror": True, "pull_from": [TEAM_IMAGES.replace("us-west-2", "us-east-1")]}}, "registries.pull_from[0]", "is in us-east-1", {**CLOSED, "registries": {"mirror": True, "pull_from": [TEAM_IMAGES]}}),
    Case("destinations_are_reachable", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}, **CLOSED}, "ray.tracking.mlflow", "mlflow.example.com:443 is reachable from a closed network only", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}}, "warning"),
    Case("images_are_reachable", {"network/egress": "closed"}, "network.egress", "cannot pull nvcr.io/nvidia/k8s-device-plugin (nvidia-device-plugin), quay.io/kuberay/operator (kuberay-operator). Expected images in Amazon ECR. Fix: set registries.mirror: true", CLOSED),
    Case("images_are_reachable", {**CLOSED, "helm/lock_file": "other.lock.yaml"}, "helm.lock_file", "Fix: run `hyperpod-ray charts fetch` with this lock file", CLOSED, beside=("registries.mirror", "helm.lock_file")),
    Case("images_are_reachable", {**CLOSED, "image": {"uri": OTHER_REGION}}, "image.uri", "in a registry of another Region", {**CLOSED, "image": {"uri": DIGEST}}),
    Case("destinations_are_reachable", {**CLOSED, "ray/observability": {"grafana_host": "https://grafana.example.com", "prometheus_host": "http://p.monitoring.svc:80"}}, "ray.observability.grafana_host", "grafana.example.com:443 is reachable from a closed network only by", {**CLOSED, "ray/observability": {}}, "warning"),
    Case("mirror_has_work", {"registries": {"mirror": True}, "helm/lock_file": "other.lock.yaml"}, "registries.mirror", "has no effect", {"registries": {"mirror": True}}, "warning", beside=("helm.lock_file",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
