"""What Kubernetes serves and this API does not: refused with 501 and its name."""

from __future__ import annotations

from functools import cache

from hyperpod_ray_sandbox.kubernetes.schema import SHAPES
from hyperpod_ray_sandbox.kubernetes.status import ApiError, no_such_path

_PATHS = (
    "/.well-known/openid-configuration", "/configz", "/debug", "/flagz", "/logs", "/metrics", "/openid/v1/jwks",
    "/statusz",
)  # fmt: skip


@cache
def _plurals() -> frozenset[tuple[str, str, str]]:
    """Group, version and plural of every kind of Kubernetes that has an API of its own."""
    plurals = set()
    for group, version, kind in SHAPES.names:
        word = kind.lower()
        if word.endswith("s"):
            plurals.add((group, version, word if word in ("endpoints", "componentstatus") else word + "es"))
        plurals.add((group, version, word[:-1] + "ies" if word.endswith("y") else word + "s"))
    return frozenset({*plurals, ("", "v1", "componentstatuses")})


def refused(group: str, version: str, plural: str) -> ApiError:
    """501 with the name of a resource that Kubernetes has; 404 for one that it has not."""
    if (group, version, plural) not in _plurals():
        return no_such_path()
    name = f"{plural}.{group}" if group else plural
    return ApiError(501, "NotImplemented", f"this recording API does not serve {name} of {version}")


def refuse_path(path: str) -> None:
    """Raise 501 for a path of Kubernetes, besides its resources, that nothing answers here."""
    if any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PATHS):
        raise ApiError(501, "NotImplemented", f"this recording API does not serve {path}")
    group, _, version = path.removeprefix("/apis/").partition("/")
    if path.startswith("/apis/") and any(place[:2] == (group, version or place[1]) for place in SHAPES.names):
        raise ApiError(501, "NotImplemented", f"this recording API does not serve {path.removeprefix('/apis/')}")
