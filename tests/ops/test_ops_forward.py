"""Port forwards and `connect`, over a pod that only echoes: which pod, which port, what is said when it goes."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import websocket

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.errors import INTERRUPTED, OK, ApiError, OpsError
from hyperpod_ray.ops.reach import connect, forward, tunnel
from hyperpod_ray.ops.reach.forward import Forward, Relay
from tests.ops.world import environment_text

Json = dict[str, Any]
PODS = "/api/v1/namespaces/ray/pods"


class Echo:
    """Stands for `Relay`: answers what it reads in capitals, then ends as the test says."""

    ended, said = True, ""
    ports: list[int]

    def __init__(self, near: socket.socket, websocket: Any, *, port: int) -> None:
        self.near, self.error = near, type(self).said
        type(self).ports.append(port)

    def run(self) -> None:
        data = self.near.recv(100)
        if data == b"break":
            raise OSError("port-forward began with channel 7")
        self.near.sendall(data.upper())

    def close(self) -> None:
        self.near.close()


class Kubernetes:
    """Pods with their identities; a way to each that is there."""

    tunnel: Any = None

    def __init__(self, **pods: str) -> None:
        self.pods = pods
        self.objects: dict[str, Json | int] = {}
        self.listed: dict[str, list[Json]] = {}
        self.opened: list[tuple[str, Json, str]] = []
        self.refuses: Exception | None = None
        self.api = SimpleNamespace(websocket=self._websocket)
        self.endpoint = tunnel.Endpoint(url="https://eks.example.com", private=True)

    def request(self, method: str, path: str) -> Json:
        assert method == "GET"
        if path.startswith(f"{PODS}/"):
            uid = self.pods.get(path.rpartition("/")[2])
            if uid is None:
                raise ApiError(status=404)
            return {"metadata": {"uid": uid}}
        answer = self.objects.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(status=answer)
        return answer

    def items(self, path: str, *, labels: str = "") -> list[Json]:
        return self.listed.get(path, [])

    def _websocket(self, path: str, *, query: Json, protocol: str) -> Any:
        self.opened.append((path, query, protocol))
        if self.refuses is not None:
            raise self.refuses
        if path.rpartition("/")[0].rpartition("/")[2] not in self.pods:
            raise ApiError(status=404, reason="Not Found")
        return SimpleNamespace()


@pytest.fixture(autouse=True)
def echo(monkeypatch: pytest.MonkeyPatch) -> type[Echo]:
    monkeypatch.setattr(Echo, "ports", [], raising=False)
    monkeypatch.setattr(Echo, "ended", True)
    monkeypatch.setattr(Echo, "said", "")
    monkeypatch.setattr(forward, "Relay", Echo)
    return Echo


def to(kubernetes: Kubernetes, find: Callable[[], str] = lambda: "head", local: int = 0, busy: str = "") -> Forward:
    return Forward(kubernetes, namespace="ray", find=find, remote=8265, local=local, busy=busy)  # type: ignore[arg-type]


def answer(port: int, text: bytes = b"hello") -> bytes:
    """What comes back; nothing where the connection only ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(text)
        parts = b""
        try:
            while part := client.recv(100):
                parts += part
        except OSError:
            pass
        return parts


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- one forward -----------------------------------------------------------------------------------------------------


