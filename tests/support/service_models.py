"""What botocore's models of the services say, as an outside source for tests."""

from __future__ import annotations

import functools

import botocore.session
from botocore.model import StringShape


@functools.cache
def values_of(service: str, shape: str) -> frozenset[str]:
    """Every value of an enumeration of a service."""
    model = botocore.session.get_session().get_service_model(service).shape_for(shape)
    assert isinstance(model, StringShape)
    return frozenset(model.enum)
