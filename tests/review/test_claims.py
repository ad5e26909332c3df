"""What becomes of a claim's file system, by what Kubernetes does where a manifest says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.review import review
from tests.review.small import resources, write

CLAIM = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "fsx", "namespace": "ray"},
    "spec": {"storageClassName": "fsx", "resources": {"requests": {"storage": "1200Gi"}}},
}  # fmt: skip
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ray"}}


def manifest(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps(objects)}}


@pytest.mark.parametrize(
    ("reclaim", "effect"),
    [({"reclaimPolicy": "Delete"}, "loses-data"), ({"reclaimPolicy": "Retain"}, "interrupts"), ({}, "loses-data")],
    ids=["delete", "retain", "the default"],
)
def test_a_claim_that_goes(reclaim: dict[str, str], effect: str, tmp_path: Path) -> None:
    """https://kubernetes.io/docs/concepts/storage/storage-classes/#reclaim-policy: the default is Delete."""
    made_by = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fsx"}, **reclaim}
    base = {"Ray": resources(Class=manifest(made_by), Claim=manifest(CLAIM, OTHER))}
    head = {"Ray": resources(Class=manifest(made_by), Claim=manifest(OTHER))}
    assert effect_of(tmp_path, base, head) == effect


def effect_of(folder: Path, base: dict[str, Any], head: dict[str, Any]) -> str:
    (environment,) = review(write(folder / "base", base), write(folder / "head", head)).environments
    (row,) = [row for row in environment.rows if row.code == "persistentvolumeclaim-deleted"]
    return row.effect.code


@pytest.mark.parametrize(
    ("reclaim", "effect"),
    [
        ({"persistentVolumeReclaimPolicy": "Delete"}, "loses-data"),
        ({"persistentVolumeReclaimPolicy": "Retain"}, "interrupts"),
        ({}, "interrupts"),
    ],
    ids=["delete", "retain", "the default"],
)
def test_a_claim_of_a_volume_that_goes(reclaim: dict[str, str], effect: str, tmp_path: Path) -> None:
    """https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming: by hand, the default is Retain."""
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": reclaim}
    claim = {**CLAIM, "spec": {"storageClassName": "", "volumeName": "disk"}}
    base = {"Ray": resources(Volume=manifest(volume), Claim=manifest(claim, OTHER))}
    head = {"Ray": resources(Volume=manifest(volume), Claim=manifest(OTHER))}
    assert effect_of(tmp_path, base, head) == effect
