"""Kubernetes' schemas as `kubernetes_validate` has them: a file of a megabyte is read once in a process."""

from __future__ import annotations

import functools
from typing import Any

import kubernetes_validate

from hyperpod_ray_sandbox.kubernetes.schema import MINOR

setattr(kubernetes_validate.utils, "schema_contents", functools.cache(kubernetes_validate.utils.schema_contents))  # noqa: B010


def validate(manifest: dict[str, Any]) -> None:
    """Compare an object with the schema of its kind, without a field that the schema lacks.

    Raises:
        ValidationError: it does not fit.
    """
    kubernetes_validate.validate(manifest, MINOR, strict=True)
