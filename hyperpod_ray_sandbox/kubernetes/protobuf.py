"""Reads the few protobuf bodies that typed Go clients send (Helm 4 stores its releases that way); answers stay JSON.

Only the kinds listed here are read; any other protobuf body is refused with 415. Field numbers: generated.proto of
k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request

Json = dict[str, Any]
Message = dict[int, tuple[str, Any]]  # field number -> (name, type)

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

# a type is "string", "bytes", "int", "bool", "time", "json" (FieldsV1), ["of", type] for repeated,
# {"map": type} for maps, or a message
_OWNER: Message = {
    1: ("kind", "string"),
    3: ("name", "string"),
    4: ("uid", "string"),
    5: ("apiVersion", "string"),
    6: ("controller", "bool"),
    7: ("blockOwnerDeletion", "bool"),
}
_MANAGED: Message = {
    1: ("manager", "string"),
    2: ("operation", "string"),
    3: ("apiVersion", "string"),
    4: ("time", "time"),
    6: ("fieldsType", "string"),
    7: ("fieldsV1", "json"),
    8: ("subresource", "string"),
}
_META: Message = {
    1: ("name", "string"),
    2: ("generateName", "string"),
    3: ("namespace", "string"),
    4: ("selfLink", "string"),
    5: ("uid", "string"),
    6: ("resourceVersion", "string"),
    7: ("generation", "int"),
    8: ("creationTimestamp", "time"),
    9: ("deletionTimestamp", "time"),
    10: ("deletionGracePeriodSeconds", "int"),
    11: ("labels", {"map": "string"}),
    12: ("annotations", {"map": "string"}),
    13: ("ownerReferences", ["of", _OWNER]),
    14: ("finalizers", ["of", "string"]),
    17: ("managedFields", ["of", _MANAGED]),
}
_KINDS: dict[tuple[str, str], Message] = {
    ("v1", "Secret"): {
        1: ("metadata", _META),
        2: ("data", {"map": "bytes"}),
        3: ("type", "string"),
        4: ("stringData", {"map": "string"}),
        5: ("immutable", "bool"),
    },
    ("v1", "ConfigMap"): {
        1: ("metadata", _META),
        2: ("data", {"map": "string"}),
        3: ("binaryData", {"map": "bytes"}),
        4: ("immutable", "bool"),
    },
    ("v1", "Namespace"): {
        1: ("metadata", _META),
        2: ("spec", {1: ("finalizers", ["of", "string"])}),
        3: ("status", {1: ("phase", "string")}),
    },
}
_ATTRIBUTES: Message = {
    1: ("namespace", "string"),
    2: ("verb", "string"),
    3: ("group", "string"),
    4: ("version", "string"),
    5: ("resource", "string"),
    6: ("subresource", "string"),
    7: ("name", "string"),
}
_PATH: Message = {1: ("path", "string"), 2: ("verb", "string")}
_ACCESS: Message = {1: ("resourceAttributes", _ATTRIBUTES), 2: ("nonResourceAttributes", _PATH)}
_SUBJECT: Message = {**_ACCESS, 3: ("user", "string"), 4: ("groups", ["of", "string"])}
_KINDS[("authorization.k8s.io/v1", "SelfSubjectAccessReview")] = {1: ("metadata", _META), 2: ("spec", _ACCESS)}
_KINDS[("authorization.k8s.io/v1", "SubjectAccessReview")] = {1: ("metadata", _META), 2: ("spec", _SUBJECT)}
_KINDS[("authorization.k8s.io/v1", "SelfSubjectRulesReview")] = {
    1: ("metadata", _META),
    2: ("spec", {1: ("namespace", "string")}),
}
_KINDS[("authentication.k8s.io/v1", "SelfSubjectReview")] = {1: ("metadata", _META)}
_DELETE: Message = {
    1: ("gracePeriodSeconds", "int"),
    2: ("preconditions", {1: ("uid", "string"), 2: ("resourceVersion", "string")}),
    3: ("orphanDependents", "bool"),
    4: ("propagationPolicy", "string"),
    5: ("dryRun", ["of", "string"]),
}
_UNKNOWN: Message = {
    1: ("typeMeta", {1: ("apiVersion", "string"), 2: ("kind", "string")}),
    2: ("raw", "raw"),
    3: ("contentEncoding", "string"),
    4: ("contentType", "string"),
}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError
            yield number, data[at : at + size]
            at += size
        else:
            raise bad_request(f"protobuf wire type {wire} is not expected here")


def _value(raw: int | bytes, field_type: Any) -> Any:  # noqa: PLR0911
    if isinstance(raw, int):
        if field_type == "bool":
            return bool(raw)
        return raw - (1 << 64) if raw >= 1 << 63 else raw
    if field_type == "string":
        return raw.decode()
    if field_type == "bytes":
        return base64.b64encode(raw).decode()
    if field_type == "raw":
        return raw
    if field_type == "json":
        inner = dict(_fields(raw)).get(1, b"{}")
        return json.loads(inner) if isinstance(inner, bytes) else {}
    if field_type == "time":
        seconds = dict(_fields(raw)).get(1, 0)
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None
    return _message(raw, field_type)


def _message(data: bytes, shape: Message) -> Json:
    result: Json = {}
    for number, raw in _fields(data):
        if number not in shape:
            continue
        name, field_type = shape[number]
        if isinstance(field_type, list):
            result.setdefault(name, []).append(_value(raw, field_type[1]))
        elif isinstance(field_type, dict) and "map" in field_type:
            pair = dict(_fields(raw)) if isinstance(raw, bytes) else {}
            key = pair.get(1, b"")
            result.setdefault(name, {})[key.decode() if isinstance(key, bytes) else str(key)] = _value(
                pair.get(2, b""), field_type["map"]
            )
        else:
            value = _value(raw, field_type)
            # Go's protobuf writes empty strings for fields that are not set
            if value not in ("", None):
                result[name] = value
    return result


def decode(body: bytes) -> Json:
    """The object in a protobuf body; raises ApiError 415 for a kind that is not read here."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = _message(body[len(_MAGIC) :], _UNKNOWN)
        kind = (envelope.get("typeMeta") or {}).get("kind", "")
        api_version = (envelope.get("typeMeta") or {}).get("apiVersion", "")
        shape = _DELETE if kind == "DeleteOptions" else _KINDS.get((api_version, kind))
        if shape is None:
            raise ApiError(
                415, "UnsupportedMediaType", f"this recording API reads no protobuf of {api_version} {kind}: send JSON"
            )
        message = _message(envelope.get("raw", b""), shape)
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body is cut or broken: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **message}
