"""A request's target and its verb, as roles name both."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.resources import Registry, builtin_resources
from hyperpod_ray_sandbox.kubernetes.serving import request
from hyperpod_ray_sandbox.kubernetes.status import ApiError

REGISTRY = Registry(builtin_resources())
PODS = "/api/v1/namespaces/ray/pods"


def sent(method: str, path: str, query: str = "", **headers: str) -> request.Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"method": method, "path": path, "query_string": query.encode(), "headers": pairs}
    return request.read(scope, b"")


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("POST", PODS, "", "create"), ("GET", f"{PODS}/a", "", "get"), ("HEAD", f"{PODS}/a", "", "get"), ("GET", PODS, "", "list"),
        ("GET", PODS, "watch=1", "watch"), ("GET", PODS, "watch=true", "watch"), ("GET", PODS, "watch=false", "list"),
        ("GET", "/api/v1/watch/namespaces/ray/pods", "", "watch"), ("PUT", f"{PODS}/a", "", "update"),
        ("PATCH", f"{PODS}/a", "", "patch"), ("DELETE", f"{PODS}/a", "", "delete"), ("DELETE", PODS, "", "deletecollection"),
    ],
)  # fmt: skip
def test_verbs_are_those_of_the_documentation(method: str, path: str, query: str, verb: str) -> None:
    """https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb"""
    asked = sent(method, path, query)
    assert request.verb_of(asked, request.target_of(REGISTRY, asked.path)) == verb


def test_a_path_that_is_no_resource_has_its_method_for_a_verb() -> None:
    for path in ("/healthz", "/version", "/api", "/apis", "/openapi/v3"):
        assert request.target_of(REGISTRY, path) is None
        assert request.verb_of(sent("GET", path), None) == "get"
    with pytest.raises(ApiError) as refused:
        request.verb_of(sent("TRACE", PODS), request.target_of(REGISTRY, PODS))
    assert refused.value.code == 405


@pytest.mark.parametrize(
    ("path", "kind", "namespace", "name", "subresource"),
    [
        (PODS, "Pod", "ray", "", ""), (f"{PODS}/a/log", "Pod", "ray", "a", "log"), ("/api/v1/pods", "Pod", "", "", ""),
        ("/api/v1/namespaces/ray", "Namespace", "", "ray", ""), ("/api/v1/namespaces/ray/status", "Namespace", "", "ray", "status"),
        ("/apis/apps/v1/namespaces/ray/deployments/web/scale", "Deployment", "ray", "web", "scale"),
        ("/api/v1/nodes/i-1", "Node", "", "i-1", ""),
    ],
)  # fmt: skip
def test_what_a_path_names(path: str, kind: str, namespace: str, name: str, subresource: str) -> None:
    """https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris"""
    target = request.target_of(REGISTRY, path)
    assert target is not None
    named = (target.resource.kind, target.namespace, target.name, target.subresource)
    assert named == (kind, namespace, name, subresource)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/ray/nodes/i-1",
        "/api/v1/pods/a",
        f"{PODS}/a/nothing",
        f"{PODS}/a/log/more",
        "/apis/nobody.example/v1/things",
    ],
)
def test_what_no_path_names_is_not_found(path: str) -> None:
    with pytest.raises(ApiError) as refused:
        request.target_of(REGISTRY, path)
    assert refused.value.code == 404


def test_roles_see_the_subresource_and_a_namespace_by_its_own_name() -> None:
    """https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources"""

    def action(path: str, verb: str, query: str = "") -> Any:
        return request.action_of(sent("GET", path, query), request.target_of(REGISTRY, path), verb, path)

    log = action(f"{PODS}/a/log", "get")
    assert (log.group, log.resource, log.namespace, log.name) == ("", "pods/log", "ray", "a")
    assert action("/api/v1/namespaces/ray", "get").namespace == "ray"
    assert action(PODS, "list", "fieldSelector=metadata.name%3Da").name == "a", "a role with names may list one of them"
    assert action("/healthz", "get").path == "/healthz"


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("application/json", b'{"a": 1}', 0),
        ("application/yaml", b"a: 1", 0),
        ("text/csv", b"a", 415),
        ("application/json", b"{", 400),
    ],
)
def test_bodies_are_json_or_yaml(content_type: str, body: bytes, code: int) -> None:
    scope: dict[str, Any] = {
        "method": "POST", "path": PODS, "query_string": b"", "headers": [(b"content-type", f"{content_type}; a=b".encode())],
    }  # fmt: skip
    asked = request.read(scope, body)
    if not code:
        assert asked.object() == {"a": 1}
        return
    with pytest.raises(ApiError) as refused:
        asked.object()
    assert refused.value.code == code


def test_an_apply_names_its_manager_itself() -> None:
    """A user agent stands for the manager of every write but an apply, which must name one."""
    plain = sent(
        "PATCH", f"{PODS}/a", "", user_agent="kubectl/v1.35.0 (linux/amd64)", content_type="application/json-patch+json"
    )
    assert request.options_of(plain).manager == "kubectl"
    applied = sent("PATCH", f"{PODS}/a", "", user_agent="kubectl/v1.35.0", content_type="application/apply-patch+yaml")
    assert request.applies(applied)
    assert request.options_of(applied).manager == ""
    named = sent(
        "PATCH", f"{PODS}/a", "fieldManager=mine&force=true&dryRun=All", content_type="application/apply-patch+yaml"
    )
    options = request.options_of(named)
    assert (options.manager, options.force, options.dry_run) == ("mine", True, True)
