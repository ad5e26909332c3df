"""Options of a request: a dry run is a dry run wherever it is asked for, and another word for it writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client
from tests.sandbox.kubernetes.runner_helpers import MAPS, sent

pytestmark = pytest.mark.emulator


PODS = "/api/v1/namespaces/harm/pods"


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
