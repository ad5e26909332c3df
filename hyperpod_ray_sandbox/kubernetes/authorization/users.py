"""Users, and users who act as others.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray_sandbox.kubernetes.status import bad_request

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True)
class Identity:
    """A user as Kubernetes sees one; `policies` are the EKS access policies with their scope."""

    username: str
    groups: tuple[str, ...] = ()
    policies: tuple[dict[str, Any], ...] = field(default=(), hash=False)

    @property
    def all_powerful(self) -> bool:
        """Whether authorization is never asked."""
        return MASTERS in self.groups


ADMINISTRATOR = Identity("rehearsal", (MASTERS, AUTHENTICATED))


def impersonated(headers: Mapping[str, str], groups: tuple[str, ...]) -> Identity | None:
    """The user that the `Impersonate-…` headers name; None without them."""
    name = headers.get("impersonate-user", "")
    if not name and (groups or any(h == "impersonate-uid" or h.startswith("impersonate-extra-") for h in headers)):
        raise bad_request("requested impersonation without impersonating a user name")
    if not name:
        return None
    memberships = list(groups)
    if name.startswith(ACCOUNT) and not groups:
        namespace = name.removeprefix(ACCOUNT).partition(":")[0]
        memberships = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != "system:anonymous" and AUTHENTICATED not in memberships:
        memberships.append(AUTHENTICATED)
    return Identity(name, tuple(memberships))
