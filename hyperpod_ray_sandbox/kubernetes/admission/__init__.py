"""Admission: what a cluster refuses or fills in although the object is well-formed.

`prepare` runs before validation and may change the object, `review` after it, as in kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes import unmodelled
from hyperpod_ray_sandbox.kubernetes.admission import (
    limits,
    matching,
    pod_security,
    policies,
    quota,
    references,
    webhooks,
)
from hyperpod_ray_sandbox.kubernetes.amounts import quality
from hyperpod_ray_sandbox.kubernetes.kueue import webhooks as kueue
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, forbidden

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

__all__ = ["prepare", "prepare_change", "review", "validate", "webhook_changes"]

Json = dict[str, Any]


def prepare(api: Objects, resource: Resource, obj: Json) -> None:
    """Fill in what a new object leaves to the cluster; raises 403 where it names what does not exist."""
    if resource.kind == "Pod" and not resource.group:
        why = references.fill(api, obj)
        if why:
            raise forbidden(resource.plural, resource.group, obj["metadata"]["name"], why)
        limits.fill(api, obj)
        obj.setdefault("status", {})["qosClass"] = quality(obj["spec"])


def prepare_change(resource: Resource, obj: Json) -> None:
    """Fill in what admission fills in at a change too: the tolerations of nodes that went silent."""
    if resource.kind == "Pod" and not resource.group:
        references.tolerate(obj["spec"])


def review(api: Objects, resource: Resource, obj: Json, previous: Json | None, warnings: list[str]) -> None:
    """Refuse what the policies and limits of the cluster forbid; raises 403."""
    name = obj["metadata"]["name"]
    namespace = (
        api.store.get(("/namespaces", "", obj["metadata"].get("namespace", ""))) if resource.namespaced else None
    )
    changed = previous is None or obj.get("spec") != previous.get("spec")
    if namespace is not None and not resource.crd and changed:
        why = pod_security.refusal(namespace, obj)
        if why:
            raise forbidden(resource.plural, resource.group, name, why)
        warning = pod_security.warning(namespace, obj)
        if warning:
            warnings.append(warning)
    if changed:
        why = limits.refusal(api, obj) if previous is None and not resource.crd else ""
        why = why or quota.refusal(api, resource, obj, previous)
        if why:
            raise forbidden(resource.plural, resource.group, name, why)
    if resource.kind == "PriorityClass" and not resource.crd:
        why = references.second_default(api, obj)
        if why:
            raise forbidden(resource.plural, resource.group, name, why)


def webhook_changes(  # noqa: PLR0917
    api: Objects, resource: Resource, obj: Json, previous: Json | None, options: Options, subresource: str = ""
) -> Json | None:
    """What mutating webhooks make of an object; None where they change nothing. Raises what they refuse."""
    attributes = _attributes(api, webhooks.MUTATING, resource, obj, previous, options, subresource)
    return webhooks.call(api, webhooks.MUTATING, attributes, options) if attributes else None


def validate(  # noqa: PLR0917
    api: Objects, resource: Resource, obj: Json | None, previous: Json | None, options: Options, subresource: str = ""
) -> None:
    """Refuse what policies and validating webhooks refuse; `obj` is None for a delete."""
    attributes = _attributes(api, "validatingadmissionpolicybindings", resource, obj, previous, options, subresource)
    if attributes:
        policies.review(api, attributes, options)
    attributes = _attributes(api, webhooks.VALIDATING, resource, obj, previous, options, subresource)
    if attributes:
        webhooks.call(api, webhooks.VALIDATING, attributes, options)
    if subresource:
        return
    definitions = "apiextensions.k8s.io/customresourcedefinitions"
    if why := unmodelled.refusal(
        resource, obj, defined=lambda name: api.store.get((definitions, "", name)) is not None
    ):
        raise ApiError(501, "NotImplemented", f"the sandbox does not model {why}")
    if why := kueue.denial(resource, obj):
        raise ApiError(403, "Forbidden", why)


def _attributes(  # noqa: PLR0917
    api: Objects,
    plural: str,
    resource: Resource,
    obj: Json | None,
    previous: Json | None,
    options: Options,
    subresource: str,
) -> matching.Attributes | None:
    """A request as admission sees it; None where nothing of that kind is configured, or nobody asks."""
    user = matching.author(resource, obj, previous, options)
    if resource.group == policies.GROUP or user is None or not api.store.objects(f"{policies.GROUP}/{plural}"):
        return None  # nothing is about policies, nor about what the control plane changes here
    return matching.Attributes.of(resource, obj, previous, options, user, subresource)
