"""Starts, finds and stops the emulator's processes; their state lies in a folder, by default `.local/aws`."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.api_server_folder import has_controllers
from hyperpod_ray_sandbox.aws import functions_cli, install, paths
from hyperpod_ray_sandbox.aws.client import Client
from hyperpod_ray_sandbox.errors import SandboxError

ACCOUNT = "000000000001"  # the account of environments/local.yaml
REGION = "us-west-2"
DEFAULT_PORT = 4566
_BACKLOG = 100
# one that ends while it starts is noticed at once: this limit is for one that hangs
START_SECONDS = 300
# for what is asked to end, before it is killed
PATIENCE_SECONDS = 5.0
# for the follower, which takes its Node objects out of a cluster that stays
FOLLOWER_SECONDS = 120.0
# for a server that is asked whether it lives, on a busy machine too
ANSWER_SECONDS = 20.0
# less than a start writes
LITTLE_SPACE = 1 << 20
# for what was killed: it ends as soon as it gets a processor
KILLED_SECONDS = 120.0
# in the environment of every process of an emulator, and of those they start: the state folder
MARK = "SANDBOX_STATE"
# how long a resource stays in each state
SECONDS_PER_STATE = 0.3
# seconds here per second that a state machine waits
WAIT_SCALE = 0.05
# files of Node.js's cache of compiled modules, 80 MB: with more it starts again
COMPILED_MODULES = 5000
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


class StartError(SandboxError):
    """The emulator could not be started; the message says why."""


@dataclass(frozen=True)
class Running:
    """A started emulator, as `state.json` keeps it; `secret` signs for the account's root user until it is stopped."""

    pid: int
    port: int
    account: str
    region: str
    log: str
    home: str
    secret: str = field(repr=False)
    kubernetes_pid: int = 0
    follower_pid: int = 0
    kubernetes: str = ""
    kubeconfig: str = ""
    command: tuple[str, ...] = ()
    """What the Kubernetes API was started with; empty for one that forgets its objects when it ends."""
    seconds_per_state: float = SECONDS_PER_STATE
    follower_options: tuple[str, ...] = ()
    """What the follower of nodes gets besides the cluster and the embedded AWS."""

    @property
    def client(self) -> Client:
        """A client of this emulator."""
        return Client(
            port=self.port, account=self.account, region=self.region, home=Path(self.home), secret=self.secret
        )


def find(state: Path = paths.STATE) -> Running | None:
    """Return the emulator whose state lies in a folder, if its process lives."""
    running = _recorded(state)
    return running if running and running.pid and _alive(running.pid, "hyperpod_ray_sandbox.aws.emulator") else None


READY, SILENT, ENDED = "ready", "not answering", "ended"
EMBEDDED_AWS, KUBERNETES_API, FOLLOWER = "embedded AWS", "Kubernetes API", "follower of nodes"


@dataclass(frozen=True)
class Part:
    """One process of a running emulator."""

    name: str
    pid: int
    state: str
    log: Path


def parts(running: Running) -> list[Part]:
    """How each process of an emulator is: whether it lives, and whether it answers."""
    folder = Path(running.log).parent
    answers = running.client.health(patience=ANSWER_SECONDS)
    listed = [Part(EMBEDDED_AWS, running.pid, READY if answers else SILENT, Path(running.log))]
    if running.kubernetes_pid:
        lives = _alive(running.kubernetes_pid, "hyperpod_ray_sandbox.kubernetes")
        state = ENDED if not lives else READY if _answers(running.kubernetes) else SILENT
        listed.append(Part(KUBERNETES_API, running.kubernetes_pid, state, folder / "kubernetes.log"))
    if running.follower_pid:
        lives = _alive(running.follower_pid, "hyperpod_ray_sandbox.kubernetes")
        listed.append(Part(FOLLOWER, running.follower_pid, READY if lives else ENDED, folder / "follower.log"))
    return listed


