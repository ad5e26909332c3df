"""What tests of `k8s_hangs`, `k8s_ray_cluster`, `k8s_redis` share."""

from __future__ import annotations

from typing import Any


def env_of(spec: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in spec["containers"][0]["env"] if "value" in entry}
