"""Updates: what never changes, and a version that is not the stored one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.kubernetes.kubectl_helpers import deployment

pytestmark = pytest.mark.emulator


def test_fields_that_cannot_change(cluster: Any) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pvc", "namespace": "default"},
             "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip  # noqa: E501
    kind = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "sc"},
        "provisioner": "p",
        "parameters": {"a": "1"},
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"},
           "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}}  # fmt: skip  # noqa: E501
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
              "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}, "storageClassName": "other",
                       "csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-1"}}}  # fmt: skip
    cluster.apply(claim, kind, job, volume, deployment("fixed", "default"))
    for resource, patch, said in (
        ("pvc/pvc", '{"spec":{"accessModes":["ReadWriteOnce"]}}', "spec is immutable after creation"),
        ("pvc/pvc", '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}', "Forbidden"),
        ("sc/sc", '{"parameters":{"a":"2"}}', "field is immutable"),
        ("job/job", '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i:2"}]}}}}', "field is immutable"),
        ("pv/pv", '{"spec":{"csi":{"volumeHandle":"fs-2"}}}', "persistentvolumesource is immutable"),
        (
            "deploy/fixed",
            '{"spec":{"selector":{"matchLabels":{"app":"fixed","b":"c"}},"template":{"metadata":{"labels":{"b":"c"}}}}}',
            "field is immutable",
        ),
    ):
        refused = cluster.kubectl("patch", resource, "-p", patch, ok=False)
        assert refused.returncode != 0, resource
        assert said in refused.stderr, resource
    cluster.kubectl("delete", "pvc/pvc", "sc/sc", "job/job", "pv/pv", "deploy/fixed")
