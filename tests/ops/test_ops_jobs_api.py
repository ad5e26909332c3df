"""Ray's Jobs API as Ray documents it, from a server in this process: logs, files, packages, the job that reads."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import Any

import pytest
import websocket

from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.reach import connect, jobs_api
from hyperpod_ray.ops.reach.jobs_api import Jobs
from tests.ops.ops_jobs_api_helpers import Head, Reply, reads

Json = dict[str, Any]


# --- the way ---------------------------------------------------------------------------------------------------------


def test_an_address_is_taken_and_refused_as_it_is_written() -> None:
    for url, place in (("http://h:9", ("h", 9)), ("http://h", ("h", 8265)), ("http://h:9/x", ("h", 9))):
        jobs = Jobs(url)
        assert (jobs._host, jobs._port) == place
    for url in ("https://h:9", "h:9", "http://", ""):
        with pytest.raises(OpsError, match="--address") as refused:
            Jobs(url)
        assert refused.value.code == BAD_USE


def test_an_own_address_takes_the_token_of_rays_variable(monkeypatch: pytest.MonkeyPatch, head: Head) -> None:
    """https://docs.ray.io/en/latest/ray-security/token-auth.html"""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    head.says("GET", "/api/version", {"version": "4"})
    target: Any = None
    with jobs_api.jobs_of(target, address=f"http://127.0.0.1:{head.server.server_port}") as jobs:
        assert jobs.json("GET", "/api/version") == {"version": "4"}
    assert head.asked[0][2]["Authorization"] == "Bearer mine"


def test_without_an_address_a_forward_is_opened_and_the_account_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    class Dashboard:
        port = 4711

        def __enter__(self) -> Dashboard:
            steps.append("open")
            return self

        def __exit__(self, *_: object) -> None:
            steps.append("closed")

    def dashboard(_: Any, *, port: int) -> Dashboard:
        assert port == 0, "any free one: a user may have a forward of his own"
        return Dashboard()

    def token(_: Any) -> str:
        steps.append("token")
        return "t"

    monkeypatch.setattr(connect, "token", token)
    monkeypatch.setattr(connect, "dashboard", dashboard)
    target: Any = SimpleNamespace(aws=SimpleNamespace(require_account=lambda: steps.append("account")))
    with jobs_api.jobs_of(target) as jobs:
        assert (jobs._host, jobs._port, jobs._token) == ("127.0.0.1", 4711, "t")
    assert steps == ["account", "token", "open", "closed"]


def test_a_request_has_its_token_and_a_body_its_type(head: Head) -> None:
    head.says("POST", "/api/jobs/", {"submission_id": "j"})
    head.says("GET", "/api/version", {})
    assert head.jobs.json("POST", "/api/jobs/", body={"entrypoint": "x"}) == {"submission_id": "j"}
    jobs = Jobs(f"http://127.0.0.1:{head.server.server_port}")
    assert jobs.json("GET", "/api/version") == {}
    (_, _, with_body, body), (_, _, without, _) = head.asked
    assert (with_body["Authorization"], with_body["Content-Type"]) == ("Bearer secret", "application/json")
    assert json.loads(body) == {"entrypoint": "x"}
    assert not {"Authorization", "Content-Type"} & set(without)
    assert jobs.clock is not None
    assert jobs.clock.tzinfo is not None
    assert jobs_api._date("Sun, 06 Nov 1994 08:49:37 GMT") == parsedate_to_datetime("Sun, 06 Nov 1994 08:49:37 GMT")
    assert jobs_api._date(None) is jobs_api._date("never") is None


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ((401, b"no"), "the token: Ray does not accept it"),
        ((403, b"no"), "the token: Ray does not accept it"),
        ((400, b"Traceback\nValueError: bad name\n"), "the Jobs API answers 400: ValueError: bad name"),
        ((500, b""), "the Jobs API answers 500: nothing more"),
        ((200, b"<html>"), r"127.0.0.1:\d+ answers /api/version without JSON: '<html>'"),
    ],
)
def test_a_refusal_is_one_sentence(head: Head, reply: Reply, says: str) -> None:
    head.says("GET", "/api/version", reply)
    with pytest.raises(OpsError, match=says):
        head.jobs.json("GET", "/api/version")
    with pytest.raises(OpsError):
        jobs_api.require_dashboard(head.jobs, environment="demo")


def test_a_dashboard_that_is_away_says_for_what_to_wait(head: Head) -> None:
    head.says("GET", "/api/version", (200, b""))
    assert head.jobs.json("GET", "/api/version") is None
    head.says("GET", "/api/version", {"version": "4"})
    jobs_api.require_dashboard(head.jobs, environment="demo")
    assert head.calls() == ["GET /api/version"] * 2
    jobs = head.jobs
    head.server.shutdown()
    head.server.server_close()
    with pytest.raises(OpsError, match="Ray's dashboard does not answer: ") as refused:
        jobs_api.require_dashboard(jobs, environment="demo")
    assert refused.value.fix == "hyperpod-ray wait demo --for ray"


