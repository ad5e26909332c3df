"""Requests that would do harm where the sandbox took them for something else."""

from __future__ import annotations

import http.client
import io
import ssl
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step
from tests.sandbox.kubernetes.runner_helpers import MAPS, sent

pytestmark = pytest.mark.emulator


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
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    paired = "object.data.all(key, value, key != value)"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": paired}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    code, answer = sent(client, "POST", path, {"metadata": {"name": "with-pairs"}, "spec": spec})
    assert code == 501
    assert "does not evaluate .all" in answer["message"]


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


class Connection:
    """A connection that the server ends after so many answers."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.paths: list[str] = []

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> None:
        self.paths.append(path)

    def getresponse(self) -> Any:
        if not self.left:
            raise http.client.RemoteDisconnected("no answer")
        self.left -= 1
        answer = io.BytesIO(b"{}")
        setattr(answer, "status", 200)  # noqa: B010
        setattr(answer, "will_close", False)  # noqa: B010
        return answer


def remote(*answers: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Client, list[Connection]]:
    client = Client("https://api.example.com/k8s", ssl.create_default_context(), "token")
    connections = [Connection(left) for left in answers]
    following = iter(connections)
    monkeypatch.setattr(client, "_connect", lambda: next(following))
    return client, connections


def test_requests_share_a_connection_until_the_server_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client, (first, second) = remote(2, 1, monkeypatch=monkeypatch)
    for path in ("/a", "/b", "/c"):
        assert client.send(Step("GET", path, "")) == (200, {})
    assert first.paths == ["/k8s/a", "/k8s/b", "/k8s/c"]
    assert second.paths == ["/k8s/c"]


def test_a_server_that_ends_each_connection_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = remote(1, 0, monkeypatch=monkeypatch)
    client.send(Step("GET", "/a", ""))
    with pytest.raises(http.client.RemoteDisconnected):
        client.send(Step("GET", "/a", ""))


@pytest.mark.parametrize(("excepted", "host"), [("", "proxy.example.com"), ("api.example.com", "api.example.com")])
def test_the_proxy_of_this_machine_is_asked(excepted: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://bob:a%40b@proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    connection: Any = Client("https://api.example.com", ssl.create_default_context(), "")._connect()
    assert connection.host == host
    if not excepted:
        assert (connection._tunnel_host, connection._tunnel_port) == ("api.example.com", 443)
        assert connection._tunnel_headers["Proxy-Authorization"] == "Basic Ym9iOmFAYg=="
