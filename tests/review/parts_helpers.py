"""What tests of `kubernetes`, `parts`, `schedule` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.review import assembly
from tests.review.small import write

Json = dict[str, Any]


def stacks(**templates: Json) -> Json:
    return {name: {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, **more} for name, more in templates.items()}


def read(folder: Path, listed: Json, **options: Any) -> assembly.EnvironmentAssembly:
    return assembly.read(write(folder, listed, **options))["env"]