def test_a_connection_goes_to_the_port_of_the_pod(echo: type[Echo]) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-connect-portforward-requests-of-pod"""
    kubernetes = Kubernetes(head="1")
    with to(kubernetes) as open_forward:
        assert answer(open_forward.port) == b"HELLO"
        assert answer(open_forward.port, b"again") == b"AGAIN"
        assert open_forward.failure == ""
        until(lambda: open_forward.ended)
    asked = (f"{PODS}/head/portforward", {"ports": 8265}, "v4.channel.k8s.io")
    assert kubernetes.opened == [asked, asked]
    assert echo.ports == [8265, 8265]
    with pytest.raises(OSError):
        answer(open_forward.port)


def test_only_this_machine_reaches_it() -> None:
    open_forward = to(Kubernetes(head="1"))
    assert open_forward._server.server_address[0] == "127.0.0.1"
    open_forward._server.server_close()


def test_a_pod_that_was_replaced_is_looked_for_again() -> None:
    kubernetes = Kubernetes(head="1")
    name = ["head"]
    with to(kubernetes, find=lambda: name[0]) as open_forward:
        kubernetes.pods = {"head-2": "2"}
        name[0] = "head-2"
        assert answer(open_forward.port) == b"HELLO"
        assert open_forward.pod == "head-2"
        assert [path for path, *_ in kubernetes.opened] == [f"{PODS}/head/portforward", f"{PODS}/head-2/portforward"]
        assert open_forward.failure == ""
        kubernetes.pods = {}
        assert answer(open_forward.port) == b""
        until(lambda: open_forward.failure)
        assert open_forward.failure.startswith("not in the Kubernetes cluster")
        assert len(kubernetes.opened) == 3, "the same pod is not asked twice"


def test_what_the_pods_node_says_is_kept(echo: type[Echo], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 'failed to connect to localhost:8265 inside namespace "x", IPv4: dial tcp4 127.0.0.1:8265: connect: '
    for said, failure in (
        (refused + "connection refused", "nothing listens on port 8265 of pod ray/head (connection refused)"),
        ("lost connection to pod", "lost connection to pod"),
    ):
        monkeypatch.setattr(echo, "said", said)
        with to(Kubernetes(head="1")) as open_forward:
            answer(open_forward.port)
            until(lambda: open_forward.ended)
            assert open_forward.failure == failure
    monkeypatch.setattr(echo, "said", "")
    monkeypatch.setattr(echo, "ended", False)
    with to(Kubernetes(head="1")) as open_forward:
        answer(open_forward.port)
        answer(open_forward.port, b"break")
        assert (open_forward.failure, open_forward.ended) == ("", False), "it was this side that ended"
    monkeypatch.setattr(echo, "ended", True)
    with to(Kubernetes(head="1")) as open_forward:
        answer(open_forward.port, b"break")
        until(lambda: open_forward.failure)
        assert open_forward.failure == "port-forward began with channel 7"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            websocket.WebSocketBadStatusException(
                "no", 403, resp_body=json.dumps({"message": "pods is forbidden"}).encode()
            ),
            "the Kubernetes API answers 403: pods is forbidden",
        ),
        (
            websocket.WebSocketBadStatusException("no", 502, resp_body=b"<html>bad</html>"),
            "the Kubernetes API answers 502: <html>bad</html>",
        ),
        (websocket.WebSocketBadStatusException("no", 500), "the Kubernetes API answers 500: "),
        (OpsError("the head does not exist", expected="a head", fix="x"), "the head does not exist. Expected a head"),
        (OSError("Connection reset by peer"), "Connection reset by peer"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_reason_of_a_connection_that_failed(error: Exception, says: str) -> None:
    kubernetes = Kubernetes(head="1")
    kubernetes.refuses = error
    with to(kubernetes) as open_forward:
        assert answer(open_forward.port) == b""
        until(lambda: open_forward.failure)
        assert open_forward.failure == says
        assert not open_forward.ended


def test_what_becomes_of_the_pod_is_said_once() -> None:
    kubernetes = Kubernetes(head="1")
    open_forward = to(kubernetes)
    try:
        assert open_forward.news() == ""
        kubernetes.pods = {"head": "2"}
        assert open_forward.news() == "connections go to a new pod ray/head now"
        assert open_forward.news() == ""
        kubernetes.pods = {}
        assert open_forward.news() == "pod ray/head is gone, and its connections with it"
        kubernetes.pods = {"head": "3"}
        assert open_forward.news() == "connections go to pod ray/head now"
        kubernetes.request = lambda *_: (_ for _ in ()).throw(ApiError(status=500))  # type: ignore[method-assign]
        with pytest.raises(ApiError):
            open_forward.news()
    finally:
        open_forward._server.server_close()


def test_a_port_that_is_taken_names_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OpsError, match=f"port {port} on 127.0.0.1 cannot be used .*pid") as refused:
            to(Kubernetes(head="1"), local=port, busy="hyperpod-ray connect demo --port 0")
    assert refused.value.fix == "hyperpod-ray connect demo --port 0"


def test_no_more_connections_than_threads_can_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next waits until one ends, and is served then."""
    monkeypatch.setattr(forward, "CONNECTIONS", 1)
    kubernetes = Kubernetes(head="1")
    with to(kubernetes) as open_forward:
        first = socket.create_connection(("127.0.0.1", open_forward.port), timeout=120)
        until(lambda: kubernetes.opened)
        answers: list[bytes] = []
        other = threading.Thread(target=lambda: answers.append(answer(open_forward.port)))
        other.start()
        time.sleep(0.1)
        assert len(kubernetes.opened) == 1
        first.sendall(b"x")
        other.join(120)
        first.close()
        assert answers == [b"HELLO"]


