"""What is wrong with an object, in kube-apiserver's words.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.status import Cause

PORTS = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"


def shown(value: Any) -> str:
    """A value as it reads in an error."""
    return f'"{value}"' if isinstance(value, str) else json.dumps(value, separators=(",", ":"))[:300]


class Causes(list[Cause]):
    """A list of causes that is written to."""

    def required(self, path: str, detail: str = "") -> None:
        """A field that must be there."""
        self.append(Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", path))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        """A value that cannot be."""
        self.append(Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", path))

    def forbidden(self, path: str, detail: str) -> None:
        """A field that may not be there, or not so."""
        self.append(Cause("FieldValueForbidden", f"Forbidden: {detail}", path))

    def duplicate(self, path: str, value: Any) -> None:
        """A second one of what must be unique."""
        self.append(Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", path))

    def missing(self, path: str, value: Any) -> None:
        """A name that names nothing."""
        self.append(Cause("FieldValueNotFound", f"Not found: {shown(value)}", path))

    def long(self, path: str, limit: int) -> None:
        """Too many bytes."""
        self.append(Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path))

    def too_many(self, path: str, count: int, limit: int) -> None:
        """Too many entries."""
        self.append(Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", path))

    def one_of(self, path: str, value: Any, allowed: Iterable[str]) -> None:
        """Judge a value of a closed list; nothing given is right."""
        allowed = list(allowed)
        if value not in (None, "") and value not in allowed:
            self.unsupported(path, value, allowed)

    def choice(self, path: str, value: Any, allowed: Iterable[str]) -> None:
        """Judge a value of a closed list, in a field that may be absent and not empty."""
        if value is not None and value not in allowed:
            self.unsupported(path, value, allowed)

    def unsupported(self, path: str, value: Any, allowed: Iterable[str]) -> None:
        """A value that is not of a closed list."""
        names = ", ".join(f'"{a}"' for a in allowed)
        self.append(
            Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {names}", path)
        )

    def natural(self, path: str, value: Any) -> None:
        """Judge a number that may not be negative."""
        if isinstance(value, int) and value < 0:
            self.invalid(path, value, NOT_NEGATIVE)

    def port(self, path: str, value: Any) -> None:
        """Judge a port number."""
        if isinstance(value, int) and not 1 <= value <= 65535:
            self.invalid(path, value, PORTS)

    def within(self, path: str, value: Any, low: int, high: int) -> None:
        """Judge a number with two bounds."""
        if isinstance(value, int) and not low <= value <= high:
            self.invalid(path, value, f"must be between {low} and {high}, inclusive")

    def quantity(self, path: str, value: Any, *, positive: bool = False) -> None:
        """Judge a quantity that may not be negative (or zero)."""
        if value is None:
            return
        amount = number(value)
        if positive and amount <= 0:
            self.invalid(path, value, "must be greater than zero")
        elif amount < 0:
            self.invalid(path, value, NOT_NEGATIVE)
