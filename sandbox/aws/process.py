"""Starts, finds and stops the emulator's processes; their state lies in a folder, by default `.local/aws`."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.aws import install, paths
from sandbox.aws.client import Client

ACCOUNT = "000000000001"  # the account of environments/local.yaml
REGION = "us-west-2"
DEFAULT_PORT = 4566
START_SECONDS = 120
# of MiniStack's services, the ones a stack of this project can need
SERVICES = [
    "s3",
    "sqs",
    "sns",
    "lambda",
    "iam",
    "sts",
    "secretsmanager",
    "logs",
    "ssm",
    "events",
    "monitoring",
    "states",
    "ec2",
    "cloudformation",
    "kms",
    "ecr",
    "codebuild",
    "eks",
    "budgets",
    "tagging",
    "scheduler",
]


class StartError(RuntimeError):
    """The emulator could not be started; the message says why."""


@dataclass(frozen=True)
class Running:
    """A started emulator, as `state.json` keeps it."""

    pid: int
    port: int
    account: str
    region: str
    log: str
    home: str
    kubernetes_pid: int = 0
    kubernetes: str = ""
    kubeconfig: str = ""

    @property
    def client(self) -> Client:
        """A client of this emulator."""
        return Client(port=self.port, account=self.account, region=self.region, home=Path(self.home))


def find(state: Path = paths.STATE) -> Running | None:
    """Return the emulator whose state lies in a folder, if its process lives."""
    try:
        running = Running(**json.loads((state / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if _alive(running.pid, "sandbox.aws.emulator") else None


def start(
    *,
    state: Path = paths.STATE,
    port: int | None = None,
    seconds_per_state: float = 1.0,
    kubeconfig: Path | None = None,
    account: str = ACCOUNT,
    region: str = REGION,
) -> Running:
    """Start the emulator, and the local Kubernetes API unless a kubeconfig is given; return when both are ready."""
    state.mkdir(parents=True, exist_ok=True)
    home = state / "home"
    home.mkdir(exist_ok=True)
    port = port or free_port(DEFAULT_PORT)
    log = state / "emulator.log"
    kubernetes_pid = 0
    if kubeconfig is None:
        kubernetes_pid, server = _start_kubernetes(state, port, _environment(state, port, account, region))
        endpoint, authority, used = server["url"], _read_base64(Path(server["ca_file"])), server["kubeconfig"]
    else:
        endpoint, authority = _cluster_of(kubeconfig)
        used = str(kubeconfig)
        _write_aws_shim(state, kubeconfig)
    try:
        started = _start_emulator(
            log=log,
            arguments=[
                *("--port", str(port), "--seconds-per-state", str(seconds_per_state)),
                *("--kubernetes-endpoint", endpoint, "--kubernetes-ca", authority),
            ],
            environment=_environment(state, port, account, region),
        )
        running = Running(
            pid=started.pid,
            port=port,
            account=account,
            region=region,
            log=str(log),
            home=str(home),
            kubernetes_pid=kubernetes_pid,
            kubernetes=endpoint,
            kubeconfig=used,
        )
        _wait_until_ready(running, started)
    except StartError:
        if kubernetes_pid:
            _stop_group(kubernetes_pid)
        raise
    (state / "state.json").write_text(json.dumps(asdict(running), indent=2))
    return running


def stop(running: Running, state: Path = paths.STATE) -> None:
    """Stop the emulator, the functions it runs and the Kubernetes API it started."""
    _stop_group(running.pid)
    if running.kubernetes_pid and _alive(running.kubernetes_pid, "sandbox.kubernetes"):
        _stop_group(running.kubernetes_pid)
    (state / "state.json").unlink(missing_ok=True)


def _environment(state: Path, port: int, account: str, region: str) -> dict[str, str]:
    """Return what the emulator and the functions it runs see: nothing of the person's own AWS or Kubernetes."""
    functions = state / "functions"
    functions.mkdir(parents=True, exist_ok=True)
    layer = paths.KUBECTL_LAYER
    folders = [state / "bin", layer / "kubectl", layer / "helm", paths.VENV / "bin", install.node().parent]
    client = Client(port=port, account=account, region=region, home=state / "home")
    return {
        **client.environment(),
        "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)]),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(paths.ROOT),
        "PYTHONUNBUFFERED": "1",
        "NODE_PATH": str(paths.NODE_RUNTIME / "node_modules"),
        # CDK's kubectl handler writes its kubeconfig and manifests here, not into a /tmp it would share
        "TEST_OUTDIR": str(functions),
        "TMPDIR": str(functions),
        "MINISTACK_ACCOUNT_ID": account,
        "MINISTACK_REGION": region,
        "SERVICES": ",".join(SERVICES),
        # MiniStack would listen for MQTT on every interface
        "IOT_MTLS_ENABLED": "0",
    }


