"""The Ray dashboard as a client of it sees it: the Jobs API and the list of nodes, with the token.

Reading goes over HTTP with the standard library; submitting is `ray job submit` itself, the command a researcher types.
Source: https://docs.ray.io/en/releases-2.60.0/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import http.client
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

BY_HAND_SECONDS = 60.0
"""Whoever asks once waits longer for a busy head than a loop that asks again."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A Ray head's dashboard.

    Args:
        host: its address.
        port: its port.
        token: what the `Authorization` header carries; None where the cluster has no authentication.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """As `--address` of `ray job submit` expects it."""
        return f"http://{self.host}:{self.port}"

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        body: dict[str, Any] | None = None,
        token: str | None = None,
        timeout: float = 5,
    ) -> tuple[int, Any]:
        """Status and decoded JSON body (None where it is not JSON). Raises OSError where nothing answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        token = self.token if token is None else token
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, None

    def nodes(self, *, timeout: float = 5) -> dict[str, str]:
        """Address → ALIVE or DEAD, as the GCS holds it. Empty while the head does not answer."""
        try:
            status, body = self.request("/api/v0/nodes?limit=1000&detail=0", timeout=timeout)
        except OSError:
            return {}
        if status != http.client.OK or not body:
            return {}
        rows = body["data"]["result"]["result"]
        return {row["node_ip"]: row["state"] for row in sorted(rows, key=lambda row: row["state"] == "ALIVE")}

    def job(self, submission_id: str) -> tuple[str, str]:
        """A job's status and message. `UNREACHABLE` while the head is away, `UNKNOWN` where it has no such record."""
        try:
            status, body = self.request(f"/api/jobs/{submission_id}")
        except OSError as error:
            return "UNREACHABLE", str(error)
        if status == http.client.NOT_FOUND:
            return "UNKNOWN", "no record of this job"
        if status != http.client.OK or not isinstance(body, dict):
            return "UNREACHABLE", f"HTTP {status}"
        return str(body.get("status")), str(body.get("message") or "")

    def job_logs(self, submission_id: str) -> str:
        """What the driver has printed; empty while the head is away."""
        try:
            status, body = self.request(f"/api/jobs/{submission_id}/logs", timeout=15)
        except OSError:
            return ""
        return str(body.get("logs", "")) if status == http.client.OK and isinstance(body, dict) else ""

    def stop_job(self, submission_id: str) -> None:
        """Ask for a job's end; nothing happens where it is over."""
        self.request(f"/api/jobs/{submission_id}/stop", method="POST", timeout=15)


def submit(
    *,
    ray: Path,
    dashboard: Dashboard,
    env: dict[str, str],
    working_dir: Path,
    entrypoint: list[str],
    submission_id: str,
    cwd: Path,
    py_modules: list[str] | None = None,
    env_vars: dict[str, str] | None = None,
    entrypoint_resources: dict[str, float] | None = None,
) -> str:
    """`ray job submit --no-wait`.

    Args:
        ray: the `ray` executable.
        dashboard: where.
        env: environment of the command; holds the path of the token.
        working_dir: the job's folder; it is uploaded.
        entrypoint: the driver's command.
        submission_id: the job's name on the cluster.
        cwd: where the command runs; `py_modules` are relative to it.
        py_modules: folders of Python packages the job imports.
        env_vars: `runtime_env.env_vars` of the driver and its workers.
        entrypoint_resources: custom resources the driver needs, to place it off the head.

    Returns:
        `submission_id`.

    Raises:
        LocalError: the command failed; the message ends with its last line.
    """
    command = [str(ray), "job", "submit", "--no-wait", "--address", dashboard.address, "--submission-id", submission_id]
    command += ["--working-dir", str(working_dir)]
    runtime_env = {"env_vars": env_vars or {}, "py_modules": py_modules or []}
    if any(runtime_env.values()):
        command += ["--runtime-env-json", json.dumps({k: v for k, v in runtime_env.items() if v}, sort_keys=True)]
    if entrypoint_resources:
        command += ["--entrypoint-resources", json.dumps(entrypoint_resources)]
    done = subprocess.run([*command, "--", *entrypoint], env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = ([line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no output"])[-1]
        raise LocalError(
            f"ray job submit failed: exit code {done.returncode}: {last_line.strip()}",
            expected="0",
            fix="look at the cluster: hyperpod-ray local ray status",
            code=1,
        )
    return submission_id
