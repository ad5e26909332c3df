"""Ray's Jobs API: the way to it, its answers, and a job's log to its end.

https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OK, OpsError
from hyperpod_ray.ops.reach import connect
from hyperpod_ray.ops.reach.clients import Target

POLL_SECONDS = 2.0
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
OURS = names.PROGRAM
"""Key in the metadata of jobs that this program submits for itself; lists of jobs and runs omit them."""
READ_PREFIX = "read-"
CALL_SECONDS = 60.0
AWAY_SECONDS = 300
"""How long the head may be away while a log is followed."""
AGENT_SECONDS = 90
"""How long a head that has only just come up may have no agent."""
Package = tuple[str, bytes]
"""Name and content of a zip file."""
TRIES = 3
"""To read the log of a job that has ended; with its node, the log is gone."""


@contextlib.contextmanager
def jobs_of(target: Target, *, address: str = "") -> Iterator[Jobs]:
    """The Jobs API of an environment's RayCluster.

    Args:
        address: A dashboard that is reachable already; its token is in the variable that Ray itself reads. Default: a
            port forward of this command's own.
    """
    if address:
        yield Jobs(address, token=os.environ.get("RAY_AUTH_TOKEN", ""))
        return
    target.aws.require_account()
    token = connect.token(target)
    with connect.dashboard(target, port=0) as dashboard:
        yield Jobs(f"http://127.0.0.1:{dashboard.port}", token=token)


class Jobs:
    """Ray's Jobs API."""

    def __init__(self, url: str, *, token: str = "", timeout_s: float = CALL_SECONDS) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise OpsError(
                f"--address: '{url}'",
                expected="http://HOST:PORT",
                fix="give the address that `hyperpod-ray connect` prints",
                code=BAD_USE,
            )
        self._host, self._port = parts.hostname, parts.port or names.DASHBOARD_PORT
        self._token = token
        self._timeout = timeout_s
        self.clock: datetime | None = None
        """The head's time of the newest answer."""

    def call(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body. OSError where nothing answers."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        headers = {"Content-Type": content_type} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            self.clock = _date(answer.headers.get("Date"))
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    @contextlib.contextmanager
    def stream(self, path: str, *, size: int) -> Iterator[Iterator[bytes]]:
        """An answer's body, in parts of at most `size` bytes. OSError where it is no answer, or ends early."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                lines = answer.read(300).decode(errors="replace").strip().splitlines()
                raise ConnectionError(f"{answer.status} {lines[-1] if lines else answer.reason}")
            yield iter(lambda: answer.read(size), b"")
        except http.client.HTTPException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def log(self, job: str) -> Iterator[str]:
        """A job's log from its first line on, in portions as they come, until the job has ended.

        Ray's own client follows a job this way: https://docs.ray.io/en/latest/cluster/running-applications/job-submission/doc/ray.job_submission.JobSubmissionClient.tail_job_logs.html

        Raises:
            OSError: the head does not answer, or the connection is lost.
            OpsError: Ray refuses it.
        """
        import websocket

        try:
            stream = websocket.create_connection(
                f"ws://{self._host}:{self._port}/api/jobs/{job}/logs/tail",
                header=[f"Authorization: Bearer {self._token}"] if self._token else [],
                timeout=self._timeout,
                http_no_proxy=["*"],
            )
        except websocket.WebSocketBadStatusException as error:
            self.json("GET", f"/api/jobs/{job}")  # says what is wrong
            raise ConnectionError(f"{error.status_code} for the log") from error
        except websocket.WebSocketException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        try:
            while True:
                try:
                    opcode, data = stream.recv_data()
                except websocket.WebSocketTimeoutException:
                    self.json("GET", f"/api/jobs/{job}")  # a job that says nothing, or a head that is gone
                    continue
                if opcode == websocket.ABNF.OPCODE_CLOSE:
                    return
                yield data.decode(errors="replace")
        except websocket.WebSocketException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            stream.close(timeout=0)

    def tail(self, job: str, *, lines: int) -> list[str]:
        """The last lines of a job's log; none where it has not begun, or its node is gone."""
        node = self.json("GET", f"/api/jobs/{job}").get("driver_node_id")
        if not node:
            return []
        # Ray 2.60 answers 500 to `submission_id` without a node
        query = {"node_id": node, "filename": f"job-driver-{job}.log", "lines": lines, "timeout": int(self._timeout)}
        status, raw = self.call("GET", f"/api/v0/logs/file?{urlencode(query)}")
        return raw.decode(errors="replace").splitlines() if status == 200 else []

    def json(self, method: str, path: str, *, body: Any = None) -> Any:
        """Decoded body; an `OpsError` on any refusal."""
        status, raw = self.call(method, path, body=None if body is None else json.dumps(body).encode())
        if status in (401, 403):
            raise OpsError(
                "the token: Ray does not accept it",
                expected="the token in the Secret with the RayCluster's name",
                fix="run the command again; a recreated cluster has a new token",
            )
        if status >= 400:
            lines = raw.decode(errors="replace").strip().splitlines()
            raise OpsError(
                f"the Jobs API answers {status}: {lines[-1][:300] if lines else 'nothing more'}",
                expected="it to accept the request",
                fix="correct what it names; `hyperpod-ray status` shows Ray's state",
            )
        try:
            return json.loads(raw or b"null")
        except ValueError:
            raise OpsError(
                f"{self._host}:{self._port} answers {path} without JSON: {raw[:60].decode(errors='replace')!r}",
                expected="Ray's Jobs API",
                fix=f"use the address of Ray's dashboard, port {names.DASHBOARD_PORT} of the head",
            ) from None


def _date(text: str | None) -> datetime | None:
    """A header's time; None without a readable one."""
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


def follow(jobs: Jobs, job: str, *, environment: str, poll: float = POLL_SECONDS) -> int:
    """Print the log as it grows, until the job has ended."""
    printer, tries = _Printer(), TRIES
    away_since: float | None = None
    while True:
        lost = printer.lost(jobs, job)
        try:
            info = jobs.json("GET", f"/api/jobs/{job}")
            away_since = None
        except OSError as error:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > AWAY_SECONDS:
                raise OpsError(
                    f"the head has been away for {AWAY_SECONDS} s: {error}",
                    expected="its return within that time",
                    fix=f"hyperpod-ray status {environment}",
                ) from None
            time.sleep(poll)
            continue
        if info["status"] in ENDED:
            if not lost or not tries:
                return _ended(job, info, environment)
            tries -= 1
        time.sleep(poll)


class _Printer:
    """Prints a job's log once, over connections that are lost: on each, the log begins at its first line."""

    def __init__(self) -> None:
        self.printed = 0

    def lost(self, jobs: Jobs, job: str) -> bool:
        """Print what is new until the job has ended; whether the connection was lost before."""
        at = 0
        try:
            for text in jobs.log(job):
                at += len(text)
                if at > self.printed:
                    output.write_text(text[-(at - self.printed) :])
                    self.printed = at
        except OSError:
            return True
        return False


def _ended(job: str, info: dict[str, Any], environment: str) -> int:
    status = info["status"]
    if status == "SUCCEEDED":
        output.log(f"{job} SUCCEEDED")
        return OK
    message = str(info.get("message") or "").strip().splitlines()
    output.log(f"{job} {status}" + (f": {message[0][:300]}" if message else ""))
    output.log(f"next: hyperpod-ray status {environment}")
    code = info.get("driver_exit_code")
    return int(code) if isinstance(code, int) and 0 < code < 256 else ERROR


def is_ours(job: Mapping[str, Any]) -> bool:
    """Whether this program submitted a job for itself.

    Ray can write the end of a job after its deletion: an entry without metadata, which only the ID tells.
    """
    unlabelled = not job.get("metadata") and re.fullmatch(
        rf"{READ_PREFIX}[0-9a-f]{{12}}", str(job.get("submission_id") or "")
    )
    return OURS in (job.get("metadata") or {}) or bool(unlabelled)


def require_dashboard(jobs: Jobs, *, environment: str) -> None:
    """Raise an `OpsError` where Ray's dashboard does not answer."""
    try:
        jobs.json("GET", "/api/version")
    except OSError as error:
        raise OpsError(
            f"Ray's dashboard does not answer: {error}",
            expected=f"the head's port {names.DASHBOARD_PORT} to answer",
            fix=f"hyperpod-ray wait {environment} --for ray",
        ) from None


def upload(jobs: Jobs, package: Package, *, what: str) -> str:
    """The URI of a package in Ray, uploaded where Ray does not have it."""
    name, data = package
    path = f"/api/packages/gcs/{name}"
    if jobs.call("GET", path)[0] != 200:
        if what:
            output.log(f"uploading {what}, {max(1, len(data) >> 10)} KiB")
        status, raw = jobs.call("PUT", path, body=data, content_type="application/octet-stream")
        if status >= 400:
            raise OpsError(
                f"the upload was refused: {status} {raw[:200].decode(errors='replace')}",
                expected="Ray to store the package",
                fix="run the command again; `hyperpod-ray status` shows Ray's state",
            )
    return f"gcs://{name}"


def post(jobs: Jobs, request: dict[str, Any]) -> str:
    """Submit under an id of our own, so that a reply that is lost can be asked for again without submitting twice.

    A head that has only just come up has no agent for a few seconds and says so.
    """
    job = request.get("submission_id") or f"job-{output.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    end = time.monotonic() + AGENT_SECONDS
    sent = False
    while True:
        try:
            jobs.json("POST", "/api/jobs/", body={**request, "submission_id": job})
            return str(job)
        except OSError as error:
            sent = True
            if time.monotonic() > end:
                raise OpsError(
                    f"Ray's dashboard does not answer: {error}",
                    expected=f"the head's port {names.DASHBOARD_PORT} to answer",
                    fix="submit again",
                ) from None
        except OpsError as error:
            if sent and "already exists" in error.message:
                return str(job)  # it was the reply that got lost
            if "try again later" not in error.message or time.monotonic() > end:
                raise
        time.sleep(POLL_SECONDS)