# --- connect ---------------------------------------------------------------------------------------------------------

GRAFANA = (
    "  observability: {grafana_host: 'http://grafana.watch:3000', prometheus_host: 'http://prometheus.watch:9090'}\n"
)


def head(
    name: str = "head", *, ready: bool = True, role: str = "head", cluster: str = "ray", gone: bool = False
) -> Json:
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": role}
    meta = {"name": name, "namespace": "ray", "labels": labels}
    meta |= {"deletionTimestamp": "2026-11-21T00:00:00Z"} if gone else {}
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": meta, "status": {"phase": "Running" if ready else "Pending", "conditions": [condition]}}


def target(kubernetes: Kubernetes, extra: str = "") -> Any:
    plan = parse(environment_text() + extra, name="demo", path=Path("demo.yaml")).plan
    account = SimpleNamespace(require_account=lambda: "arn")
    return SimpleNamespace(name="demo", plan=plan, kubernetes=kubernetes, aws=account)


@pytest.fixture
def http_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The pod speaks HTTP."""

    def run(self: Echo) -> None:
        self.near.recv(1000)
        self.near.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    monkeypatch.setattr(Echo, "run", run)
    yield


def test_the_head_that_is_ready_is_forwarded_to() -> None:
    kubernetes = Kubernetes(b="1")
    kubernetes.listed[PODS] = [
        head("a", ready=False), head("w", role="worker"), head("o", cluster="other"), head("g", gone=True), head("b")
    ]  # fmt: skip
    with connect.dashboard(target(kubernetes), port=0) as dashboard:
        assert (dashboard.pod, dashboard.namespace, dashboard.remote) == ("b", "ray", 8265)
    kubernetes.listed["/api/v1/namespaces/team/pods"] = [head("t", cluster="other")]
    with connect.dashboard(target(kubernetes), port=0, namespace="team", cluster="other") as dashboard:
        assert (dashboard.pod, dashboard.namespace) == ("t", "team"), "not the one of the same name elsewhere"


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ([], "the head of RayCluster 'ray' does not exist"),
        ([head(gone=True), head(role="worker")], "the head of RayCluster 'ray' does not exist"),
        ([head(ready=False)], "the head of RayCluster 'ray' is Pending"),
    ],
)
def test_without_a_head_that_is_ready_there_is_no_forward(pods: list[Json], says: str) -> None:
    kubernetes = Kubernetes()
    kubernetes.listed[PODS] = pods
    with pytest.raises(OpsError, match=says) as refused:
        connect.dashboard(target(kubernetes), port=0)
    assert refused.value.fix == "hyperpod-ray wait demo --for ray"


def connected(extra: str = "") -> tuple[Kubernetes, Any]:
    kubernetes = Kubernetes(head="1")
    kubernetes.listed[PODS] = [head()]
    return kubernetes, target(kubernetes, extra)


@pytest.mark.usefixtures("http_answers")
def test_what_connect_prints_and_how_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, ready = connected()
    assert connect.run(ready, port=0, grafana=False, check=True) == OK
    written = capsys.readouterr()
    first, second = written.out.splitlines()
    assert first.startswith("dashboard and Jobs API  http://127.0.0.1:")
    port = first.rpartition(":")[2]
    assert f"RAY_ADDRESS=http://127.0.0.1:{port} " in second
    assert written.err == ""

    def watched(forwards: Any) -> Any:
        assert list(forwards) == ["dashboard"]
        raise KeyboardInterrupt

    monkeypatch.setattr(connect, "watch", watched)
    kubernetes, ready = connected()
    kubernetes.tunnel = SimpleNamespace(port=4711)
    assert connect.run(ready, port=0, grafana=False) == INTERRUPTED
    written = capsys.readouterr()
    way = "kubectl --server https://127.0.0.1:4711 --tls-server-name eks.example.com"
    assert written.out.splitlines()[-1] == f"Kubernetes API          {way}"
    assert written.err.splitlines() == ["only this machine can reach them; Ctrl-C ends it", "closed"]


@pytest.mark.usefixtures("http_answers")
def test_grafana_is_forwarded_where_it_is_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    kubernetes, ready = connected(GRAFANA)
    service = {
        "metadata": {"name": "grafana", "namespace": "watch"},
        "spec": {"selector": {"app": "grafana"}, "ports": [{"port": 3000, "targetPort": 4000}]},
    }
    kubernetes.objects["/api/v1/namespaces/watch/services/grafana"] = service
    kubernetes.objects["/api/v1/namespaces/watch/pods/g-1"] = {"metadata": {"uid": "7"}}
    kubernetes.listed["/api/v1/namespaces/watch/pods"] = [head("g-1")]
    kubernetes.pods["g-1"] = "7"
    assert connect.run(ready, port=0, grafana=True, grafana_port=0, check=True) == OK
    lines = capsys.readouterr().out.splitlines()
    assert [line[:24].strip() for line in lines] == ["dashboard and Jobs API", "Grafana", "submit"]
    ports = [line.rpartition(":")[2] for line in lines[:2]]
    assert len(set(ports)) == 2
    assert [path for path, *_ in kubernetes.opened][-1] == "/api/v1/namespaces/watch/pods/g-1/portforward"
    assert kubernetes.opened[-1][1] == {"ports": 4000}
    # one that is elsewhere needs no forward
    kubernetes, ready = connected(GRAFANA.replace("http://grafana.watch:3000", "https://grafana.example.com"))
    assert connect.run(ready, port=0, grafana=True, check=True) == OK
    assert "Grafana                 https://grafana.example.com" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("url", "port"), [("http://grafana.watch", 80), ("https://grafana.watch", 443)])
def test_the_port_of_an_address_without_one(url: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kubernetes, ready = connected(GRAFANA.replace("http://grafana.watch:3000", url))
    kubernetes.objects["/api/v1/namespaces/watch/services/grafana"] = {"metadata": {}, "spec": {}}
    asked: list[int] = []

    def behind(_target: Any, _service: Json, at: int) -> int:
        asked.append(at)
        raise OpsError("stop", expected="", fix="")

    monkeypatch.setattr(connect, "_port_behind", behind)
    with pytest.raises(OpsError, match="stop"):
        connect._grafana(ready, port=0)
    assert asked == [port]


def test_a_grafana_that_is_not_there_is_named() -> None:
    kubernetes, ready = connected(GRAFANA)
    with pytest.raises(OpsError, match=r"no service watch/grafana \(http://grafana.watch:3000\)") as refused:
        connect._grafana(ready, port=0)
    assert "ray.observability.grafana_host" in refused.value.fix
    kubernetes.objects["/api/v1/namespaces/watch/services/grafana"] = 403
    with pytest.raises(ApiError):
        connect._grafana(ready, port=0)


def test_something_that_speaks_no_http_is_no_dashboard() -> None:
    _, ready = connected()
    with pytest.raises(OpsError, match="Ray's dashboard does not answer: ") as refused:
        connect.run(ready, port=0, grafana=False, check=True)
    assert refused.value.fix == "hyperpod-ray status demo"


def test_the_watch_says_each_thing_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    news: Iterator[str | ApiError] = iter(
        ["", "connections go to pod ray/b now", "", ApiError(status=500, reason="no")]
    )

    def latest() -> str:
        text = next(news)
        if isinstance(text, Exception):
            raise text
        return text

    pod: Any = SimpleNamespace(failure="", ended=False, news=latest)
    # what happens before each look
    steps: Iterator[Json] = iter(
        [{}, {"failure": "a"}, {"failure": "a"}, {"failure": "a", "ended": True}, {"ended": True}]
    )

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 5
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        vars(pod).update(step)

    monkeypatch.setattr(connect, "time", SimpleNamespace(sleep=sleep))
    with pytest.raises(KeyboardInterrupt):
        connect.watch({"dashboard": pod})
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "dashboard: a connection failed: a",
        "dashboard: connections go to pod ray/b now",
        # after news, the same failure is said again
        "dashboard: a connection failed: a",
        "dashboard: the pod cannot be looked at: the Kubernetes API failed: 500 no. Expected an answer",
    ]
    assert (pod.failure, pod.ended) == ("", False)


@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
def test_any_answer_in_http_will_do(answered: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    def run(self: Echo) -> None:
        requests.append(self.near.recv(1000))
        self.near.sendall(answered)

    monkeypatch.setattr(Echo, "run", run)
    with to(Kubernetes(head="1")) as open_forward:
        if answered:
            connect.require_answer(open_forward, endpoint="e", environment="demo")
        else:
            with pytest.raises(OpsError):
                connect.require_answer(open_forward, endpoint="e", environment="demo")
    assert requests[0].startswith(b"GET /api/version HTTP/1.1")
    assert issubclass(http.client.RemoteDisconnected, OSError)


# --- the token -------------------------------------------------------------------------------------------------------


def test_the_token_is_that_of_the_secret() -> None:
    kubernetes, ready = connected()
    with pytest.raises(OpsError, match="no token in Secret ray/ray") as refused:
        connect.token(ready)
    assert refused.value.fix == "hyperpod-ray status demo"
    kubernetes.objects["/api/v1/namespaces/ray/secrets/ray"] = {
        "data": {"auth_token": base64.b64encode(b"secret").decode()}
    }
    kubernetes.objects["/api/v1/namespaces/team/secrets/own"] = {"data": {}}
    assert connect.token(ready) == "secret"
    with pytest.raises(OpsError, match="no token in Secret team/own"):
        connect.token(ready, namespace="team", cluster="own")
    kubernetes.objects["/api/v1/namespaces/ray/secrets/ray"] = 403
    with pytest.raises(ApiError):
        connect.token(ready)
    assert connect.token(target(kubernetes, "  auth: none\n")) == ""


class Near:
    """A connection here: each answer is what it receives, or raises."""

    def __init__(self, *answers: bytes | OSError) -> None:
        self.answers = list(answers)

    def recv(self, most: int) -> bytes:
        assert most == forward.CHUNK
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("waiting", "answers", "open_here", "queued", "left"),
    [
        (0, (b"abc",), True, 3, 0),
        (forward.ROOM - 1, (b"abc",), True, 3, 0),
        (forward.ROOM, (b"abc",), True, 0, 1),  # the pod reads slowly: nothing more is taken, and nothing is lost
        (0, (BlockingIOError(),), True, 0, 0),
        (0, (ConnectionResetError(),), False, 0, 0),
        (0, (b"",), False, 0, 0),
    ],
)
def test_what_is_read_here_while_the_pod_is_slow(
    waiting: int, answers: tuple[bytes | OSError, ...], open_here: bool, queued: int, left: int
) -> None:
    near: Any = Near(*answers)
    relay = Relay(near, SimpleNamespace(sock=None), port=8265)
    relay._to_pod += bytes(waiting)
    assert relay._from_near() is open_here
    # RFC 6455: a client's frame has a header of two bytes and a mask of four; channel 0 is one byte
    assert len(relay._to_pod) == waiting + (queued + 7 if queued else 0)
    assert len(near.answers) == left
