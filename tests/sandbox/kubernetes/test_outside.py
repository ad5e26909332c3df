"""What Kubernetes serves and the sandbox does not is 501 by name, and what nobody serves is 404."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes.serving import outside
from hyperpod_ray_sandbox.kubernetes.status import ApiError


@pytest.mark.parametrize(
    ("group", "version", "plural", "code"),
    [
        ("", "v1", "componentstatuses", 501), ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", 501),
        ("", "v1", "gadgets", 404), ("example.com", "v1", "pods", 404),
    ],
)  # fmt: skip
def test_a_resource(group: str, version: str, plural: str, code: int) -> None:
    refusal = outside.refused(group, version, plural)
    assert refusal.code == code
    assert code == 404 or plural in refusal.message


@pytest.mark.parametrize("path", ["/metrics", "/logs/kube-apiserver.log", "/openid/v1/jwks", "/apis/node.k8s.io/v1"])
def test_a_path_of_kubernetes_is_named(path: str) -> None:
    with pytest.raises(ApiError) as refusal:
        outside.refuse_path(path)
    assert refusal.value.code == 501


@pytest.mark.parametrize("path", ["/metricsx", "/nowhere", "/apis/example.com/v1"])
def test_another_path_is_left_to_the_404(path: str) -> None:
    outside.refuse_path(path)
