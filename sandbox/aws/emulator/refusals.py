"""A rule's refusal as the service's error."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.aws.emulator.errors import ServiceError
from service_rules.refusal import Refusal


def refuse(found: Iterable[Refusal], *, code: str = "ValidationException") -> None:
    """Raise the first refusal, if there is one."""
    for refusal in found:
        raise ServiceError(code, refusal.message)
