"""Admission webhooks that a URL names are called: what they refuse is refused, and what they change is stored."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step
from tests.sandbox.kubernetes.conftest import PROJECT, PYTHON

pytestmark = pytest.mark.emulator

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Webhook:
    """A server of webhooks that keeps what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.reviews: list[dict[str, Any]] = []
        # the sandbox's own environment has what makes certificates
        script = "import sys; from pathlib import Path; from hyperpod_ray_sandbox.kubernetes import tls; "
        script += "print(*tls.make(Path(sys.argv[1])))"
        said = subprocess.run(
            [PYTHON, "-c", script, str(folder)], cwd=PROJECT, capture_output=True, text=True, check=True
        )
        authority, certificate, key = map(Path, said.stdout.split())
        self.authority = base64.b64encode(authority.read_bytes()).decode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.reviews.append(review)
                answer = json.dumps({**review, "response": outer.response(self.path, review["request"])}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def response(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if path.startswith("/label"):
            operations = [{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}
        elif path.startswith("/count"):
            count = int((request["object"]["metadata"].get("annotations") or {}).get("count", "0")) + 1
            operations = [{"op": "add", "path": "/metadata/annotations", "value": {"count": str(count)}}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}
        elif path.startswith("/agree"):
            answer |= {"allowed": False, "status": {"message": "fine", "code": 200}}
        elif (request["object"] or request["oldObject"]).get("data", {}).get("deny") == request["operation"]:
            answer |= {"allowed": False, "status": {"message": "not this one"}, "warnings": ["think again"]}
        return answer

    def entry(self, name: str, path: str, operations: list[str], space: str) -> dict[str, Any]:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [{**RULE, "operations": operations}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
            "clientConfig": {
                "url": f"https://127.0.0.1:{self.server.server_address[1]}{path}",
                "caBundle": self.authority,
            },
        }


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    started = Webhook(tmp_path)
    yield started
    started.server.shutdown()


def created(client: Client, path: str, body: dict[str, Any], code: int = 201) -> Any:
    got, answer = client.send(Step("POST", path, json.dumps(body)))
    assert got == code, answer
    return answer


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def configuration(kind: str, name: str, *webhooks: dict[str, Any]) -> dict[str, Any]:
    api_version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "webhooks": list(webhooks)}


def test_webhooks_change_and_refuse(cluster: Any, webhook: Webhook) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    created(client, "/api/v1/namespaces", {"metadata": {"name": "hooked"}})
    changing = webhook.entry("label.check.example.com", "/label", ["CREATE"], "hooked")
    created(
        client,
        f"{REGISTRATION}/mutatingwebhookconfigurations",
        configuration("MutatingWebhookConfiguration", "label", changing),
    )
    refusing = webhook.entry("deny.check.example.com", "/deny", ["CREATE", "UPDATE", "DELETE"], "hooked")
    created(
        client,
        f"{REGISTRATION}/validatingwebhookconfigurations",
        configuration("ValidatingWebhookConfiguration", "deny", refusing),
    )
    maps = "/api/v1/namespaces/hooked/configmaps"
    stored = created(client, maps, config_map("a", {"deny": "DELETE"}))
    assert stored["metadata"]["labels"] == {"hooked": "yes"}
    request = webhook.reviews[-1]["request"]
    assert request["object"]["metadata"]["labels"] == {"hooked": "yes"}  # validating ones see the change
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", "hooked")
    refused = created(client, maps, config_map("b", {"deny": "CREATE"}), 400)
    assert refused["message"] == 'admission webhook "deny.check.example.com" denied the request: not this one'
    assert client.send(Step("DELETE", f"{maps}/a", ""))[0] == 400
    patch = Step("PATCH", f"{maps}/a", json.dumps({"data": {"deny": "UPDATE"}}), "application/merge-patch+json")
    assert client.send(patch)[0] == 400
    count = len(webhook.reviews)
    created(client, "/api/v1/namespaces/default/configmaps", config_map("elsewhere", {"deny": "CREATE"}))
    assert len(webhook.reviews) == count
    for name in ("mutatingwebhookconfigurations/label", "validatingwebhookconfigurations/deny"):
        assert client.send(Step("DELETE", f"{REGISTRATION}/{name}", ""))[0] == 200
    assert client.send(Step("DELETE", f"{maps}/a", ""))[0] == 200


def test_a_webhook_is_called_again_where_another_one_changed_the_object(cluster: Any, webhook: Webhook) -> None:
    """https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy"""
    client = Client.of(Path(cluster.server["kubeconfig"]))
    created(client, "/api/v1/namespaces", {"metadata": {"name": "again"}})
    counting = webhook.entry("count.check.example.com", "/count", ["CREATE"], "again")
    counting["reinvocationPolicy"] = "IfNeeded"
    changing = webhook.entry("label.check.example.com", "/label", ["CREATE"], "again")
    path = f"{REGISTRATION}/mutatingwebhookconfigurations"
    created(client, path, configuration("MutatingWebhookConfiguration", "again", counting, changing))
    stored = created(client, "/api/v1/namespaces/again/configmaps", config_map("a", {}))
    assert stored["metadata"]["annotations"] == {"count": "2"}
    assert client.send(Step("DELETE", f"{path}/again", ""))[0] == 200


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/agree", 400, "denied the request: fine"),  # a refusal is never below 400
        ("/label", 500, "validating webhook may not return response.patch"),
    ],
)
def test_what_a_validating_webhook_may_not_answer(
    cluster: Any, webhook: Webhook, path: str, code: int, words: str
) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    space = f"answers{code}"
    created(client, "/api/v1/namespaces", {"metadata": {"name": space}})
    configurations = f"{REGISTRATION}/validatingwebhookconfigurations"
    entry = webhook.entry("answers.check.example.com", path, ["CREATE"], space)
    created(client, configurations, configuration("ValidatingWebhookConfiguration", space, entry))
    refused = created(client, f"/api/v1/namespaces/{space}/configmaps", config_map("a", {}), code)
    assert words in refused["message"]
    assert client.send(Step("DELETE", f"{configurations}/{space}", ""))[0] == 200