def _start_emulator(*, log: Path, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("w") as output:
        return subprocess.Popen(
            [str(paths.PYTHON), "-m", "sandbox.aws.emulator", *arguments],
            cwd=paths.ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _start_kubernetes(state: Path, port: int, environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    folder = state / "kubernetes"
    folder.mkdir(exist_ok=True)
    ready = folder / "server.json"
    ready.unlink(missing_ok=True)
    log = state / "kubernetes.log"
    command = [str(paths.PYTHON), "-m", "sandbox.kubernetes.server", "--state", str(folder), "--port", "0",
               "--aws-endpoint", f"http://127.0.0.1:{port}"]  # fmt: skip
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=paths.ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise StartError(f"the local Kubernetes API exited with {process.returncode}; see {log}\n{_tail(log)}")
        if ready.exists():
            try:
                server: dict[str, Any] = json.loads(ready.read_text())
            except ValueError:  # half written
                time.sleep(0.05)
                continue
            return process.pid, server
        time.sleep(0.05)
    _stop_group(process.pid)
    raise StartError(f"the local Kubernetes API was not ready within {START_SECONDS} s; see {log}\n{_tail(log)}")


def _wait_until_ready(running: Running, started: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    log = Path(running.log)
    while time.monotonic() < end:
        if started.poll() is not None:
            raise StartError(f"the embedded AWS exited with {started.returncode}; see {log}\n{_tail(log)}")
        if running.client.health():
            return
        time.sleep(0.05)
    _stop_group(running.pid)
    raise StartError(f"the embedded AWS was not ready within {START_SECONDS} s; see {log}\n{_tail(log)}")


def _cluster_of(kubeconfig: Path) -> tuple[str, str]:
    """Return the server and the CA of a kubeconfig's current context."""
    try:
        config = yaml.safe_load(kubeconfig.read_text())
        name = next(c for c in config["contexts"] if c["name"] == config["current-context"])["context"]["cluster"]
        cluster = next(c for c in config["clusters"] if c["name"] == name)["cluster"]
        authority = cluster.get("certificate-authority-data") or _read_base64(
            (kubeconfig.parent / cluster["certificate-authority"]).resolve()
        )
        return str(cluster["server"]), str(authority)
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise StartError(f"{kubeconfig}: no usable cluster with a CA in its current context ({error!r})") from None


def _write_aws_shim(state: Path, kubeconfig: Path) -> None:
    """Make `aws eks update-kubeconfig` hand out the kubeconfig given: its cluster does not know EKS tokens."""
    folder = state / "bin"
    folder.mkdir(exist_ok=True)
    shim = folder / "aws"
    shim.write_text(
        "#!/bin/sh\n"
        "# written by `python -m rehearsal aws up --kubeconfig`: that cluster does not know EKS tokens\n"
        'if [ "$1 $2" = "eks update-kubeconfig" ]; then\n'
        '  while [ $# -gt 0 ]; do [ "$1" = "--kubeconfig" ] && target="$2"; shift; done\n'
        f'  exec cp {_quoted(kubeconfig.resolve())} "$target"\n'
        "fi\n"
        f'exec {_quoted(paths.VENV / "bin" / "aws")} "$@"\n'
    )
    shim.chmod(0o755)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _read_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def free_port(*wanted_first: int) -> int:
    """Return the first of the ports given that is free on 127.0.0.1, else any free one."""
    for wanted in (*wanted_first, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StartError("no free port on 127.0.0.1")


def _alive(pid: int, module: str) -> bool:
    """Say whether a process lives and is ours: a number may have been given to another one since."""
    listing = Path(f"/proc/{pid}")
    if Path("/proc/self").exists():
        try:
            if listing.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
            return module in listing.joinpath("cmdline").read_text()
        except OSError:
            return False
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return module in shown.stdout


def _stop_group(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return
        end = time.monotonic() + 5
        while time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):  # ours to reap only where this process started it
                os.waitpid(pid, os.WNOHANG)
            try:
                os.killpg(pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.05)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-5:])


def forget(state: Path = paths.STATE) -> None:
    """Remove what an emulator left in its state folder."""
    shutil.rmtree(state, ignore_errors=True)
