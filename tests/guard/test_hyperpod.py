"""What the guard makes of HyperPod's answers: known, or nothing at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.guard import hyperpod
from hyperpod_ray.guard.hyperpod import HyperPod, NoAnswerError, PodIdentity, RefusedError

HERE, LOST = "i-00000000000000001", "i-00000000000000002"


class Stub:
    """A service and a Pod Identity agent on loopback, which answer what a test says."""

    def __init__(self, folder: Path) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self.agent: tuple[int, Any] = (
            200,
            {"AccessKeyId": "ASIA1", "SecretAccessKey": "s", "Token": "t", "Expiration": "2999-01-01T00:00:00Z"},
        )
        self.agent_asked: list[str] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.agent_asked.append(self.headers["Authorization"])
                self._answer(*stub.agent)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.asked.append((self.headers["X-Amz-Target"], body, dict(self.headers)))
                self._answer(*stub.answers.pop(0))

            def _answer(self, status: int, body: Any) -> None:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        token = folder / "token"
        token.write_text("projected\n")
        self.environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        }

    def hyperpod(self) -> HyperPod:
        return HyperPod(cluster="demo", region="us-west-2", endpoint=self.url, identity=PodIdentity(self.environment))


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    made = Stub(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def listed(*found: tuple[str, str], token: str = "") -> tuple[int, Any]:
    rows = [{"InstanceId": name, "InstanceStatus": {"Status": status}} for name, status in found]
    return 200, {"ClusterNodeSummaries": rows, **({"NextToken": token} if token else {})}


def test_every_page_is_read(stub: Stub) -> None:
    stub.answers = [listed((HERE, "Running"), token="more"), listed((LOST, "Failure"))]
    assert stub.hyperpod().statuses() == {HERE: "Running", LOST: "Failure"}
    assert [(target, body) for target, body, _ in stub.asked] == [
        ("SageMaker.ListClusterNodes", {"ClusterName": "demo", "MaxResults": 100}),
        ("SageMaker.ListClusterNodes", {"ClusterName": "demo", "MaxResults": 100, "NextToken": "more"}),
    ]
    assert stub.agent_asked == ["projected"], "asked once, with the pod's own token"


@pytest.mark.parametrize(
    "answers",
    [
        [listed((HERE, "Running"), token="more"), (500, {"__type": "InternalFailure"})],
        [(400, {"__type": "ThrottlingException", "message": "Rate exceeded"})],
        [(403, {"__type": "AccessDeniedException", "Message": "not authorized"})],
        [(400, {"__type": "ResourceNotFound", "message": "Cluster demo not found"})],
        [(200, b"<html>a proxy</html>")],
        [(200, {"ClusterNodeSummaries": [{"InstanceId": HERE}]})],
        [(200, {})],
        [(200, [])],
        [(503, b"")],
    ],
)
def test_half_an_answer_is_none(stub: Stub, answers: list[tuple[int, Any]]) -> None:
    stub.answers = answers
    with pytest.raises(NoAnswerError):
        stub.hyperpod().statuses()


def test_a_list_without_an_end_is_none(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperpod, "PAGES", 3)
    stub.answers = [listed((HERE, "Running"), token="more")] * 4
    with pytest.raises(NoAnswerError, match="ListClusterNodes: more than 3 pages"):
        stub.hyperpod().statuses()
    assert len(stub.asked) == 3
    stub.answers = [listed((HERE, "Running"), token="more")] * 2 + [listed((LOST, "Failure"))]
    assert stub.hyperpod().statuses() == {HERE: "Running", LOST: "Failure"}


def test_no_answer_at_all(stub: Stub) -> None:
    found = stub.hyperpod()
    found._endpoint = "http://127.0.0.1:1"
    with pytest.raises(NoAnswerError):
        found.statuses()


@pytest.mark.parametrize(
    "code", ["ResourceNotFound", "com.amazonaws.sagemaker#ResourceNotFound", "ValidationException"]
)
def test_an_instance_that_the_cluster_does_not_have(stub: Stub, code: str) -> None:
    stub.answers = [(400, {"__type": code, "message": "no such node"})]
    assert stub.hyperpod().status(LOST) == "NotFound"
    assert stub.asked[0][:2] == ("SageMaker.DescribeClusterNode", {"ClusterName": "demo", "NodeId": LOST})


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "AccessDeniedException", "InternalFailure", "UnknownOperation"]
)
def test_another_error_says_nothing_of_the_instance(stub: Stub, code: str) -> None:
    stub.answers = [(400, {"__type": code, "message": "x"})]
    with pytest.raises(RefusedError) as raised:
        stub.hyperpod().status(LOST)
    assert raised.value.code == code


def test_one_instance_is_described(stub: Stub) -> None:
    stub.answers = [(200, {"NodeDetails": {"InstanceStatus": {"Status": "Running"}}}), (200, {"NodeDetails": {}})]
    assert stub.hyperpod().status(LOST) == "Running"
    with pytest.raises(NoAnswerError):
        stub.hyperpod().status(LOST)


def test_credentials_are_kept_renewed_and_dropped(stub: Stub) -> None:
    hyperpod = stub.hyperpod()
    stub.answers = [listed(), listed(), (400, {"__type": "ExpiredTokenException"}), listed()]
    hyperpod.statuses()
    hyperpod.statuses()
    assert len(stub.agent_asked) == 1
    with pytest.raises(NoAnswerError):
        hyperpod.statuses()
    hyperpod.statuses()
    assert len(stub.agent_asked) == 2, "expired credentials are asked for again"
    stub.agent[1]["Expiration"] = "2000-01-01T00:00:00Z"
    short = stub.hyperpod()
    stub.answers = [listed(), listed()]
    short.statuses()
    short.statuses()
    assert len(stub.agent_asked) == 4


@pytest.mark.parametrize("agent", [(404, b"no association"), (200, b"{}"), (200, b"?")])
def test_without_an_identity_nothing_is_known(stub: Stub, agent: tuple[int, Any]) -> None:
    stub.agent = agent
    with pytest.raises(NoAnswerError):
        stub.hyperpod().statuses()
    assert stub.asked == []


def test_an_agent_that_does_not_answer(stub: Stub) -> None:
    stub.environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:1/v1/credentials"
    with pytest.raises(NoAnswerError):
        stub.hyperpod().statuses()
    assert stub.asked == []


def test_a_pod_without_pod_identity() -> None:
    with pytest.raises(NoAnswerError, match="no EKS Pod Identity"):
        PodIdentity({}).credentials()