def test_a_webhook_of_scales_is_sent_a_scale_and_pods_with_a_star_are_pods_too(cluster: Any, webhook: Webhook) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    created(client, "/api/v1/namespaces", {"metadata": {"name": "scaled"}})
    entry = webhook.entry("scale.check.example.com", "/see", ["CREATE", "UPDATE"], "scaled")
    entry["rules"] = [{**RULE, "apiGroups": ["apps"], "resources": ["deployments/*"], "operations": ["*"]}]
    configurations = f"{REGISTRATION}/validatingwebhookconfigurations"
    created(client, configurations, configuration("ValidatingWebhookConfiguration", "scaled", entry))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployments = "/apis/apps/v1/namespaces/scaled/deployments"
    created(client, deployments, {"metadata": {"name": "web"}, "spec": spec})
    assert webhook.reviews[-1]["request"]["kind"]["kind"] == "Deployment"
    patch = Step("PATCH", f"{deployments}/web/scale", '{"spec":{"replicas":1}}', "application/merge-patch+json")
    assert client.send(patch)[0] == 200
    request = webhook.reviews[-1]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["resource"]["resource"], request["subResource"]) == ("deployments", "scale")
    assert client.send(Step("DELETE", f"{configurations}/scaled", ""))[0] == 200


def test_a_webhook_behind_a_service_is_refused_by_name(cluster: Any, webhook: Webhook) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    created(client, "/api/v1/namespaces", {"metadata": {"name": "served"}})
    created(
        client,
        "/api/v1/namespaces/served/services",
        {"metadata": {"name": "judge"}, "spec": {"ports": [{"port": 443}]}},
    )
    entry = webhook.entry("judge.check.example.com", "/", ["CREATE"], "served")
    entry["clientConfig"] = {"service": {"name": "judge", "namespace": "served"}}
    path = f"{REGISTRATION}/validatingwebhookconfigurations"
    created(client, path, configuration("ValidatingWebhookConfiguration", "judge", entry))
    maps = "/api/v1/namespaces/served/configmaps"
    answer = created(client, maps, config_map("a", {}), 501)
    assert '"judge.check.example.com" is behind the service served/judge' in answer["message"]
    ignoring = json.dumps([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}])
    assert client.send(Step("PATCH", f"{path}/judge", ignoring, "application/json-patch+json"))[0] == 200
    created(client, maps, config_map("a", {}))
    assert client.send(Step("DELETE", f"{path}/judge", ""))[0] == 200
