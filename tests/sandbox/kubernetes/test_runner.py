"""Requests that would do harm where the sandbox took them for something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step

pytestmark = pytest.mark.emulator

PODS = "/api/v1/namespaces/harm/pods"
MAPS = "/api/v1/namespaces/harm/configmaps"


@pytest.fixture(scope="module")
def client(cluster: Any) -> Client:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    assert client.send(Step("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": "harm"}})))[0] == 201
    return client


def sent(client: Client, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
    return client.send(Step(method, path, json.dumps(body) if body is not None else "", content_type))


def pod(client: Client, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "busybox:1"}], "nodeSelector": {"no": "node"}}
    assert sent(client, "POST", PODS, {"metadata": {"name": name}, "spec": spec})[0] == 201


@pytest.mark.parametrize("where", ["query", "body"])
def test_a_dry_run_of_an_eviction_deletes_nothing(client: Client, where: str) -> None:
    pod(client, f"kept-{where}")
    body: dict[str, Any] = {"metadata": {"name": f"kept-{where}"}}
    if where == "body":
        body["deleteOptions"] = {"dryRun": ["All"]}
    query = "?dryRun=All" if where == "query" else ""
    assert sent(client, "POST", f"{PODS}/kept-{where}/eviction{query}", body)[0] == 201
    assert sent(client, "GET", f"{PODS}/kept-{where}")[0] == 200
    assert sent(client, "POST", f"{PODS}/kept-{where}/eviction", {"metadata": {"name": f"kept-{where}"}})[0] == 201
    assert sent(client, "GET", f"{PODS}/kept-{where}")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_another_word_for_a_dry_run_writes_nothing(client: Client, method: str) -> None:
    name = f"dry-{method.lower()}"
    if method != "POST":
        assert sent(client, "POST", MAPS, {"metadata": {"name": name}})[0] == 201
    path = MAPS if method == "POST" else f"{MAPS}/{name}"
    body = {"metadata": {"name": name}, "data": {"a": "1"}} if method != "DELETE" else None
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    code, answer = sent(client, method, f"{path}?dryRun=Server", body, content_type)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert 'dryRun: Unsupported value: ["Server"]: supported values: "All"' in answer["message"]
    code, stored = sent(client, "GET", f"{MAPS}/{name}")
    assert code == (404 if method == "POST" else 200)
    assert "data" not in stored


def test_pages_are_of_one_moment(client: Client) -> None:
    for letter in "abcde":
        labels = {"page": "yes"}
        assert sent(client, "POST", MAPS, {"metadata": {"name": f"page-{letter}", "labels": labels}})[0] == 201
    query = f"{MAPS}?labelSelector=page%3Dyes&limit=2"
    _, first = sent(client, "GET", query)
    # what happens between two pages is in neither
    assert sent(client, "DELETE", f"{MAPS}/page-d")[0] == 200
    assert sent(client, "POST", MAPS, {"metadata": {"name": "page-f", "labels": {"page": "yes"}}})[0] == 201
    names, page = [o["metadata"]["name"] for o in first["items"]], first
    while page["metadata"].get("continue"):
        _, page = sent(client, "GET", f"{query}&continue={page['metadata']['continue']}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [o["metadata"]["name"] for o in page["items"]]
    assert names == [f"page-{letter}" for letter in "abcde"]
    _, now = sent(client, "GET", f"{MAPS}?labelSelector=page%3Dyes")
    assert [o["metadata"]["name"] for o in now["items"]] == [f"page-{letter}" for letter in "abcef"]


def test_a_policy_of_deletes_keeps_what_it_guards(client: Client) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    guarded = {
        "expression": "!variables.guarded",
        "messageExpression": "oldObject.metadata.name + ' is guarded'",
        "reason": "Forbidden",
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "guarded", "expression": "has(oldObject.data) && 'guard' in oldObject.data"}],
        "validations": [guarded],
    }
    policies, bindings = f"{group}/validatingadmissionpolicies", f"{group}/validatingadmissionpolicybindings"
    assert sent(client, "POST", policies, {"metadata": {"name": "guard"}, "spec": spec})[0] == 201
    binding = {"policyName": "guard", "validationActions": ["Deny"]}
    assert sent(client, "POST", bindings, {"metadata": {"name": "guard"}, "spec": binding})[0] == 201
    for name, data in (("guarded", {"guard": "1"}), ("free", {})):
        assert sent(client, "POST", MAPS, {"metadata": {"name": name}, "data": data})[0] == 201
    code, answer = sent(client, "DELETE", f"{MAPS}/guarded")
    assert code == 403
    assert answer["message"].endswith("denied request: guarded is guarded")
    assert sent(client, "DELETE", f"{MAPS}/free")[0] == 200
    assert sent(client, "DELETE", f"{bindings}/guard")[0] == 200
    assert sent(client, "DELETE", f"{MAPS}/guarded")[0] == 200


def test_what_no_policy_here_can_obey_is_refused_by_name(client: Client) -> None:
    spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    code, answer = sent(client, "POST", path, {"metadata": {"name": "with-parameters"}, "spec": spec})
    assert code == 501
    assert "spec.paramKind" in answer["message"]


def test_an_owner_in_another_namespace_is_none(client: Client) -> None:
    _, owner = sent(client, "POST", MAPS, {"metadata": {"name": "far-owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "far-owner", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "far", "ownerReferences": [reference]}
    path = "/api/v1/namespaces/default/configmaps"
    assert sent(client, "POST", path, {"metadata": metadata})[0] == 201
    near = {"name": "near", "ownerReferences": [reference]}
    assert sent(client, "POST", MAPS, {"metadata": near})[0] == 201
    code = 200
    for _ in range(3000):
        code = sent(client, "GET", f"{path}/far")[0]
        if code == 404:
            break
    assert code == 404
    assert sent(client, "GET", f"{MAPS}/near")[0] == 200


def test_the_template_of_a_suspended_job_may_go_elsewhere(client: Client) -> None:
    jobs = "/apis/batch/v1/namespaces/harm/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    spec = {"suspend": True, "template": template}
    assert sent(client, "POST", jobs, {"metadata": {"name": "queued"}, "spec": spec})[0] == 201
    merge = "application/merge-patch+json"
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "gpu"}}}}}
    assert sent(client, "PATCH", f"{jobs}/queued", moved, merge)[0] == 200
    other_image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "other:1"}]
    assert sent(client, "PATCH", f"{jobs}/queued", other_image, "application/json-patch+json")[0] == 422
    assert sent(client, "PATCH", f"{jobs}/queued", {"spec": {"suspend": False}}, merge)[0] == 200
    back = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "cpu"}}}}}
    assert sent(client, "PATCH", f"{jobs}/queued", back, merge)[0] == 422
