"""The form that a client asks for: whole objects, a Table, or metadata alone."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes import table
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.serving.request import Request
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request

Json = dict[str, Any]

_SERVED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor")
_MEDIA_TYPES = {*_SERVED, "*/*", "application/*"}


def view(request: Request) -> str:
    """The form that the Accept header names first of those there are; empty for whole objects. Raises 406 for none."""
    accepted = [part.split(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    if any(accepted) and not _MEDIA_TYPES.intersection(accepted):
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(_SERVED)}")
    for part in request.headers.get("accept", "").split(","):
        text = part.replace(" ", "")
        words = text.split(";")
        if "as=Table" in words and set(words) & {"v=v1", "v=v1beta1"}:
            return "Table"
        if "as=PartialObjectMetadata" in text and "v=v1" in words:
            return "PartialObjectMetadata"
        if words[0] in _MEDIA_TYPES and "as=" not in text:
            return ""
    if "as=" in request.headers.get("accept", ""):
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(_SERVED)}")
    return ""


def shape(request: Request, resource: Resource, answer: Json) -> Json:
    """An object or a list in the form that the client asks for."""
    form = view(request)
    is_list = "items" in answer and answer.get("kind", "").endswith("List")
    if form == "Table" and "list" in resource.verbs and answer.get("kind") != "Scale":
        include = request.query.get("includeObject") or "Metadata"
        if include not in ("Metadata", "Object", "None"):
            why = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: {why}")
        objects = answer["items"] if is_list else [answer]
        meta = answer["metadata"] if is_list else {"resourceVersion": answer["metadata"]["resourceVersion"]}
        return table.table(resource, objects, meta, include=include)
    if form.startswith("PartialObjectMetadata"):
        if is_list:
            items = [_partial(o) for o in answer["items"]]
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": answer["metadata"],
                "items": items,
            }
        return _partial(answer)
    if is_list and not resource.crd:
        # a list of Kubernetes' own kinds says them once; items of custom resources have theirs
        return {**answer, "items": [_untyped(item) for item in answer["items"]]}
    return answer


def bookmark(resource: Resource, version: int) -> Json:
    """The object of a BOOKMARK event."""
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }


def _untyped(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
