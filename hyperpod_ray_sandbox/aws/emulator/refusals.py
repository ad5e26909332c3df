"""A rule's refusal as the service's error."""

from __future__ import annotations

from collections.abc import Iterable

from hyperpod_ray_rules.refusal import Refusal
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError


def refuse(refusals: Iterable[Refusal], *, code: str = "ValidationException") -> None:
    """Raise the first refusal, if there is one."""
    for refusal in refusals:
        raise ServiceError(code, refusal.message)
