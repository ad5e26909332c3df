"""The page's server and its watch: who is answered, what an answer carries, slow and failing looks, many browsers."""

from __future__ import annotations

import http.client
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.web.server import CONNECTIONS, Answer, Server
from hyperpod_ray.ops.web.watch import Watch

PATIENCE = 600.0
"""Seconds until a test gives up; nothing here depends on how fast the machine is."""


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    def broken() -> Answer:
        raise RuntimeError("a defect")

    answers = {"": lambda: Answer(b"hello", "text/plain"), "broken": broken}
    with Server(answers, port=0, key="KEY") as made:
        yield made


def ask(
    server: Server, path: str = "/KEY/", *, method: str = "GET", host: str | None = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if host is not None:
            connection.putheader("Host", host or f"127.0.0.1:{server.port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_a_browser_of_this_machine_is_answered(server: Server) -> None:
    status, headers, body = ask(server, Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate")
    assert (status, body) == (200, b"hello")
    assert headers["Content-Type"] == "text/plain" and headers["Content-Length"] == "5"
    assert ask(server, host=f"LOCALHOST:{server.port}")[0] == 200
    assert ask(server, Sec_Fetch_Site="same-origin", Origin=f"http://127.0.0.1:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_another_host_is_refused(server: Server, host: str) -> None:
    given = host.format(port=server.port) or " "
    status, _, body = ask(server, host=given)
    assert status == 403 and b"hello" not in body


def test_no_host_and_two_hosts_are_refused(server: Server) -> None:
    assert ask(server, host=None)[0] == 403
    assert ask(server, host=f"127.0.0.1:{server.port}", Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:{port}", "http://127.0.0.1:1", ""]
)
def test_another_origin_is_refused(server: Server, origin: str) -> None:
    status, headers, body = ask(server, Origin=origin.format(port=server.port))
    assert status == 403 and b"hello" not in body
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "x"])
@pytest.mark.parametrize("mode", ["navigate", "no-cors", "cors"])
def test_another_page_is_refused(server: Server, site: str, mode: str) -> None:
    assert ask(server, Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY"])
def test_it_is_read_only(server: Server, method: str) -> None:
    status, headers, body = ask(server, method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD") and b"hello" not in body


def test_a_head_has_the_headers_of_a_get_and_no_body(server: Server) -> None:
    status, headers, body = ask(server, method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "5", b"")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/KEY",
        "/KEX/",
        "/key/",
        "/KEY/../KEY/",
        "/KEY/other",
        "/KEY/%2e%2e/",
        "http://evil.example/KEY",
        "*",
    ],
)
def test_without_the_key_there_is_nothing(server: Server, path: str) -> None:
    status, _, body = ask(server, path)
    assert status == 404 and b"hello" not in body


def test_a_random_key_is_long_and_new_each_time() -> None:
    with Server({}, port=0) as one, Server({}, port=0) as other:
        keys = [urlsplit(made.url).path.strip("/") for made in (one, other)]
    assert keys[0] != keys[1] and min(len(key) for key in keys) >= 16


def test_every_answer_forbids_what_the_page_does_not_use(server: Server) -> None:
    for answered in (ask(server), ask(server, "/"), ask(server, host="evil.example"), ask(server, method="POST")):
        headers = answered[1]
        policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
        assert policy == {
            "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'",
            "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        }  # fmt: skip
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY", "for browsers that do not know frame-ancestors"
        assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
        assert headers["Server"].strip() == "hyperpod-ray"


def test_a_defect_ends_one_connection_only(server: Server) -> None:
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(server, "/KEY/broken")
    assert ask(server)[0] == 200


def test_many_browsers_at_once(server: Server) -> None:
    with ThreadPoolExecutor(max_workers=24) as pool:
        statuses = list(pool.map(lambda _: ask(server)[0], range(200)))
    assert statuses == [200] * 200


def test_a_browser_that_hangs_up_or_says_nothing_harms_nobody(server: Server) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for one in silent[:10]:
        one.sendall(b"GET /KEY/ HTTP/1.1\r\nHost: ")
    rude = socket.create_connection(("127.0.0.1", server.port))
    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    rude.sendall(f"GET /KEY/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    rude.close()
    assert ask(server)[0] == 200
    for one in silent:
        one.close()
    assert ask(server)[0] == 200


def test_more_connections_than_there_is_room_for_are_refused() -> None:
    gate = threading.Event()
    waiting_inside: list[int] = []

    def slow() -> Answer:
        waiting_inside.append(1)
        assert gate.wait(PATIENCE)
        return Answer(b"late", "text/plain")

    with Server({"": slow, "fast": lambda: Answer(b"x", "text/plain")}, port=0, key="KEY") as made:
        with ThreadPoolExecutor(max_workers=CONNECTIONS) as pool:
            waiting = [pool.submit(ask, made) for _ in range(CONNECTIONS)]
            until(lambda: len(waiting_inside) == CONNECTIONS, "never full")
            refused = ask(made, "/KEY/fast")[0]
            gate.set()
            assert refused == HTTPStatus.SERVICE_UNAVAILABLE
            assert {one.result(PATIENCE)[0] for one in waiting} == {200}
        until(lambda: ask(made, "/KEY/fast")[0] == 200, "never free again")


def test_only_loopback_is_listened_on(server: Server) -> None:
    assert server._listener.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_one_clear_message(server: Server) -> None:
    with pytest.raises(OpsError) as caught:
        Server({}, port=server.port, busy="hyperpod-ray status demo --web --port 0")
    assert f"port {server.port} on 127.0.0.1 cannot be used" in caught.value.message
    assert caught.value.fix.endswith("--port 0")


# --- the watch --------------------------------------------------------------------------------------------------------


def test_a_look_that_takes_long_keeps_nobody_waiting() -> None:
    gate = threading.Event()
    looks = iter([1])

    def look() -> int:
        number = next(looks, 2)
        assert number == 1 or gate.wait(PATIENCE)
        return number

    with Watch(look, every=0.01, environment="demo") as watch:
        until(lambda: watch.latest().value == 1 and watch.busy, "no second look")
        assert watch.latest().at is not None and watch.latest().asking_since is not None
        gate.set()
        until(lambda: watch.latest().value == 2, "the second look")


def test_a_failure_is_beside_the_last_value_and_goes_with_the_next_one() -> None:
    answers: queue.Queue[int | Exception] = queue.Queue()

    def look() -> int:
        answer = answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def failing() -> str:
        failure = watch.latest().failure
        return failure.message if failure else ""

    with Watch(look, every=0.01, environment="demo") as watch:
        answers.put(1)
        until(lambda: watch.latest().value == 1, "a value")
        answers.put(OSError("down"))
        until(lambda: "down" in failing(), "a failure")
        since = watch.latest().failed_since
        for error, words in ((OSError("still so"), "still so"), (KeyError("x"), "internal error: KeyError")):
            answers.put(error)
            until(lambda words=words: words in failing(), words)  # type: ignore[misc]
            assert watch.latest().value == 1 and watch.latest().failed_since == since is not None
        answers.put(5)
        until(lambda: watch.latest().value == 5, "the next value")
        assert watch.latest().failure is None and watch.latest().failed_since is None
        answers.put(6)


def test_a_first_failure_has_no_value() -> None:
    def look() -> int:
        raise OpsError("no", expected="yes", fix="do it")

    with Watch(look, every=60, environment="demo") as watch:
        found = watch.wait(seconds=PATIENCE)
    assert found.value is None and found.failure is not None and found.failure.fix == "do it"


def test_nobody_asks_nothing_is_looked_at() -> None:
    looks: list[int] = []
    clock = [0.0]
    with Watch(lambda: looks.append(1), every=0.01, environment="demo", idle=100, clock=lambda: clock[0]) as watch:
        until(lambda: len(looks) > 3, "looks at first")
        clock[0] = 101.0
        before = len(looks)
        time.sleep(0.3)
        assert len(looks) <= before + 2  # one that was under way, one that was decided on
        paused = len(looks)
        watch.latest()
        until(lambda: len(looks) > paused + 3, "asked again")


# --- the command ------------------------------------------------------------------------------------------------------

SERVE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from concurrent.futures import ThreadPoolExecutor
from hyperpod_ray.ops.web import serve
def take():
    with ThreadPoolExecutor() as pool:  # as a snapshot does: Python waits for such threads at its end
        pool.submit(time.sleep, float(sys.argv[1])).result()
    raise OSError("nobody answers")
sys.exit(serve.run(take, environment="demo", port=0, every=0.1, restart_command="again"))
"""


@pytest.mark.parametrize("seconds", ["0", "3600"])
def test_ctrl_c_ends_it_at_once_also_in_the_middle_of_a_look(seconds: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", SERVE, seconds], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )  # fmt: skip
    try:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=PATIENCE) as answer:
            assert answer.status == 200 and b"Asking AWS" in answer.read()
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=PATIENCE)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130
    assert err.splitlines()[-1] == "closed" and "Traceback" not in err
    with pytest.raises(OSError, match="refused"):
        opener.open(url, timeout=PATIENCE)
