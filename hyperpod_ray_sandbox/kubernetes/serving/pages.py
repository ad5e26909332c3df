"""Lists in parts: `limit` and `continue`, each part of one moment, and lists of an earlier moment.

The moment is made again from the changes since. Source: k8s.io/apiserver/pkg/storage/{continue.go,etcd3/store.go}.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.serving.parameters import check_list, number
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]

_ENCODING = "meta.k8s.io/v1"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


def _moment(store: Store, bucket: str, version: int) -> dict[tuple[str, str], Json]:
    """The objects of a bucket as they were at a resourceVersion."""
    entries = {(o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in store.objects(bucket)}
    for change in reversed(store.since(version)):
        if change.key[0] != bucket:
            continue
        if change.old is None:
            entries.pop(change.key[1:], None)
        else:
            entries[change.key[1:]] = change.old
    return entries


def _token(version: int, start: tuple[str, str]) -> str:
    """What a client sends back for the next part."""
    text = json.dumps({"v": _ENCODING, "rv": version, "start": f"{start[0]}/{start[1]}"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, tuple[str, str]]:
    """The moment and the place that a token stands for; raises 400."""
    try:
        content = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = content["start"].partition("/")
        if content["v"] != _ENCODING:
            raise bad_request(
                f'invalid continue token: server does not recognize this encoded version "{content["v"]}"'
            )
        return int(content["rv"]), (namespace, name)
    except (ValueError, binascii.Error, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def _asked_version(request: Request, store: Store) -> int | None:
    """The moment that a list names; None for now."""
    text = request.query.get("resourceVersion") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"invalid resource version: {not_a_version(text)}")
    version = check_version(request, store)
    exact = request.query.get("resourceVersionMatch") == "Exact"
    limited = number(request, "limit") > 0 and version and not request.query.get("resourceVersionMatch")
    return version if exact or limited else None


def check_version(request: Request, store: Store) -> int:
    """The version that a read must be as new as; raises 500 or 504 for one that never was."""
    text = request.query.get("resourceVersion") or "0"
    if not (text.isascii() and text.isdigit()):
        raise not_a_version(text)
    version = int(text)
    if version > store.version:
        raise _too_large(version, store)
    return version


def _too_large(version: int, store: Store) -> ApiError:
    """504 for a version that never was."""
    message = f"Timeout: Too large resource version: {version}, current: {store.version}"
    return ApiError(504, "Timeout", message, {"retryAfterSeconds": 1})


def not_a_version(text: str) -> ApiError:
    """500, which the API server gives a resourceVersion that is no number."""
    why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    return ApiError(500, "", why)


def listing(api: Api, request: Request, target: Target, keep: Callable[[Json], bool]) -> Json:
    """The list that a request asks for, or the part of it."""
    check_list(request)
    store, resource = api.store, target.resource
    limit, start = number(request, "limit"), None
    if request.query.get("continue"):
        if (request.query.get("resourceVersion") or "0") != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(request.query["continue"])
        if version > store.version:
            raise _too_large(version, store)
        if version < store.oldest:
            raise ApiError(410, "Expired", _TOO_OLD)
        moment: int | None = version
    else:
        moment = _asked_version(request, store)
        if moment is not None and moment < store.oldest:
            raise ApiError(
                410, "Expired", "The provided resource version is too old to display a consistent list result."
            )
    if moment is None or moment == store.version:
        moment = store.version
        objects = store.objects(resource.store, target.namespace if resource.namespaced else "")
    else:
        entries = _moment(store, resource.store, moment)
        objects = [entries[place] for place in sorted(entries) if target.namespace in ("", place[0])]
    places = [(o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects]
    chosen: list[Json] = []
    meta: Json = {"resourceVersion": str(moment)}
    for index, (place, obj) in enumerate(zip(places, objects, strict=True)):
        if (start and place < start) or (target.name and place[1] != target.name) or not keep(obj):
            continue
        if limit > 0 and len(chosen) == limit:
            meta["continue"] = _token(moment, place)
            if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
                meta["remainingItemCount"] = len(objects) - index
            break
        chosen.append(api.present(resource, obj))
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": chosen}
