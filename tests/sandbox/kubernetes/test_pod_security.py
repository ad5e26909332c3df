from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.kubernetes.budgets_helpers import pod

pytestmark = pytest.mark.emulator


def test_pod_security_warns_where_it_does_not_enforce(cluster: Any, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
    said = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("loose"))).stderr
    assert 'Warning: would violate PodSecurity "restricted:latest"' in said
    assert "allowPrivilegeEscalation != false" in said
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": namespace},
                  "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}  # fmt: skip
    assert "would violate" in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(deployment)).stderr
    quiet = cluster.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/warn=privileged", "--overwrite"
    )
    assert quiet.returncode == 0
    assert "would violate" not in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("free"))).stderr