# --- files and packages ----------------------------------------------------------------------------------------------


def test_a_file_comes_in_parts_and_a_refusal_is_no_file(head: Head) -> None:
    head.says("GET", "/api/v0/logs/file", b"abcdefg")
    with head.jobs.stream("/api/v0/logs/file?x=1", size=3) as parts:
        assert list(parts) == [b"abc", b"def", b"g"]
    assert head.asked[0][2]["Authorization"] == "Bearer secret"
    for reply, says in (((404, b"first\nno such file\n"), "404 no such file"), ((500, b""), "500 Internal")):
        head.says("GET", "/api/v0/logs/file", reply)
        with pytest.raises(ConnectionError, match=says), head.jobs.stream("/api/v0/logs/file", size=3):
            pass
    bare = Jobs(f"http://127.0.0.1:{head.server.server_port}")
    head.says("GET", "/x", b"")
    with bare.stream("/x", size=3) as parts:
        assert list(parts) == []
    assert "Authorization" not in head.asked[-1][2]


def test_the_last_lines_of_a_log_are_asked_of_the_drivers_node(head: Head) -> None:
    """https://docs.ray.io/en/latest/ray-observability/reference/api.html#ray.util.state.get_log"""
    head.says("GET", "/api/jobs/j", {"driver_node_id": None}, {"driver_node_id": "n"})
    assert head.jobs.tail("j", lines=5) == [], "it has not begun"
    head.says("GET", "/api/v0/logs/file", b"a\nb\n", (500, b"its node is gone"))
    assert head.jobs.tail("j", lines=5) == ["a", "b"]
    query = head.asked[-1][1].partition("?")[2].split("&")
    assert {"node_id=n", "filename=job-driver-j.log", "lines=5"} < set(query)
    assert head.jobs.tail("j", lines=5) == []


def test_a_package_is_uploaded_once(head: Head, capsys: pytest.CaptureFixture[str]) -> None:
    """Ray names a package by its content."""
    path = "/api/packages/gcs/p.zip"
    head.says("GET", path, (404, b""))
    head.says("PUT", path, (200, b""))
    data = b"x" * 5000
    assert jobs_api.upload(head.jobs, ("p.zip", data), what="your code") == "gcs://p.zip"
    assert capsys.readouterr().err == "uploading your code, 4 KiB\n"
    method, _, headers, body = head.asked[-1]
    assert (method, headers["Content-Type"], body) == ("PUT", "application/octet-stream", data)
    head.says("PUT", path, (413, b"too large"))
    with pytest.raises(OpsError, match="the upload was refused: 413 too large"):
        jobs_api.upload(head.jobs, ("p.zip", b""), what="")
    head.says("GET", path, (200, b""))
    before = len(head.asked)
    assert jobs_api.upload(head.jobs, ("p.zip", b"small"), what="your code") == "gcs://p.zip"
    assert head.calls()[before:] == [f"GET {path}"]
    assert capsys.readouterr().err == ""


# --- a log that is followed ------------------------------------------------------------------------------------------


class Stream:
    """Stands for a WebSocket: text, a time without any, an end, an error."""

    def __init__(self, *events: Any) -> None:
        self.events, self.closed = list(events), 0

    def recv_data(self) -> tuple[int, bytes]:
        event = self.events.pop(0)
        if isinstance(event, Exception):
            raise event
        return (websocket.ABNF.OPCODE_CLOSE, b"") if event is None else (websocket.ABNF.OPCODE_TEXT, event)

    def close(self, timeout: float) -> None:
        self.closed += 1


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, Json]]]:
    def give(*coming: Any) -> list[tuple[str, Json]]:
        opened: list[tuple[str, Json]] = []
        remaining = list(coming)

        def create(url: str, **options: Any) -> Stream:
            opened.append((url, options))
            stream = remaining.pop(0)
            if isinstance(stream, Exception):
                raise stream
            assert isinstance(stream, Stream)
            return stream

        monkeypatch.setattr(websocket, "create_connection", create)
        return opened

    return give


