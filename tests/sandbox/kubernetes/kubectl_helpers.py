"""What tests with the real kubectl share: objects as it writes them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def deployment(name: str, namespace: str, labels: Json | None = None, **container: Any) -> Json:
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1", **container}]}}},  # noqa: E501
    }  # fmt: skip


def config_map(name: str, namespace: str, labels: Json | None = None, **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "data": data,
    }


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
