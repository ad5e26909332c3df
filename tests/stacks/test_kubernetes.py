"""Custom resources that apply manifests: a deployment that was cut off can run again."""

from __future__ import annotations

from tests.stacks.assembled import Assembly


def test_manifests_can_be_applied_again(assembly: Assembly) -> None:
    """Without Overwrite the function runs `kubectl create`, which fails on what a cut-off deployment left."""
    manifests = assembly.of_type("Custom::AWSCDK-EKS-KubernetesResource")
    assert manifests
    assert {key: one["Properties"].get("Overwrite") for key, one in manifests.items()} == dict.fromkeys(manifests, True)
