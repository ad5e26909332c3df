"""Who asks, and as whom: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.authorization.users import ADMINISTRATOR, Identity, impersonated
from hyperpod_ray_sandbox.kubernetes.status import ApiError


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
    assert impersonated(headers, ()) is None
    assert ADMINISTRATOR.all_powerful


@pytest.mark.parametrize(
    ("headers", "groups"), [({}, ("dev",)), ({"impersonate-uid": "1"}, ()), ({"impersonate-extra-a": "b"}, ())]
)
def test_a_group_without_a_user_is_refused(headers: Any, groups: tuple[str, ...]) -> None:
    with pytest.raises(ApiError, match="without impersonating a user name"):
        impersonated(headers, groups)
