"""What tests of `grants`, `renames` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.review import assembly
from tests.review.small import resources, write


def read(folder: Path, **listed: dict[str, Any]) -> assembly.EnvironmentAssembly:
    return assembly.read(write(folder, {"A": resources(**listed)}))["env"]
