"""Which requests admission is about: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.admission.matching import Attributes, author, concerns
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import builtin_resources

Json = dict[str, Any]
RESOURCES = {resource.plural: resource for resource in builtin_resources()}
PODS, NODES, NAMESPACES = (RESOURCES[name] for name in ("pods", "nodes", "namespaces"))
POD: Json = {"metadata": {"name": "p", "namespace": "team-a", "labels": {"app": "ray"}}}
LABELS = {"team-a": {"team": "a"}, "none": {}}
API: Any = SimpleNamespace(
    find=lambda version, kind, space, name: {"metadata": {"labels": LABELS[name]}} if name in LABELS else None
)


def request(
    resource: Any = PODS, obj: Json | None = POD, stored: Json | None = None, subresource: str = ""
) -> Attributes:
    return Attributes.of(resource, obj, stored, Options(), Identity("u", ("g",)), subresource)


def of(resources: list[str], **more: Any) -> Json:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources, **more}


@pytest.mark.parametrize(
    ("rule", "attributes", "taken"),
    [
        (of(["pods"]), request(), True),
        (of(["*"]), request(), True),
        (of(["*/*"]), request(), True),
        (of(["nodes"]), request(), False),
        (of(["pods"], operations=["UPDATE"]), request(), False),
        (of(["pods"], operations=["*"]), request(), True),
        (of(["pods"], operations=["UPDATE"]), request(stored=POD), True),
        (of(["pods"], operations=["DELETE"]), request(obj=None, stored=POD), True),
        (of(["pods"], apiGroups=["apps"]), request(), False),
        (of(["pods"], apiVersions=["v2"]), request(), False),
        (of(["pods"], apiGroups=["*"], apiVersions=["*"]), request(), True),
        (of(["pods"], scope="Cluster"), request(), False),
        (of(["pods"], scope="Namespaced"), request(), True),
        (of(["nodes"], scope="Cluster"), request(NODES, {"metadata": {"name": "n"}}), True),
        (of(["pods"], resourceNames=["p"]), request(), True),
        (of(["pods"], resourceNames=["q"]), request(), False),
        # a resource is not its subresources, and the other way round
        (of(["pods"]), request(subresource="status"), False),
        (of(["*"]), request(subresource="status"), False),
        (of(["pods/status"]), request(subresource="status"), True),
        (of(["pods/*"]), request(subresource="status"), True),
        (of(["*/status"]), request(subresource="status"), True),
        (of(["*/*"]), request(subresource="status"), True),
        (of(["pods/status"]), request(), False),
    ],
)
def test_a_rule_takes_what_it_names(rule: Json, attributes: Attributes, taken: bool) -> None:
    assert concerns(API, {"resourceRules": [rule], "rules": [rule]}, attributes) is taken


ANY = {"resourceRules": [of(["*"], operations=["*"])]}


@pytest.mark.parametrize(
    ("selectors", "attributes", "taken"),
    [
        ({"objectSelector": {"matchLabels": {"app": "ray"}}}, request(), True),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, request(), False),
        (
            {"objectSelector": {"matchLabels": {"app": "web"}}},
            request(stored={"metadata": {**POD["metadata"], "labels": {"app": "web"}}}),
            True,
        ),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, request(), True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, request(), False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, request(NODES, {"metadata": {"name": "n"}}), True),
        (
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            request(NAMESPACES, {"metadata": {"name": "x", "labels": {"team": "a"}}}),
            True,
        ),
        (
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            request(NAMESPACES, {"metadata": {"name": "x"}}),
            False,
        ),
        ({"namespaceSelector": {}, "objectSelector": {}}, request(), True),
    ],
)
def test_selectors_narrow_it(selectors: Json, attributes: Attributes, taken: bool) -> None:
    assert concerns(API, {**ANY, **selectors}, attributes) is taken


def owned(kind: str, version: str, **more: Any) -> Json:
    return {
        "metadata": {
            "name": "p",
            "ownerReferences": [{"kind": kind, "apiVersion": version, "controller": True, **more}],
        }
    }


@pytest.mark.parametrize(
    ("obj", "stored", "user", "name"),
    [
        (POD, None, Identity("me", ()), "me"),
        (POD, None, None, ""),
        (None, POD, None, ""),
        (owned("Job", "batch/v1"), None, None, "system:serviceaccount:kube-system:job-controller"),
        (owned("RayCluster", "ray.io/v1"), None, None, "system:serviceaccount:kuberay-operator:kuberay-operator"),
        (owned("Job", "batch/v1"), POD, None, ""),
        (owned("Job", "batch/v1", controller=False), None, None, ""),
    ],
)
def test_who_writes(obj: Json | None, stored: Json | None, user: Identity | None, name: str) -> None:
    writer = author(PODS, obj, stored, Options(user=user))
    assert (writer.username if writer else "") == name


def test_a_review_is_what_the_documentation_shows() -> None:
    review = request(stored=POD, subresource="status").review()
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    asked = review["request"]
    assert len(asked.pop("uid")) == 36
    assert asked == {
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "status", "requestSubResource": "status", "name": "p", "namespace": "team-a", "operation": "UPDATE",
        "userInfo": {"username": "u", "groups": ["g"]}, "dryRun": False, "object": POD, "oldObject": POD,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    assert "subResource" not in request().request()
