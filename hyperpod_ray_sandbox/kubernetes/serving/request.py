"""One HTTP request: what was sent, the resource that its path names, its verb and its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import yaml

from hyperpod_ray_sandbox.kubernetes import decoding, protobuf
from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Action
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Registry, Resource
from hyperpod_ray_sandbox.kubernetes.serving import outside
from hyperpod_ray_sandbox.kubernetes.serving.fields import single_name
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request, no_such_path, not_found

Json = dict[str, Any]

_OLD_WATCH = re.compile(r"/(api/v1|apis/[^/]+/[^/]+)/watch/")
"""The old form of ?watch=true."""


@dataclass
class Request:
    """One HTTP request, read."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    # paths of fields that the body gives twice, once it was read
    doubled: list[str] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    # every value of each query parameter
    query_lists: dict[str, list[str]] = field(default_factory=dict)

    @property
    def content_type(self) -> str:
        """The media type of the body, without its parameters."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true: every word does but `false` and `0`."""
        return name in self.query and self.query[name].lower() not in ("false", "0")

    def object(self) -> Any:
        """The body as an object: JSON or YAML."""
        content_type = self.content_type or "application/json"
        if content_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.body)
        try:
            if content_type in ("application/yaml", "text/yaml"):
                value, doubled = decoding.read_yaml(self.body)
                self.doubled[:] = doubled
                return value
            if content_type not in ("application/json", "*/*", ""):
                raise ApiError(
                    415,
                    "UnsupportedMediaType",
                    f"the body of the request was in an unknown format ({content_type}) - accepted "
                    "media types include: application/json, application/yaml",
                )
            value, doubled = decoding.read(self.body)
            self.doubled[:] = doubled
            return value
        except (ValueError, yaml.YAMLError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


@dataclass(frozen=True)
class Target:
    """What a path names."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[Resource, str, str]:
        """What `Api` finds an object by."""
        return self.resource, self.namespace, self.name


def target_of(registry: Registry, path: str) -> Target | None:
    """What a path names, or None where it names no resource; raises 404 for a resource that is not served."""
    parts = path.strip("/").split("/")
    if (
        parts[0] in ("api", "apis")
        and "watch" in parts[2:4]
        and parts.index("watch") == (2 if parts[0] == "api" else 3)
    ):
        parts.remove("watch")  # the old form of ?watch=true
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    resource = registry.by_path(group, version, rest[0])
    if resource is None:
        raise outside.refused(group, version, rest[0])
    if namespace and not resource.namespaced:
        raise no_such_path()
    if len(rest) > 3 and not (len(rest) > 2 and rest[2] == "proxy"):
        raise no_such_path()
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        if resource.crd and len(rest) == 3:
            raise not_found(resource.plural, resource.group, rest[1])
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace and not resource.verbs == ("create",):
        raise no_such_path()
    return Target(resource, namespace, name, subresource)


def applies(request: Request) -> bool:
    """Whether a patch is a server-side apply, which may create."""
    return request.content_type.startswith("application/apply-patch")


def action_of(request: Request, target: Target | None, verb: str, path: str) -> Action:
    """What a request does, as roles name it."""
    if target is None:
        return Action(verb, path=path)
    resource = target.resource
    full = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    namespace = target.name if resource.kind == "Namespace" and not resource.group else target.namespace
    # a list of one name is asked for by that name: a role may be about it
    name = target.name
    if verb in ("list", "watch", "deletecollection") and not name and request.query.get("fieldSelector"):
        name = single_name(request.query["fieldSelector"])
    return Action(verb, resource.group, full, namespace, name)


def read(scope: Json, body: bytes) -> Request:
    """Read a request from ASGI's scope."""
    query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
    path = scope["path"]
    if _OLD_WATCH.match(path):
        query["watch"] = ["true"]
    return Request(
        method=scope["method"],
        path=path,
        query={k: v[0] for k, v in query.items()},
        query_lists=query,
        headers={k.decode().lower(): v.decode() for k, v in scope["headers"]},
        body=body,
        groups=tuple(v.decode() for k, v in scope["headers"] if k.decode().lower() == "impersonate-group"),
    )


def verb_of(request: Request, target: Target | None) -> str:
    """The verb, as roles name it: a GET may be a get, a list or a watch."""
    if target is None:
        return request.method.lower()
    if request.method in ("GET", "HEAD"):
        # `?watch` of one object's own path is ignored: kubectl watches the list by metadata.name
        if request.flag("watch") and (not target.name or _OLD_WATCH.match(request.path)):
            return "watch"
        return "get" if target.name else "list"
    words = {
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if target.name else "deletecollection",
    }
    if request.method not in words:
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    return words[request.method]


def options_of(request: Request) -> Options:
    """What a request asks besides its object."""
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    return Options(
        dry_run=bool(request.query_lists.get("dryRun")),
        manager=request.query.get("fieldManager")
        or (agent if request.content_type != "application/apply-patch+yaml" else ""),
        validation=request.query.get("fieldValidation") or "Warn",
        force=request.flag("force"),
    )
