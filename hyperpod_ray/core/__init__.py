"""What an environment is: settings, their file, their cross-checks, and the figures that follow from them.

Names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperpod_ray.core.loader import (
        AnyFile,
        EnvironmentFile,
        EnvironmentFileError,
        Problem,
        SlurmFile,
        environment_names,
        load,
        load_any,
        skipped_files,
    )
    from hyperpod_ray.core.model import Environment
    from hyperpod_ray.core.plan import Plan

__all__ = [
    "AnyFile",
    "Environment",
    "EnvironmentFile",
    "EnvironmentFileError",
    "Plan",
    "Problem",
    "SlurmFile",
    "environment_names",
    "load",
    "load_any",
    "skipped_files",
]

_HOME = {"Environment": "model", "Plan": "plan"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'loader')}"), name)
