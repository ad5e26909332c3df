"""The table itself: what a rule is, in which order the operator applies them, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Mapping[str, Any]
Scope = Literal["metadata", "spec", "group", "upgrade"]
"""What a rule looks at: the object's metadata, its spec, each worker group in turn, or the upgrade strategy."""
Kind = Literal["RayCluster", "RayJob", "RayCronJob"]

EMBEDDED_STORE_GATE = "GCSFaultToleranceEmbeddedStorage"
"""Alpha: Ray's embedded store keeps the head's state, `gcsFaultToleranceOptions.backend: rocksdb`."""
DEFAULT_GATES: Mapping[str, bool] = {
    "RayClusterStatusConditions": True,
    "RayJobDeletionPolicy": True,
    "RayMultiHostIndexing": True,
    "RayServiceIncrementalUpgrade": True,
    "RayCronJob": False,
    "RayClusterNetworkPolicy": False,
    EMBEDDED_STORE_GATE: False,
    "RayClusterMTLS": False,
    "RayClusterHistoryServer": False,
}
"""The operator's feature gates and their defaults in KubeRay 1.7.0 (`ray-operator/pkg/features/features.go`)."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why the operator refuses an object."""

    rule: str
    """Name of the rule in `RULES`."""
    reason: str
    """Reason of the operator's event, for example `InvalidRayClusterSpec`."""
    message: str
    """The operator's own message."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a rule judges: an object, and one worker group of it for rules of that scope."""

    spec: Json
    metadata: Json = field(default_factory=dict)
    group: Json = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=lambda: DEFAULT_GATES)

    @property
    def head(self) -> Json:
        """`headGroupSpec`."""
        group: Json = self.spec.get("headGroupSpec") or {}
        return group

    @property
    def groups(self) -> list[Json]:
        """`workerGroupSpecs`."""
        return list(self.spec.get("workerGroupSpecs") or [])

    @property
    def annotations(self) -> Json:
        """`metadata.annotations`."""
        values: Json = self.metadata.get("annotations") or {}
        return values

    @property
    def autoscaling(self) -> bool:
        """Whether `enableInTreeAutoscaling` is true."""
        return bool(self.spec.get("enableInTreeAutoscaling"))

    @property
    def autoscaler(self) -> Json:
        """`autoscalerOptions`."""
        options: Json = self.spec.get("autoscalerOptions") or {}
        return options

    def head_env(self, name: str) -> Json | None:
        """The environment variable `name` of the head's Ray container, which is the first."""
        return next(
            (variable for variable in (containers(self.head) or [{}])[0].get("env") or [] if variable["name"] == name),
            None,
        )


Check = Callable[[Subject], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: on which kind and part of an object it applies, and the messages it gives."""

    name: str
    kind: Kind
    scope: Scope
    check: Check


RULES: list[Rule] = []
"""Every rule, in the operator's order."""


def rule(kind: Kind, scope: Scope) -> Callable[[Check], Check]:
    """Add a check to the table under its function's name."""

    def register(check: Check) -> Check:
        RULES.append(Rule(name=check.__name__, kind=kind, scope=scope, check=check))
        return check

    return register


def containers(group: Json) -> list[Json]:
    """Containers of a group's pod template."""
    return list(((group.get("template") or {}).get("spec") or {}).get("containers") or [])


def restart_policy(group: Json) -> str:
    """`restartPolicy` of a group's pod template, empty when unset."""
    return str(((group.get("template") or {}).get("spec") or {}).get("restartPolicy") or "")


def token(spec: Json) -> bool:
    """Whether `authOptions` delegates to Kubernetes tokens."""
    return bool((spec.get("authOptions") or {}).get("enableK8sTokenAuth"))
