"""Which kinds are served: the built-in ones listed here, and those that installed CustomResourceDefinitions add."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One served resource of one API version; `store` names where its objects live whatever the version asked for."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    singular: str = ""
    crd: str = ""
    schema: Json | None = field(default=None, compare=False, hash=False, repr=False)
    printer_columns: tuple[Json, ...] = field(default=(), compare=False, hash=False, repr=False)
    selectable_fields: tuple[Json, ...] = field(default=(), compare=False, hash=False, repr=False)
    scale: Json = field(default_factory=dict, compare=False, hash=False, repr=False)
    """Where a custom kind has what its `scale` shows: `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath`."""
    conversion: str = ""
    storage_group: str | None = None

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def store(self) -> str:
        """The storage bucket: the same for every served version of the kind."""
        group = self.group if self.storage_group is None else self.storage_group
        return f"{group}/{self.plural}"

    @property
    def singular_name(self) -> str:
        """The singular name, for discovery."""
        return self.singular or self.kind.lower()


# group/version, kind, plural, namespaced, short names, categories, subresources
_BUILTIN: tuple[tuple[str, str, str, bool, str, str, str], ...] = (
    ("v1", "Namespace", "namespaces", False, "ns", "", "status finalize"),
    ("v1", "Node", "nodes", False, "no", "", "status"),
    ("v1", "Pod", "pods", True, "po", "all",
     "status eviction binding resize log exec attach portforward proxy ephemeralcontainers"),
    ("v1", "Service", "services", True, "svc", "all", "status proxy"),
    ("v1", "ServiceAccount", "serviceaccounts", True, "sa", "", "token"),
    ("v1", "ConfigMap", "configmaps", True, "cm", "", ""),
    ("v1", "Secret", "secrets", True, "", "", ""),
    ("v1", "Endpoints", "endpoints", True, "ep", "", ""),
    ("v1", "Event", "events", True, "ev", "", ""),
    ("v1", "PersistentVolume", "persistentvolumes", False, "pv", "", "status"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, "pvc", "", "status"),
    ("v1", "ResourceQuota", "resourcequotas", True, "quota", "", "status"),
    ("v1", "LimitRange", "limitranges", True, "limits", "", ""),
    ("v1", "ReplicationController", "replicationcontrollers", True, "rc", "all", "status scale"),
    ("v1", "PodTemplate", "podtemplates", True, "", "", ""),
    ("apps/v1", "Deployment", "deployments", True, "deploy", "all", "status scale"),
    ("apps/v1", "ReplicaSet", "replicasets", True, "rs", "all", "status scale"),
    ("apps/v1", "DaemonSet", "daemonsets", True, "ds", "all", "status"),
    ("apps/v1", "StatefulSet", "statefulsets", True, "sts", "all", "status scale"),
    ("apps/v1", "ControllerRevision", "controllerrevisions", True, "", "", ""),
    ("batch/v1", "Job", "jobs", True, "", "all", "status"),
    ("batch/v1", "CronJob", "cronjobs", True, "cj", "all", "status"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, "hpa", "all", "status"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True, "pdb", "", "status"),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True, "netpol", "", ""),
    ("networking.k8s.io/v1", "Ingress", "ingresses", True, "ing", "", "status"),
    ("networking.k8s.io/v1", "IngressClass", "ingressclasses", False, "", "", ""),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", True, "", "", ""),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", True, "", "", ""),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False, "", "", ""),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", False, "", "", ""),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", False, "sc", "", ""),
    ("storage.k8s.io/v1", "CSIDriver", "csidrivers", False, "", "", ""),
    ("storage.k8s.io/v1", "CSINode", "csinodes", False, "", "", ""),
    ("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", False, "", "", "status"),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False, "pc", "", ""),
    ("coordination.k8s.io/v1", "Lease", "leases", True, "", "", ""),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", True, "", "", ""),
    ("events.k8s.io/v1", "Event", "events", True, "ev", "", ""),
    ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", False, "", "", ""),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False,
     "", "api-extensions", ""),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False,
     "", "api-extensions", ""),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False,
     "", "api-extensions", "status"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False,
     "", "api-extensions", ""),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False,
     "crd crds", "api-extensions", "status"),
    ("apiregistration.k8s.io/v1", "APIService", "apiservices", False, "", "api-extensions", "status"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", False, "csr", "", "status"),
)  # fmt: skip

# answered from the request itself, never stored
_REVIEWS = (
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews"),
    ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews"),
)


# a PUT of one that is not there creates it
_CREATED_BY_PUT = (
    "ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "LimitRange", "Role", "RoleBinding",
    "Service",
)  # fmt: skip
# a PUT without a resourceVersion is refused
_VERSION_NEEDED = (
    "APIService", "CSIDriver", "CustomResourceDefinition", "Lease", "MutatingWebhookConfiguration",
    "PodDisruptionBudget", "RuntimeClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration", "VolumeAttachment", "CSINode",
)  # fmt: skip


# kinds whose changes nobody counts: their objects have the generation that a client wrote, or none
_UNCOUNTED = (
    "ClusterRole", "ClusterRoleBinding", "ConfigMap", "ControllerRevision", "Endpoints", "Event",
    "HorizontalPodAutoscaler", "Lease", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim",
    "ResourceQuota", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "StorageClass",
)  # fmt: skip


def counts_generations(resource: Resource) -> bool:
    """Whether `metadata.generation` counts the changes of a kind."""
    return bool(resource.crd) or resource.kind not in _UNCOUNTED


def creates_on_update(resource: Resource) -> bool:
    """Whether a PUT of an object that is not there creates it."""
    return not resource.crd and resource.kind in _CREATED_BY_PUT


def version_needed(resource: Resource) -> bool:
    """Whether an update must say which version it is based on."""
    return bool(resource.crd) or resource.kind in _VERSION_NEEDED


def builtin_resources() -> list[Resource]:
    """The built-in kinds, in the order discovery lists them."""
    resources = []
    for api_version, kind, plural, namespaced, short, categories, subresources in _BUILTIN:
        group, _, version = api_version.rpartition("/")
        resources.append(
            Resource(
                group=group,
                version=version,
                kind=kind,
                plural=plural,
                namespaced=namespaced,
                short_names=tuple(short.split()),
                categories=tuple(categories.split()),
                subresources=tuple(subresources.split()),
                verbs=tuple(v for v in ALL_VERBS if kind != "Namespace" or v != "deletecollection"),
                # the two Event APIs show the same objects
                storage_group="" if kind == "Event" else None,
            )
        )
    for api_version, kind, plural in _REVIEWS:
        group, _, version = api_version.rpartition("/")
        resources.append(Resource(group, version, kind, plural, namespaced=False, verbs=("create",)))
    return resources


def crd_resources(crd: Json) -> list[Resource]:
    """What a CustomResourceDefinition serves: one resource per version with `served: true`."""
    spec = crd["spec"]
    names = spec["names"]
    resources = []
    for version in spec.get("versions", []):
        if not version.get("served"):
            continue
        resources.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=tuple(version.get("subresources") or ()),
                singular=names.get("singular", ""),
                crd=crd["metadata"]["name"],
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
                printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
                conversion=str((spec.get("conversion") or {}).get("strategy") or "None"),
                selectable_fields=tuple(version.get("selectableFields") or ()),
                scale=(version.get("subresources") or {}).get("scale") or {},
            )
        )
    return resources


class Registry:
    """Looks resources up by path and by kind; changes when a CustomResourceDefinition comes, changes or goes."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._builtin = list(resources)
        self._custom: dict[str, list[Resource]] = {}
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        self._index()

    def _index(self) -> None:
        everything = self.all()
        self._by_path = {(r.group, r.version, r.plural): r for r in everything}
        self._by_kind = {(r.api_version, r.kind): r for r in everything}
        self.generation += 1

    def all(self) -> list[Resource]:
        """Every served resource."""
        return self._builtin + [r for group in self._custom.values() for r in group]

    def install(self, crd: Json) -> None:
        """Serve (or serve again) the kinds of a CustomResourceDefinition."""
        self._custom[crd["metadata"]["name"]] = crd_resources(crd)
        self._index()

    def remove(self, crd_name: str) -> None:
        """Stop serving the kinds of a CustomResourceDefinition."""
        if self._custom.pop(crd_name, None) is not None:
            self._index()

    def by_path(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource behind a URL, if served."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an object, if served."""
        return self._by_kind.get((api_version, kind))

    def stored(self) -> dict[str, Resource]:
        """One resource per storage bucket."""
        resources: dict[str, Resource] = {}
        for resource in self.all():
            if "list" in resource.verbs:
                resources.setdefault(resource.store, resource)
        return resources

    def groups(self) -> dict[str, list[str]]:
        """API groups and their versions in order of preference (the core group is the empty name)."""
        by_group: dict[str, list[str]] = {}
        for resource in self.all():
            versions = by_group.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        for versions in by_group.values():
            versions.sort(key=_version_rank)
        return by_group


_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def _version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, and after them other names by the alphabet.

    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return (None, "beta", "alpha").index(match[2]), -int(match[1]), -int(match[3] or 0), ""