def _answers(url: str) -> bool:
    """Whether an API server answers: a TLS server of its own certificate, which nothing is sent to."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"{url}/readyz", timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)  # it answers, and asks who that is
    except OSError:
        return False


def restart(running: Running, state: Path) -> list[Part]:
    """Start what ended or no longer answers of an emulator, on its old port and objects; return how it was before.

    Raises:
        StartError: One does not start, or cannot be started again.
    """
    broken = [part for part in parts(running) if part.state != READY and part.name != EMBEDDED_AWS]
    environment = _environment(state, running.client)
    for part in broken:
        if part.name == KUBERNETES_API and not running.command:
            raise StartError(
                f"the {part.name} is {part.state}, and it cannot be started again with its objects",
                expected="the embedded one",
                fix=f"{paths.command('down', state)}, then {paths.command('up', state)}",
            )
        if part.state == SILENT:
            _stop_groups([part.pid], PATIENCE_SECONDS)
        if part.name == KUBERNETES_API:
            pid, server = _start_kubernetes(state, list(running.command), environment)
            if server["url"] != running.kubernetes:
                _stop_groups([pid], PATIENCE_SECONDS)
                raise StartError(
                    f"the {part.name} cannot have its port again: {running.kubernetes}",
                    expected="it free",
                    fix="end the process that took it, then the same command again",
                )
            running = replace(running, kubernetes_pid=pid)
        else:
            running = replace(running, follower_pid=_start_follower(state, running, environment))
        write_private(state / "state.json", json.dumps(asdict(running), indent=2))
    return broken


def start(
    *,
    state: Path = paths.STATE,
    port: int | None = None,
    seconds_per_state: float = SECONDS_PER_STATE,
    kubeconfig: Path | None = None,
    account: str = ACCOUNT,
    region: str = REGION,
    api_server: str = "embedded",
    api_server_folder: Path | None = None,
    entrypoints: Sequence[str] = (),
) -> Running:
    """Start the emulator, and a Kubernetes API unless a kubeconfig is given; return when both are ready.

    `api_server` is `embedded`, or `real` for the binaries of `api_server_folder` (or KUBEBUILDER_ASSETS). `entrypoints`
    is the command with which the embedded API runs entrypoints of RayJobs.

    What an emulator that was killed left in the folder is ended and removed first. `StartError` where one runs there,
    or where another `up` is about to start one.
    """
    state = state.resolve()
    _private(state)
    assets = _assets(api_server_folder) if api_server == "real" and kubeconfig is None else None
    with _alone(state):
        if running := find(state):
            raise StartError(
                f"an embedded AWS runs in {state} already, on {running.client.endpoint}",
                expected="none there",
                fix=f"{paths.command('down', state)}, or --state",
            )
        end_processes(state)
        _empty(state)
        _private(state / "home")
        try:
            running = _start(
                state,
                port,
                seconds_per_state,
                kubeconfig,
                account=account,
                region=region,
                assets=assets,
                entrypoints=entrypoints,
            )
        except BaseException:
            end_processes(state)
            _empty(state)
            raise
    return running


def _start(
    state: Path,
    port: int | None,
    seconds_per_state: float,
    kubeconfig: Path | None,
    *,
    account: str,
    region: str,
    assets: Path | None,
    entrypoints: Sequence[str],
) -> Running:
    with _listener(port) as listener:
        return _start_at(
            listener,
            state,
            seconds_per_state,
            kubeconfig,
            account=account,
            region=region,
            assets=assets,
            entrypoints=entrypoints,
        )


def _start_at(
    listener: socket.socket,
    state: Path,
    seconds_per_state: float,
    kubeconfig: Path | None,
    *,
    account: str,
    region: str,
    assets: Path | None,
    entrypoints: Sequence[str],
) -> Running:
    running = Running(
        pid=0,
        port=int(listener.getsockname()[1]),
        account=account,
        region=region,
        log=str(state / "emulator.log"),
        home=str(state / "home"),
        secret=secrets.token_urlsafe(32),
        seconds_per_state=seconds_per_state,
    )
    environment = _environment(state, running.client)
    _write_aws(state)
    if assets is not None:
        command = ["hyperpod_ray_sandbox.kubernetes.envtest", "--assets", str(assets)]
        pid, server = _start_kubernetes(state, command, environment)
        running, kubeconfig = replace(running, kubernetes_pid=pid), Path(server["kubeconfig"])
    api = None
    if kubeconfig is None:
        command = _embedded_api(running, entrypoints)
        running = replace(running, command=tuple(command))
        # both start at once: the embedded AWS reads where the other one is when it has imported its own
        api = _spawn_kubernetes(state, command, environment)
        cluster = ["--kubernetes-record", str(_record(state))]
    else:
        endpoint, authority = _cluster_of(kubeconfig)
        running = replace(running, kubernetes=endpoint, kubeconfig=str(kubeconfig))
        environment[functions_cli.GIVEN] = str(kubeconfig.resolve())
        cluster = ["--kubernetes-endpoint", running.kubernetes, "--kubernetes-ca", authority]
    started = _spawn(
        "hyperpod_ray_sandbox.aws.emulator",
        *("--port", str(running.port), "--listen-fd", str(listener.fileno())),
        *("--seconds-per-state", str(seconds_per_state)),
        *cluster,
        log=Path(running.log),
        environment=environment,
        listener=listener,
    )
    listener.close()  # else a client would wait for an emulator that ended instead of being refused
    running = replace(running, pid=started.pid)
    if api is not None:
        server = _wait_for_kubernetes(state, api)
        running = replace(running, kubernetes_pid=api.pid, kubernetes=server["url"], kubeconfig=server["kubeconfig"])
    _wait_until_ready(running, started)
    if kubeconfig is not None:
        if assets is not None and has_controllers(assets):
            running = replace(running, follower_options=_models(state, entrypoints))
        running = replace(running, follower_pid=_start_follower(state, running, environment))
    write_private(state / "state.json", json.dumps(asdict(running), indent=2))
    return running


def _embedded_api(running: Running, entrypoints: Sequence[str]) -> list[str]:
    """Return the command of the embedded Kubernetes API."""
    command = ["hyperpod_ray_sandbox.kubernetes.server", "--port", "0", "--region", running.region]
    command += ["--aws-endpoint", running.client.endpoint, "--entrypoint-program", json.dumps(list(entrypoints))]
    return [*command, *_pace(running.seconds_per_state)]


def _pace(seconds_per_state: float) -> list[str]:
    """Return the pace of what follows the embedded AWS: as quick as that, never slower than its defaults."""
    quick = min(1.0, seconds_per_state)
    return ["--poll-seconds", str(max(0.25, quick)), "--time-scale", str(max(0.02, 0.05 * quick))]


def stop(running: Running, state: Path = paths.STATE) -> None:
    """Stop the emulator, the functions it runs and the Kubernetes API it started, and remove all they kept but logs."""
    # the follower first, while the embedded AWS and the cluster answer
    if running.follower_pid and _alive(running.follower_pid, "hyperpod_ray_sandbox.kubernetes"):
        _stop_groups([running.follower_pid], FOLLOWER_SECONDS)
    servers = {
        running.pid: "hyperpod_ray_sandbox.aws.emulator",
        running.kubernetes_pid: "hyperpod_ray_sandbox.kubernetes",
    }
    _stop_groups([pid for pid, module in servers.items() if pid and _alive(pid, module)], PATIENCE_SECONDS)
    clear(state)


def clear(state: Path = paths.STATE) -> int:
    """End what an emulator that was killed left running and remove what it kept; return how many processes that was."""
    ended = end_processes(state.resolve())
    _empty(state)
    return ended


def end_processes(state: Path) -> int:
    """End every process that carries the mark of a state folder; return how many there were."""
    pids = set(marked(state))
    signalled: set[int] = set()
    patience = time.monotonic() + PATIENCE_SECONDS
    limit = patience + KILLED_SECONDS
    while (remaining := set(marked(state))) and (now := time.monotonic()) < limit:
        # one that was being forked at the last look is asked too, and killed however late it appears
        for pid in remaining if now >= patience else remaining - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if now >= patience else signal.SIGTERM)
        signalled |= remaining
        pids |= remaining
        _reap(remaining)
        time.sleep(0.05)
    _reap(pids)
    return len(pids)


def _reap(pids: Iterable[int]) -> None:
    """Take the exit codes of those that this process started; the others have their own parents."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def marked(state: Path) -> list[int]:
    """Return the processes started for a state folder: they, and what they start, have its name in their environment.

    Where there is no /proc, those that `state.json` names.
    """
    if not Path("/proc/self/environ").exists():
        running = _recorded(state)
        named = (
            [(running.pid, "hyperpod_ray_sandbox.aws"), (running.kubernetes_pid, "hyperpod_ray_sandbox.kubernetes")]
            if running
            else []
        )
        return [pid for pid, module in named if pid and _alive(pid, module)]
    mark = f"{MARK}={state}".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return [pid for pid in pids if pid != os.getpid()]


