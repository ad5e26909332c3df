"""What tests of `plan_names`, `team_quotas` share."""

from __future__ import annotations

import json
from typing import Any

HEAD = {"type": "ml.m5.2xlarge", "vcpus": 4}


def team(name: str = "vision", *quota: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "quota": list(quota) or [{"type": "ml.p5.48xlarge", "instances": 2}, HEAD], **more}


def shared(*teams: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The good environment with teams; its standing RayCluster has no workers."""
    # through JSON: an object that is there twice would become an anchor
    return {"teams": json.loads(json.dumps(teams)), "ray/workers/0/replicas": 0, **more}
