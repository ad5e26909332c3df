"""What each write goes through: the envelope, the schema, the cluster's policies."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes import admission, defaults, schema
from hyperpod_ray_sandbox.kubernetes.authorization import defaults as roles
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import (
    ApiError,
    UnreadableError,
    bad_request,
    forbidden,
    not_found,
    qualified,
)
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import is_time, now

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

# kept by the server whatever a client sends
SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


# of those, what an object cannot be read with where it is of another kind
_SERVER_TYPES = {
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "generation": int,
}


def accept(resource: Resource, namespace: str, body: Any) -> Json:
    """The envelope of what was sent, completed; raises 400 where it contradicts the path."""
    if not isinstance(body, dict):
        raise bad_request("the body must be one object")
    obj: Json = copy(body)
    obj.setdefault("apiVersion", resource.api_version)
    obj.setdefault("kind", resource.kind)
    if (obj["apiVersion"], obj["kind"]) != (resource.api_version, resource.kind):
        raise bad_request(_other_kind(obj, resource))
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request("metadata must be an object")
    for field, expected in _SERVER_TYPES.items():
        value = meta.get(field)
        if value is not None and (type(value) is not expected or (isinstance(value, str) and not is_time(value))):
            prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            raise UnreadableError(prefix, f"cannot read metadata.{field}: {value!r}")
    if resource.namespaced:
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    elif meta.pop("namespace", None) and namespace:
        raise bad_request("namespace is not allowed on this type")
    return obj


def _other_kind(obj: Json, resource: Resource) -> str:
    version = str(obj["apiVersion"]).rpartition("/")[2]
    if resource.crd:
        return (
            f"{obj['kind']} in version {version!r} cannot be handled as a {resource.kind}: the API version in the data "
            f"({obj['apiVersion']}) does not match the expected API version ({resource.api_version})"
        )
    inside = resource.group.partition(".")[0] or "core"
    return (
        f'{obj["kind"]} in version "{version}" cannot be handled as a {resource.kind}: converting '
        f"({version}.{obj['kind']}) to ({inside}.{resource.kind}): unknown conversion"
    )


def read_version(meta: Json) -> int:
    """The resourceVersion of an object that was sent, 0 without it; raises 500 for one that is no number."""
    text = str(meta.get("resourceVersion") or "0")
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
    if int(text) >= 1 << 64:
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def unversioned(obj: Json, resource: Resource | None = None) -> Json:
    """An object that a PUT or an apply creates: its resourceVersion is read, and not obeyed.

    A PUT, which names its resource, means an object that is there where it has a uid: 409.
    """
    meta = obj["metadata"]
    read_version(meta)
    if resource and isinstance(meta.get("uid"), str) and meta["uid"]:
        raise mistaken_uid(resource, meta.get("namespace", ""), meta["name"], sent=meta["uid"])
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "resourceVersion"}}


def mistaken_uid(resource: Resource, namespace: str, name: str, *, sent: str, live: str = "") -> ApiError:
    """409 for a write that means another object of that name, or one that is not there."""
    key = f"/registry/{resource.plural}/{namespace}/{name}".replace("//", "/")
    why = f"Precondition failed: UID in precondition: {sent}, UID in object meta: {live}"
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(resource.plural, resource.group)} "{name}": StorageError: '
        f"invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
        {"name": name, "group": resource.group, "kind": resource.plural},
    )


def named(body: Any, name: str) -> Any:
    """What was sent to the path of a name: with that name, or refused."""
    meta = (body.get("metadata") or {}) if isinstance(body, dict) else {}
    sent = meta.get("name") if isinstance(meta, dict) else ""
    if not sent:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if sent != name:
        raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    return body


def namespace_open(api: Objects, resource: Resource, namespace: str, name: str) -> None:
    """Refuse a new object in a namespace that is missing or being deleted."""
    existing = api.store.get(("/namespaces", "", namespace))
    if existing is None:
        raise not_found("namespaces", "", namespace)
    if existing["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(resource.plural, resource.group, name, why)


def judge(api: Objects, resource: Resource, obj: Json, options: Options, old: Json | None = None) -> Json:
    """Judge an object by its schema and fill in the defaults; warnings go to the options."""
    _single_owners(obj["metadata"], options)
    if resource.kind == "Secret" and not resource.group and obj.get("stringData"):
        data = obj.setdefault("data", {}) or {}
        for key, value in (obj.pop("stringData") or {}).items():
            if not isinstance(value, str):
                prefix = 'Secret in version "v1" cannot be handled as a Secret: '
                kind = "number" if isinstance(value, int | float) else "object"
                why = f"json: cannot unmarshal {kind} into Go struct field Secret.stringData of type string"
                raise UnreadableError(prefix, why)
            data[key] = base64.b64encode(str(value).encode()).decode()
        obj["data"] = data
    for version in (_crd(api, resource).get("spec", {}).get("versions") or []) if resource.crd else []:
        if version["name"] == resource.version and version.get("deprecated"):
            options.warnings.append(
                version.get("deprecationWarning") or f"{resource.api_version} {resource.kind} is deprecated"
            )
    if resource.group == roles.GROUP and not resource.crd and isinstance(obj.get("roleRef"), dict):
        obj["roleRef"].setdefault("apiGroup", roles.GROUP)
    if resource.kind == "PriorityClass" and not resource.crd:
        obj.setdefault("value", 0)
    obj, warnings = schema.check(
        resource,
        obj,
        strict=options.validation == "Strict",
        name=str(obj["metadata"].get("name", "")),
        old=old,
        doubled=options.doubled,
    )
    if options.validation == "Warn":
        options.warnings += warnings
    if not resource.crd:
        defaults.fill(obj, old)
    return obj


def _single_owners(meta: Json, options: Options) -> None:
    """Keep each owner once, as the server does with a warning."""
    owners = meta.get("ownerReferences")
    if not isinstance(owners, list):
        return
    single = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
    if len(single) < len(owners):
        meta["ownerReferences"] = single
        uids = sorted({str(owner.get("uid")) for owner in single if owners.count(owner) > 1})
        options.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
            "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(uids)
        )


def hooked(  # noqa: PLR0917
    api: Objects, resource: Resource, obj: Json, old: Json | None, options: Options, subresource: str = ""
) -> Json:
    """An object as mutating webhooks leave it, judged again where they changed it."""
    changed = admission.webhook_changes(api, resource, obj, old, options, subresource)
    return obj if changed is None else judge(api, resource, changed, options, old)


def check_policies(  # noqa: PLR0917
    api: Objects, resource: Resource, obj: Json, old: Json | None, options: Options, subresource: str = ""
) -> None:
    """What well-formed objects are refused for: rights that their author lacks, and the cluster's policies."""
    if options.user is not None and resource.group == roles.GROUP and not resource.crd:
        api.rbac.check_grant(options.user, resource.plural, obj, obj["metadata"].get("namespace", ""))
    warnings: list[str] = []
    admission.review(api, resource, obj, old, warnings)
    admission.validate(api, resource, obj, old, options, subresource)
    options.warnings += warnings


def _crd(api: Objects, resource: Resource) -> Json:
    return api.store.get(("apiextensions.k8s.io/customresourcedefinitions", "", resource.crd)) or {}


def crd_status(crd: Json, old: Json | None = None) -> Json:
    """The status of a definition that was accepted."""
    spec = crd["spec"]
    before = (old or {}).get("status") or {}
    stored = list(before.get("storedVersions") or [])
    stored += [v["name"] for v in spec.get("versions", []) if v.get("storage") and v["name"] not in stored]
    conditions = before.get("conditions") or [
        {"type": condition_type, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        for condition_type, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {"acceptedNames": spec["names"], "conditions": conditions, "storedVersions": stored}
