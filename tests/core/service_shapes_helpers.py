"""What `test_service_shapes.py`, `test_operation.py` share."""

from __future__ import annotations

import functools
from typing import Any

import annotated_types
import botocore.session
from botocore.model import ServiceModel
from pydantic import BaseModel


@functools.cache
def model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


def limits_of_setting(section: type[BaseModel], name: str) -> tuple[float, float]:
    """The least and the most that a setting may be, or may have; infinite where nothing is said."""
    least, most = float("-inf"), float("inf")
    info = section.model_fields[name]
    pending: list[Any] = [info.annotation, *info.metadata]
    while pending:
        part = pending.pop()
        pending += [*getattr(part, "__metadata__", ()), *getattr(part, "metadata", ())]
        if type(part).__name__ in {"UnionType", "_UnionGenericAlias"}:
            pending += part.__args__
        if isinstance(part, annotated_types.Ge | annotated_types.Gt):
            least = max(least, float(getattr(part, "ge", getattr(part, "gt", 0))))
        elif isinstance(part, annotated_types.MinLen):
            least = max(least, part.min_length)
        elif isinstance(part, annotated_types.Le):
            most = min(most, float(part.le))  # type: ignore[arg-type]
        elif isinstance(part, annotated_types.MaxLen):
            most = min(most, part.max_length)
    return least, most
