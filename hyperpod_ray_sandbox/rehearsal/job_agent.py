"""A stand-in for HyperPod's job monitoring agent: one on the address of each host that trains, port 8889, on loopback.

It takes rules from AWS's own library, reads the output of the worker that sent them, and ends that worker where a rule
with the action `cancel` finds a hang. AWS publishes neither its agent, nor how often that evaluates, nor the members of
an event. Default detection (GPU use) is not here.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hyperpod_ray.core.names import HANG_RULES_FILE
from hyperpod_ray_rules.names import HANG_DETECTED, JOB_AGENT_PORT
from hyperpod_ray_sandbox.rehearsal.hang_rules import Request, Watched, request_of
from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import Pod
from hyperpod_ray_training.settings import HANG_RULES_VARIABLE

PATH = "/configure-hang-detection-rules"
EVALUATES_S = 0.5


@dataclass
class Output:
    """The standard output of one worker, and the rules on it."""

    request: Request
    file: Path | None = None
    read: int = 0
    rules: list[Watched] = field(default_factory=list)
    reported: bool = False


class Agent:
    """The agent of one host.

    Args:
        address: The host's.
        find: The output file of a worker, by Ray's ID of it; None while there is none.
        end: Ends the process that writes a file.
        note: Takes each event as a line.
        port: 8889, where AWS's library looks.
        clock: Seconds.
    """

    def __init__(
        self,
        *,
        address: str,
        find: Callable[[str], Path | None],
        end_job: Callable[[Path], None],
        note: Callable[[str], None],
        port: int = JOB_AGENT_PORT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.find, self.end, self.note, self.clock = find, end_job, note, clock
        self.outputs: dict[str, Output] = {}
        self.requests: list[Request] = []
        self.lock, self.over = threading.Lock(), threading.Event()
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, answer = agent.post(self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.threads = [
            threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True),
            threading.Thread(target=self._keep_watch, daemon=True),
        ]

    def start(self) -> None:
        """Serve and watch, in threads."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """End both."""
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join(timeout=20)

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, str]]:
        """Status and body of the answer to a request."""
        if path != PATH:
            return 404, {"error": f"no such path; {PATH} takes rules"}
        try:
            request = request_of(json.loads(body))
        except ValueError as error:
            return 400, {"error": str(error)}
        now = self.clock()
        with self.lock:
            self.requests.append(request)
            rules = [Watched(rule=rule, begun=now) for rule in request.rules] if request.enabled else []
            self.outputs[request.worker] = Output(request=request, rules=rules)
        return 200, {}

    def look(self) -> None:
        """One evaluation of every worker."""
        with self.lock:
            outputs = list(self.outputs.values())
        for output in outputs:
            self._read(output)
            evidence = next((why for rule in output.rules if (why := rule.verdict(self.clock()))), "")
            if not evidence:
                output.reported = False
            elif not output.reported:
                output.reported = True
                self._found(output, evidence)

    def _keep_watch(self) -> None:
        while not self.over.wait(EVALUATES_S):
            self.look()

    def _read(self, output: Output) -> None:
        output.file = output.file or self.find(output.request.worker)
        if output.file is None:
            return
        with contextlib.suppress(OSError), output.file.open("rb") as stream:
            stream.seek(output.read)
            fresh = stream.read()
            complete = fresh[: fresh.rfind(b"\n") + 1]
            output.read += len(complete)
            for line in complete.decode(errors="replace").splitlines():
                for rule in output.rules:
                    rule.line(line, self.clock())

    def _found(self, output: Output, evidence: str) -> None:
        request = output.request
        self.note(
            json.dumps(
                {
                    "event": HANG_DETECTED, "job_id": request.job, "worker_id": request.worker, "message": evidence,
                    "action": request.action,
                }
            )
        )  # fmt: skip
        if request.action == "cancel":
            with self.lock:
                self.outputs.pop(request.worker, None)
            if output.file is not None:
                self.end(output.file)


# --- on the hosts of a rehearsal --------------------------------------------------------------------------------------


RULES = {
    "enabled": True,
    "rules": [
        {
            "name": "progress", "type": "log_pattern", "enabled": True, "log_pattern": r"step \d+",
            "timeout_minutes": 0.75, "stop_pattern": "all steps done",
        }
    ],
    "action": "cancel",
}  # fmt: skip
"""As the environment file's, in the form in which pods mount them."""
PATIENT = {
    "RESILIENCE_PROCESS_GROUP_TIMEOUT_S": "900", "RESILIENCE_COLLECTIVE_TIMEOUT_S": "900",
    "RESILIENCE_STANDBY_WORKERS": "0",
}  # fmt: skip
"""The training library's own limits, out of the way: what ends a hang is the agent."""


def with_rules(options: Options, folder: Path) -> Options:
    """The options of a rehearsal whose pods find `RULES` in a file of this folder."""
    file = folder / HANG_RULES_FILE
    file.write_text(json.dumps(RULES), encoding="utf-8")
    file.chmod(0o644)
    mounted = {HANG_RULES_VARIABLE: str(file)}
    return replace(options, pod_env={**options.pod_env, **mounted}, job_env={**PATIENT, **options.job_env})


@contextlib.contextmanager
def agents(scene: Scene) -> Iterator[None]:
    """An agent on the address of each host; `scene.hangs` gets the events.

    Args:
        scene: The rehearsal's cluster and run.
    """
    cluster = scene.cluster

    def on(address: str) -> Agent:
        def pod() -> Pod | None:
            return next((pod for pod in cluster.alive_pods() if pod.ip == address), None)

        def find(worker: str) -> Path | None:
            current_pod = pod()
            outputs = (
                sorted(Path(current_pod.temp).glob(f"session_2*/logs/worker-{worker}-*.out")) if current_pod else []
            )
            return outputs[0] if outputs else None

        def end(file: Path) -> None:
            current_pod, inner = pod(), int(file.stem.rpartition("-")[2])
            pids = cluster.members(current_pod) if current_pod else []
            isolation.send([pid for pid in pids if isolation.inner_id(pid) == inner], signal.SIGKILL)

        def note(line: str) -> None:
            scene.hangs.append(line)
            scene.note(f"stand-in agent on {address}: {line}")

        return Agent(address=address, find=find, end_job=end, note=note)

    started: list[Agent] = []
    try:
        for address in sorted({pod.ip for pod in cluster.state.pods}):
            agent = on(address)
            agent.start()
            started.append(agent)
        yield
    finally:
        for agent in started:
            agent.close()
