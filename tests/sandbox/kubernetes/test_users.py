"""Who asks, and as whom: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.authorization.users import ADMINISTRATOR, Identity, impersonated


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("jane", (), ("system:authenticated",)), ("jane", ("dev",), ("dev", "system:authenticated")),
        ("system:anonymous", (), ()), ("jane", ("system:authenticated",), ("system:authenticated",)),
        ("system:serviceaccount:ray:trainer", (), ("system:serviceaccounts", "system:serviceaccounts:ray", "system:authenticated")),
        ("system:serviceaccount:ray:trainer", ("own",), ("own", "system:authenticated")),
    ],
)  # fmt: skip
def test_the_groups_of_whom_somebody_speaks_as(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    identity = impersonated({"impersonate-user": name}, groups)
    assert identity == Identity(name, expected)
    assert not identity.all_powerful


def test_without_the_header_nobody_is_spoken_for() -> None:
    headers: Any = {}
    assert impersonated(headers, ("dev",)) is None
    assert ADMINISTRATOR.all_powerful
