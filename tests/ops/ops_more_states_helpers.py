"""What tests of `gather`, `kube`, `ops_more_states` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text


def target(api: Any = None) -> Target:
    environment = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    environment.__dict__["kubernetes"] = api
    return environment
