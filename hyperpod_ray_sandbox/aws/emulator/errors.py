"""The one error type of the added services: what an AWS client would see."""

from __future__ import annotations

from collections.abc import Iterable

from hyperpod_ray_rules.refusal import Refusal


class ServiceError(Exception):
    """An error answer of a service: its code, its message and the HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{message} (Service error: {code})")
        self.code = code
        self.message = message
        self.status = status


def refuse(refusals: Iterable[Refusal], *, code: str = "ValidationException") -> None:
    """Raise the first refusal of a rule as the service's error, if there is one."""
    for refusal in refusals:
        raise ServiceError(code, refusal.message)