def _recorded(state: Path) -> Running | None:
    try:
        return Running(**json.loads((state / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Let one process at a time start an emulator in a folder."""
    with (state / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(
                f"another `up` is starting an embedded AWS in {state}", expected="one at a time", fix="wait for it"
            ) from None
        yield


def _private(folder: Path) -> None:
    """Make a folder that only its owner can look into."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise StartError(
            f"{folder} belongs to another user",
            expected="a folder of yours: it stores this emulator's secret",
            fix="add --state",
        )
    folder.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(path)


def _empty(state: Path) -> None:
    """Remove what an emulator kept: its secret, its functions' files, the objects of its Kubernetes API. Logs stay."""
    (state / "state.json").unlink(missing_ok=True)
    for name in ("kubernetes", "functions", "home", "bin"):
        shutil.rmtree(state / name, ignore_errors=True)


def bound_compile_cache(folder: Path) -> None:
    """Empty Node.js's cache of compiled modules where it has grown: each deploy's functions lie in a new folder."""
    if sum(1 for file in folder.rglob("*") if file.is_file()) > COMPILED_MODULES:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(state: Path, client: Client) -> dict[str, str]:
    """Return what the emulator and the functions it runs see: nothing of the person's own AWS or Kubernetes."""
    functions = state / "functions"
    _private(functions)
    bound_compile_cache(Path(client.environment()["NODE_COMPILE_CACHE"]))
    layer = paths.KUBECTL_LAYER
    folders = [state / "bin", layer / "kubectl", layer / "helm", paths.VENV / "bin"]
    with contextlib.suppress(install.InstallError):  # functions in Node.js need it, the emulator does not
        folders.append(install.node().parent)
    return {
        **client.environment(),
        **leash.inherited(),
        MARK: str(state),
        "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)]),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(paths.imports()),
        "PYTHONUNBUFFERED": "1",
        "NODE_PATH": str(paths.NODE_RUNTIME / "node_modules"),
        # CDK's kubectl handler writes its kubeconfig and manifests here, not into a /tmp it would share
        "TEST_OUTDIR": str(functions),
        "TMPDIR": str(functions),
        # the waiters of custom resources ask every 20 s, for what takes a state here
        "SFN_WAIT_SCALE": str(WAIT_SCALE),
        "MINISTACK_ACCOUNT_ID": client.account,
        "MINISTACK_REGION": client.region,
        "SERVICES": ",".join(SERVICES),
        # MiniStack would listen for MQTT on every interface
        "IOT_MTLS_ENABLED": "0",
    }


def _spawn(
    module: str, *arguments: str, log: Path, environment: dict[str, str], listener: socket.socket | None = None
) -> subprocess.Popen[bytes]:
    """Start a module of the sandbox in its own session; its output goes into `log`, which only its owner may read."""
    with log.open("w") as output:
        return subprocess.Popen(
            [str(paths.PYTHON), "-m", module, *arguments],
            cwd=paths.imports(),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            pass_fds=() if listener is None else (listener.fileno(),),
        )


def _assets(chosen: Path | None) -> Path:
    """The folder with both binaries of a real API server in it."""
    folder = str(chosen or os.environ.get("KUBEBUILDER_ASSETS", ""))
    source = "--api-server-folder" if chosen else "KUBEBUILDER_ASSETS"
    for name in ("etcd", "kube-apiserver"):
        if not folder or not os.access(Path(folder) / name, os.X_OK):
            raise StartError(
                f"{source}: '{folder}' has no executable {name}",
                expected="a folder with etcd and kube-apiserver",
                fix="--api-server-folder $(setup-envtest use -p path)",
            )
    return Path(folder).resolve()


def _start_kubernetes(state: Path, command: list[str], environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Start a module that serves a Kubernetes API, and wait for the record that it writes."""
    process = _spawn_kubernetes(state, command, environment)
    return process.pid, _wait_for_kubernetes(state, process)


def _record(state: Path) -> Path:
    """Where a Kubernetes API writes its address, its certificates and its kubeconfig when it answers."""
    return state / "kubernetes" / "server.json"


def _spawn_kubernetes(state: Path, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    folder = _record(state).parent
    _private(folder)
    _record(state).unlink(missing_ok=True)
    return _spawn(*command, "--state", str(folder), log=state / "kubernetes.log", environment=environment)


def _wait_for_kubernetes(state: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    ready, log = _record(state), state / "kubernetes.log"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(
                f"the local Kubernetes API ended: {_ending(process.returncode, log)}",
                expected="a running process",
                fix=f"see {log}",
            )
        if ready.exists():
            try:
                server: dict[str, Any] = json.loads(ready.read_text())
            except ValueError:  # half written
                time.sleep(0.02)
                continue
            return server
        time.sleep(0.02)
    raise StartError(
        f"the local Kubernetes API is not ready\n{_tail(log)}\n",
        expected=f"it within {START_SECONDS} s",
        fix=f"see {log}",
    )


def _models(state: Path, entrypoints: Sequence[str]) -> tuple[str, ...]:
    """Options of a follower that models controllers too."""
    program = json.dumps(list(entrypoints))
    return ("--controllers", "--entrypoint-program", program, "--runs", str(state / "kubernetes" / "rayjobs"))


def _start_follower(state: Path, running: Running, environment: dict[str, str]) -> int:
    """Start what makes Node objects of HyperPod's instances in a cluster of your own."""
    log, kubeconfig = state / "follower.log", Path(running.kubeconfig)
    process = _spawn(
        "hyperpod_ray_sandbox.kubernetes.follower",
        *("--kubeconfig", str(kubeconfig.resolve())),
        *("--aws-endpoint", running.client.endpoint, "--region", running.region),
        *_pace(running.seconds_per_state),
        *running.follower_options,
        log=log,
        environment=environment,
    )
    deadline = time.monotonic() + START_SECONDS
    while "following the embedded AWS" not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise StartError(
                f"HyperPod's nodes cannot join the cluster of {kubeconfig}\n{_tail(log)}\n",
                expected="a cluster that accepts them",
                fix=f"see {log}",
            )
        time.sleep(0.05)
    return process.pid


def _wait_until_ready(running: Running, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    log = Path(running.log)
    while time.monotonic() < deadline:
        if started.poll() is not None:
            raise StartError(
                f"the embedded AWS ended: {_ending(started.returncode, log)}",
                expected="a running process",
                fix=f"see {log}",
            )
        if running.client.health(patience=ANSWER_SECONDS):
            return
        time.sleep(0.02)
    raise StartError(
        f"the embedded AWS is not ready\n{_tail(log)}\n", expected=f"it within {START_SECONDS} s", fix=f"see {log}"
    )


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
        raise StartError(
            f"{kubeconfig}: no usable cluster ({error!r})",
            expected="one with a CA in the current context",
            fix="correct the file",
        ) from None


def _write_aws(state: Path) -> None:
    """Put an `aws` on the functions' PATH that does three commands without the AWS CLI's start. The rest is real."""
    folder = state / "bin"
    _private(folder)
    quick = f"{_quoted(paths.PYTHON)} -I -S {_quoted(Path(functions_cli.__file__))}"
    shim = folder / "aws"
    shim.write_text(
        "#!/bin/sh\n"
        "# written by `up`: see hyperpod_ray_sandbox/aws/functions_cli.py\n"
        'case "$#:$*" in\n'
        f'  *":eks update-kubeconfig "*|*"eks get-token "*) exec {quick} "$@" ;;\n'
        f'  "4:s3 cp s3://"*) {quick} "$@" 2> /dev/null && exit 0 ;;\n'
        "esac\n"
        f'exec {_quoted(paths.VENV / "bin" / "aws")} "$@"\n'
    )
    shim.chmod(0o700)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _read_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _listener(requested: int | None) -> socket.socket:
    """Return a socket that listens on a port of 127.0.0.1: the one given, or the default one where it is free, or any.

    The emulator inherits it. A port that is only looked for could be another process's by the time of its start.
    """
    for port in (requested,) if requested else (DEFAULT_PORT, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            continue
        return listener
    raise StartError(
        f"port {requested} of 127.0.0.1 is taken" if requested else "no free port on 127.0.0.1",
        expected="a free one",
        fix="choose another with --port" if requested else "end a process that listens, or run the command again",
    )


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
    ps_output = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return module in ps_output.stdout


def _stop_groups(pids: Iterable[int], patience: float) -> None:
    """End process groups, by their leaders: all are asked at once, and killed when they take too long."""
    remaining = list(pids)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        deadline = time.monotonic() + patience  # what is still there after it, `clear` ends by its mark
        while (remaining := [pid for pid in remaining if _group_lives(pid)]) and time.monotonic() < deadline:
            time.sleep(0.02)


def _group_lives(leader: int) -> bool:
    """Whether a process group has a member that has not ended. Who collects its exit code may be slow, or never do."""
    _reap([leader])
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self").exists():
        return True
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _parent, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                return True
    return False


def _ending(code: int, log: Path) -> str:
    """How a process ended that should run, with its last lines, and what the machine had too little of."""
    said = f"exit code {code}"
    if code == -signal.SIGKILL:
        said = "killed, as the kernel does where memory is short"
    elif shutil.disk_usage(log.parent).free < LITTLE_SPACE:
        said += f", and {log.parent} is full"
    return f"{said}\n{_tail(log)}\n"


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-5:])