def test_a_log_is_read_to_its_end(head: Head, streams: Any) -> None:
    head.says("GET", "/api/jobs/j", {"status": "RUNNING"})
    quiet = websocket.WebSocketTimeoutException("timed out")
    stream = Stream(b"one\n", quiet, "zwölf\n".encode(), b"\xff\n", None)
    opened = streams(stream)
    assert list(head.jobs.log("j")) == ["one\n", "zwölf\n", "\N{REPLACEMENT CHARACTER}\n"]
    ((url, options),) = opened
    assert url == f"ws://127.0.0.1:{head.server.server_port}/api/jobs/j/logs/tail"
    assert options["header"] == ["Authorization: Bearer secret"]
    assert options["http_no_proxy"] == ["*"], "a proxy of the laptop is not for a forward"
    assert stream.closed == 1
    assert head.calls() == ["GET /api/jobs/j"], "a job that says nothing is looked at"
    opened = streams(Stream(None))
    assert list(Jobs(f"http://127.0.0.1:{head.server.server_port}").log("j")) == []
    assert opened[0][1]["header"] == []


def test_a_connection_that_is_lost_is_no_end_of_a_log(head: Head, streams: Any) -> None:
    lost = Stream(b"one\n", websocket.WebSocketConnectionClosedException("gone"))
    streams(lost)
    log = head.jobs.log("j")
    assert next(log) == "one\n"
    with pytest.raises(ConnectionError, match="gone"):
        next(log)
    assert lost.closed == 1
    streams(websocket.WebSocketProxyException("proxy"))
    with pytest.raises(ConnectionError, match="proxy"):
        next(head.jobs.log("j"))
    # a refusal: Ray's own words, or else the status
    streams(websocket.WebSocketBadStatusException("Handshake status %d", 404))
    head.says("GET", "/api/jobs/j", (404, b"Job j does not exist"))
    with pytest.raises(OpsError, match="the Jobs API answers 404: Job j does not exist"):
        next(head.jobs.log("j"))
    streams(websocket.WebSocketBadStatusException("Handshake status %d", 500))
    head.says("GET", "/api/jobs/j", {"status": "RUNNING"})
    with pytest.raises(ConnectionError, match="500 for the log"):
        next(head.jobs.log("j"))


