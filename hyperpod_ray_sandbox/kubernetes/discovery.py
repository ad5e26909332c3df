"""What clients ask first: the version, the API groups and their resources, in the old and the aggregated form."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.resources import Registry, Resource
from hyperpod_ray_sandbox.kubernetes.schema import MINOR

Json = dict[str, Any]

# the suffix says in every client's version line that this is no Kubernetes
GIT_VERSION = f"v{MINOR}.0+rehearsal"


def version() -> Json:
    """The body of /version."""
    major, minor = MINOR.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": GIT_VERSION,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2025-04-23T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def core_versions() -> Json:
    """The body of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def paths(registry: Registry) -> list[str]:
    """Where clients can look further: the body of /."""
    versions_of_groups = {
        f"/apis/{name}/{version}" for name, versions in registry.groups().items() for version in versions if name
    }
    parents = {path.rpartition("/")[0] for path in versions_of_groups}
    fixed = (
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    )
    return sorted({*fixed, *versions_of_groups, *parents})


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def groups(registry: Registry) -> Json:
    """The body of /apis."""
    listed = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(registry: Registry, name: str) -> Json | None:
    """The body of /apis/GROUP."""
    versions = registry.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


# subresource -> (group, version, kind, verbs); the rest show the parent's kind
_SUBRESOURCES = {
    "scale": ("autoscaling", "v1", "Scale", ["get", "patch", "update"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ["create"]),
    "exec": ("", "v1", "PodExecOptions", ["create", "get"]),
    "attach": ("", "v1", "PodAttachOptions", ["create", "get"]),
    "portforward": ("", "v1", "PodPortForwardOptions", ["create", "get"]),
    "proxy": ("", "v1", "PodProxyOptions", ["get"]),
    "finalize": ("", "v1", "Namespace", ["update"]),
    "log": ("", "v1", "Pod", ["get"]),
}


def resources(registry: Registry, name: str, version_: str) -> Json | None:
    """The body of /apis/GROUP/VERSION."""
    listed = []
    for resource in registry.all():
        if (resource.group, resource.version) != (name, version_):
            continue
        document: Json = {
            "name": resource.plural,
            "singularName": resource.singular_name,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
            "storageVersionHash": "",
        }
        if resource.short_names:
            document["shortNames"] = list(resource.short_names)
        if resource.categories:
            document["categories"] = list(resource.categories)
        listed.append(document)
        for sub in resource.subresources:
            group_, version__, kind, verbs = _SUBRESOURCES.get(sub, ("", "", resource.kind, ["get", "patch", "update"]))
            extra = {"group": group_, "version": version__} if sub in _SUBRESOURCES else {}
            listed.append(
                {
                    "name": f"{resource.plural}/{sub}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": kind,
                    "verbs": verbs,
                    **extra,
                }
            )
    if not listed:
        return None
    group_version = f"{name}/{version_}" if name else version_
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _aggregated_entry(resource: Resource) -> Json:
    document: Json = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    subs = []
    for sub in resource.subresources:
        default = (resource.group, resource.version, resource.kind, ["get", "patch", "update"])
        group_, version_, kind, verbs = _SUBRESOURCES.get(sub, default)
        subs.append(
            {"subresource": sub, "verbs": verbs, "responseKind": {"group": group_, "version": version_, "kind": kind}}
        )
    if subs:
        document["subresources"] = subs
    return document


def aggregated(registry: Registry, *, core: bool) -> Json:
    """/api or /apis in the aggregated form (apidiscovery.k8s.io/v2)."""
    items = []
    for name, versions in registry.groups().items():
        if (name == "") != core:
            continue
        documents = [
            {
                "version": v,
                "freshness": "Current",
                "resources": [_aggregated_entry(r) for r in registry.all() if (r.group, r.version) == (name, v)],
            }
            for v in versions
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": documents})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
