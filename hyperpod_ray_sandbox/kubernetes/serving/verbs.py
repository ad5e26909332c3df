"""The verbs on one target, but for watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes import admission, schema
from hyperpod_ray_sandbox.kubernetes.admission import eviction
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.authorization import reviews
from hyperpod_ray_sandbox.kubernetes.authorization.users import ADMINISTRATOR
from hyperpod_ray_sandbox.kubernetes.labels import label_selector
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource, creates_on_update
from hyperpod_ray_sandbox.kubernetes.serving import scale
from hyperpod_ray_sandbox.kubernetes.serving.fields import field_selector
from hyperpod_ray_sandbox.kubernetes.serving.pages import check_version, listing
from hyperpod_ray_sandbox.kubernetes.serving.parameters import check_write, delete_options
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target, action_of
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, bad_request, invalid, qualified, success
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.writes.checks import accept, named, unversioned
from hyperpod_ray_sandbox.kubernetes.writes.delete import check_preconditions

Json = dict[str, Any]

_NO_CONTAINERS = ("exec", "attach", "proxy", "log")

_EVICTION = Resource("policy", "v1", "Eviction", "evictions", namespaced=True)
_TOKEN = Resource("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", namespaced=True)
_BINDING = Resource("", "v1", "Binding", "bindings", namespaced=True)
_SUBRESOURCE_VERBS = {
    "status": ("get", "update", "patch"),
    "scale": ("get", "update", "patch"),
    "resize": ("get", "update", "patch"),
    "ephemeralcontainers": ("get", "update", "patch"),
    "eviction": ("create",),
    "binding": ("create",),
    "token": ("create",),
    "finalize": ("update",),
}


def act(  # noqa: PLR0911, PLR0912
    api: Api, request: Request, options: Options, target: Target, verb: str
) -> tuple[int, Any]:
    """Do what a request asks; return the HTTP status and the answer."""
    resource, namespace, name = target.resource, target.namespace, target.name
    if target.subresource in _NO_CONTAINERS:
        raise ApiError(
            501, "NotImplemented", f"this recording API has no containers: {target.subresource} cannot work here"
        )
    if target.subresource == "portforward":
        if "upgrade" not in request.headers:
            raise bad_request("Upgrade request required")
        raise ApiError(
            501,
            "NotImplemented",
            "this recording API forwards ports over WebSocket only: use kubectl 1.31 or newer, or hyperpod-ray connect",
        )
    if verb not in (_SUBRESOURCE_VERBS.get(target.subresource, ()) if target.subresource else resource.verbs):
        raise _not_allowed(target, verb)
    misplaced = (verb == "create" and name and not target.subresource) or (verb in ("update", "patch") and not name)
    if misplaced and not resource.crd:
        raise _not_allowed(target, verb)
    check_write(request, verb)
    if resource.namespaced and not namespace and verb != "list":
        raise _not_allowed(target, verb)
    if verb == "get" and request.flag("export"):
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    if target.subresource == "scale":
        return 200, scale.act(api, request, options, target, verb)
    if target.subresource == "eviction":
        return 201, _evict(api, request, options, target)
    if target.subresource == "binding":
        return 201, _bind(api, request, options, target)
    if target.subresource == "token":
        asked = accept(_TOKEN, namespace, request.object())
        spec = asked.get("spec") or {}
        _readable(_TOKEN, {**asked, "spec": {"audiences": [], **spec}}, request, options)
        if (sent := asked["metadata"].get("name") or name) != name:
            why = f'Invalid value: "{sent}": must match the service account name if specified'
            raise invalid(_TOKEN.kind, _TOKEN.group, name, [Cause("FieldValueInvalid", why, "metadata.name")])
        return 201, api.tokens.issue(api.get(resource, namespace, name), asked)
    if target.subresource == "finalize":
        stored = api.update(resource, namespace, name, request.object(), options, subresource="finalize")
        return 200, stored
    if verb == "create":
        if not resource.crd and resource.group in ("authorization.k8s.io", "authentication.k8s.io"):
            return 201, reviews.answer(api.rbac, resource, request.object(), options.user or ADMINISTRATOR)
        return 201, api.create(resource, namespace, request.object(), options)
    if verb == "get":
        check_version(request, api.store)
        return 200, api.get(resource, namespace, name)
    if verb == "list":
        return 200, listing(api, request, target, selection(request, resource))
    if verb == "update":
        body = request.object()
        if not target.subresource and creates_on_update(resource) and not api.exists(resource, namespace, name):
            api.rbac.require(options.user or ADMINISTRATOR, action_of(request, target, "create", request.path))
            return 201, api.create(resource, namespace, unversioned(named(body, name), resource), options)
        return 200, api.update(resource, namespace, name, body, options, subresource=target.subresource)
    if verb == "patch":
        stored, created = api.patch(
            resource, namespace, name, request.body, request.content_type, options, subresource=target.subresource
        )
        return (201 if created else 200), stored
    delete_options(request, options)
    if verb == "delete":
        removed, gone = api.delete(resource, namespace, name, options)
        if gone and resource.kind != "Pod":
            return 200, success(
                details={
                    "name": name,
                    "group": resource.group,
                    "kind": resource.plural,
                    "uid": removed["metadata"]["uid"],
                }
            )
        return 200, api.present(resource, api.store.get(api.key(resource, namespace, name)) or removed)
    if verb == "deletecollection":
        chosen = listing(api, request, target, selection(request, resource))
        for obj in chosen["items"]:
            api.delete(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], options)
        return 200, chosen
    raise _not_allowed(target, verb)


def _not_allowed(target: Target, verb: str) -> ApiError:
    """405 for a verb that a resource has not."""
    resource = target.resource
    why = "the server does not allow this method on the requested resource"
    if resource.crd:
        name = qualified(resource.plural, resource.group)
        why = f'{verb} is not supported on resources of kind "{name}"'
    return ApiError(405, "MethodNotAllowed", why)


def _readable(resource: Resource, body: Json, request: Request, options: Options) -> None:
    """Refuse the body of a subresource that cannot be read; raises 400."""
    options.doubled = request.doubled
    sent = {**body, "apiVersion": resource.api_version, "kind": resource.kind}
    sent.setdefault("metadata", {})
    strict = options.validation == "Strict"
    _, warnings = schema.check(resource, sent, strict=strict, name="", doubled=request.doubled)
    if options.validation == "Warn":
        options.warnings += warnings


def _evict(api: Api, request: Request, options: Options, target: Target) -> Json:
    """Delete a pod unless a disruption budget forbids it; raises 429."""
    body = request.object()
    if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
        raise bad_request(f"not an Eviction object: {body!r}"[:200])
    inside = body.get("deleteOptions") or {}
    if isinstance(inside, dict):  # of what kind they say they are is not read
        inside = {field: value for field, value in inside.items() if field not in ("apiVersion", "kind")}
    _readable(_EVICTION, {**body, "deleteOptions": inside}, request, options)
    if (body.get("metadata") or {}).get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    named_space = (body.get("metadata") or {}).get("namespace") or target.namespace
    if named_space != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    asked = request.query_lists.get("dryRun") or []
    if asked and inside.get("dryRun") and asked != inside["dryRun"]:
        raise bad_request(f"Non-matching dry-run options in request and content: {asked} and {inside['dryRun']}")
    delete_options(request, options, {**inside, "dryRun": inside.get("dryRun") or asked})
    pod = api.get(target.resource, target.namespace, target.name)
    check_preconditions(target.resource, pod, options)
    # admission sees the Eviction, which has no labels, and not the pod
    evicted = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
    evicted["metadata"] = {**(body.get("metadata") or {}), "namespace": target.namespace}
    admission.validate(api, target.resource, evicted, None, options, "eviction")
    options.user = None  # the rule of an eviction is its own, not that of a delete
    eviction.check(api, pod)
    api.delete(target.resource, target.namespace, target.name, options)
    return success(code=201)


def _bind(api: Api, request: Request, options: Options, target: Target) -> Json:
    """Give a pod its node, as a scheduler does."""
    body = request.object()
    if isinstance(body, dict):
        _readable(_BINDING, body, request, options)
    aim = (body.get("target") or {}) if isinstance(body, dict) else {}
    node, node_kind = aim.get("name"), aim.get("kind") or "Node"
    faults = (
        []
        if node_kind == "Node"
        else [f'target.kind: Unsupported value: "{node_kind}": supported values: "Node", "<empty>"']
    )
    faults += [] if node else ["target.name: Required value"]
    if faults:  # the server reports them without a status of their own
        raise ApiError(500, "", faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    pod = api.get(target.resource, target.namespace, target.name)
    pod_spec, meta = pod["spec"], pod["metadata"]
    why = ""
    if meta.get("deletionTimestamp"):
        why = f"pod {target.name} is being deleted, cannot be assigned to a host"
    elif pod_spec.get("nodeName"):
        why = f'pod {target.name} is already assigned to node "{pod_spec["nodeName"]}"'
    elif pod_spec.get("schedulingGates"):
        why = f"pod {target.name} has non-empty .spec.schedulingGates"
    if why:
        details = {"name": target.name, "kind": "pods/binding"}
        message = f'Operation cannot be fulfilled on pods/binding "{target.name}": {why}'
        raise ApiError(409, "Conflict", message, details)
    bound = copy(pod)
    bound["spec"]["nodeName"] = node
    if annotations := (body.get("metadata") or {}).get("annotations"):
        bound["metadata"].setdefault("annotations", {}).update(annotations)
    api.update(target.resource, target.namespace, target.name, bound, Options(dry_run=options.dry_run))
    return success(code=201)


def selection(request: Request, resource: Resource) -> Callable[[Json], bool]:
    """Whether an object is among those that the request's selectors take."""
    labels = label_selector(request.query["labelSelector"]) if request.query.get("labelSelector") else None
    fields = field_selector(resource, request.query["fieldSelector"]) if request.query.get("fieldSelector") else None

    def keep(obj: Json) -> bool:
        return (labels is None or labels(obj["metadata"].get("labels") or {})) and (fields is None or fields(obj))

    return keep