def test_a_log_is_printed_once_over_connections_that_are_lost(
    head: Head, streams: Any, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """On each connection the log begins at its first line."""
    away = websocket.WebSocketConnectionClosedException("gone")
    streams(
        Stream(b"one\n", b"two\n", away),
        Stream(b"one\ntw", away),
        Stream(b"one\ntwo\nthr", b"ee\n", None),
        Stream(b"one\ntwo\nthree\nfour\n", None),
    )
    head.says("GET", "/api/jobs/j", *[{"status": "RUNNING"}] * 3, {"status": "SUCCEEDED"})
    assert jobs_api.follow(head.jobs, "j", environment="demo") == 0
    assert capsys.readouterr().out == "one\ntwo\nthree\nfour\n"
    assert clock[0] == 1000 + 3 * jobs_api.POLL_SECONDS


def test_the_log_of_a_job_that_has_ended_is_asked_for_again_but_not_for_ever(
    head: Head, streams: Any, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    away = websocket.WebSocketConnectionClosedException("gone")
    opened = streams(*[Stream(b"x", away) for _ in range(20)])
    head.says("GET", "/api/jobs/j", {"status": "FAILED", "driver_exit_code": 7, "message": "boom"})
    assert jobs_api.follow(head.jobs, "j", environment="demo") == 7
    assert len(opened) == 1 + jobs_api.TRIES
    assert capsys.readouterr().out == "x"


def test_a_head_may_be_away_for_minutes_and_not_longer(head: Head, streams: Any, clock: list[float]) -> None:
    away = websocket.WebSocketConnectionClosedException("gone")
    streams(*[Stream(away) for _ in range(500)])
    jobs = head.jobs
    head.server.shutdown()
    head.server.server_close()
    with pytest.raises(OpsError, match="the head has been away for 300 s: ") as refused:
        jobs_api.follow(jobs, "j", environment="demo", poll=10)
    assert refused.value.fix == "hyperpod-ray status demo"
    assert 1300 <= clock[0] <= 1330


# --- a submission ----------------------------------------------------------------------------------------------------


def test_a_submission_is_repeated_until_there_is_an_agent(head: Head, clock: list[float]) -> None:
    """A head that has only just come up has none for a few seconds."""
    early = (500, b"No available agent to submit job, please try again later.")
    head.says("POST", "/api/jobs/", early, early, {"submission_id": "x"})
    job = jobs_api.post(head.jobs, {"entrypoint": "true"})
    bodies = [json.loads(body) for *_, body in head.asked]
    assert [body["submission_id"] for body in bodies] == [job] * 3, "one ID: a second job would train twice"
    assert {body["entrypoint"] for body in bodies} == {"true"}
    head.says("POST", "/api/jobs/", early)
    with pytest.raises(OpsError, match="try again later"):
        jobs_api.post(head.jobs, {})
    assert 1090 <= clock[0] <= 1110
    head.says("POST", "/api/jobs/", (400, b"bad entrypoint"))
    before = clock[0]
    with pytest.raises(OpsError, match="bad entrypoint"):
        jobs_api.post(head.jobs, {"submission_id": "mine"})
    assert clock[0] == before, "another refusal is not repeated"
    assert json.loads(head.asked[-1][3])["submission_id"] == "mine"


class Losing(Jobs):
    """Loses the reply of the first submissions."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("http://h:1")
        self.answers = list(answers)

    def json(self, method: str, path: str, *, body: Any = None) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_reply_that_is_lost_does_not_submit_twice(clock: list[float]) -> None:
    known = OpsError("the Jobs API answers 400: Job with submission_id j already exists", expected="", fix="")
    assert jobs_api.post(Losing(ConnectionError("reset"), known), {"submission_id": "j"}) == "j"
    with pytest.raises(OpsError, match="already exists"):
        jobs_api.post(Losing(known), {"submission_id": "j"})
    with pytest.raises(OpsError, match="Ray's dashboard does not answer: reset") as refused:
        jobs_api.post(Losing(ConnectionError("reset")), {"submission_id": "j"})
    assert refused.value.fix == "submit again"


# --- the job that reads ----------------------------------------------------------------------------------------------


def test_run_folders_are_read_by_a_small_job_that_is_deleted(head: Head, clock: list[float]) -> None:
    reads(
        head, {"status": "PENDING"}, {"status": "RUNNING"}, {"status": "SUCCEEDED", "driver_node_id": "n"},
        logs=f"warning\n{reader.MARK}[1, 2]\nlater\n",
    )  # fmt: skip
    assert run_state.asked(head.jobs, "hyperpod_ray_job.runs", ["--all", "/fsx/my runs"]) == ([1, 2], "n")
    name, data = in_ray.package()
    submitted = next(
        json.loads(body) for method, path, _, body in head.asked if (method, path) == ("POST", "/api/jobs/")
    )
    assert submitted["entrypoint"] == "python -m hyperpod_ray_job.runs --all '/fsx/my runs'"
    assert submitted["runtime_env"] == {"py_modules": [f"gcs://{name}"]}
    assert jobs_api.is_ours(submitted), "lists of jobs omit it"
    assert jobs_api.is_ours({"submission_id": submitted["submission_id"], "metadata": None})
    assert not jobs_api.is_ours({"submission_id": "read-me", "metadata": {}})
    assert not jobs_api.is_ours({"submission_id": submitted["submission_id"], "metadata": {"other": "x"}})
    assert head.calls()[-1] == f"DELETE /api/jobs/{submitted['submission_id']}"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {f"hyperpod_ray_job/{module}.py" for module in ("__init__", *in_ray.MODULES)} == set(archive.namelist())
        # Ray's workers may run as another user
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o644}
        assert archive.read("hyperpod_ray_job/__init__.py") == b""


@pytest.mark.parametrize(
    ("status", "logs", "says"),
    [
        ("FAILED", "Traceback\nModuleNotFoundError: x\n\n", "reads the run folders FAILED: ModuleNotFoundError: x"),
        ("SUCCEEDED", "", "reads the run folders SUCCEEDED: its own words"),
    ],
)
def test_a_reading_without_an_answer_is_an_error(
    head: Head, clock: list[float], status: str, logs: str, says: str
) -> None:
    reads(head, {"status": status, "message": "its own words"}, logs=logs)
    with pytest.raises(OpsError, match=says):
        run_state.asked(head.jobs, "m", [])
    assert head.calls()[-1].startswith("DELETE ")


def test_a_reading_that_does_not_end_is_stopped(head: Head, clock: list[float]) -> None:
    reads(head, {"status": "PENDING"}, logs="")
    with pytest.raises(OpsError, match="the job that reads the run folders is PENDING after 5 s"):
        run_state.asked(head.jobs, "m", [], limit_s=5)
    assert [call.partition(" ")[0] for call in head.calls()[-2:]] == ["POST", "DELETE"]
    assert head.calls()[-2].endswith("/stop")
    assert 1005 <= clock[0] <= 1010


def test_folders_without_a_run_are_omitted_and_none_asks_nothing(head: Head, clock: list[float]) -> None:
    assert run_state.read(head.jobs, []) == []
    assert head.asked == []
    reads(head, {"status": "SUCCEEDED"}, logs=f'{reader.MARK}[{{"found": false}}]\n')
    assert run_state.read(head.jobs, ["/fsx/a", "/fsx/b"]) == []
    assert run_state.read(head.jobs, ["/fsx"], whole=True) == []
    entries = [json.loads(body)["entrypoint"] for method, path, _, body in head.asked if path == "/api/jobs/"]
    assert entries == [f"python -m {in_ray.PACKAGE}.runs /fsx/a /fsx/b", f"python -m {in_ray.PACKAGE}.runs --all /fsx"]


# --- files of the head's pod, and `nodes check` ----------------------------------------------------------------------
