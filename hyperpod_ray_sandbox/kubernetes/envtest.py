"""A kube-apiserver and its etcd from KUBEBUILDER_ASSETS, as controller-runtime's envtest starts them.

envtest's archives have no kube-controller-manager: nobody makes service accounts or fills in a quota's status, so the
ServiceAccount admission plugin is off and the cases that need controllers are omitted. A kube-controller-manager that
somebody put into the folder starts too, and both are as in a cluster.
Source: https://book.kubebuilder.io/reference/envtest
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from hyperpod_ray_sandbox.api_server_folder import CONTROLLERS, has_controllers

_START_SECONDS = 240.0
_ATTEMPTS = 5
BINARIES = ("etcd", "kube-apiserver")
_FIRST_OF_CONTROLLERS = "/api/v1/namespaces/default/serviceaccounts/default"


def _ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in sockets]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def commands(assets: Path, state: Path, *, etcd: int, peer: int, port: int) -> tuple[list[str], list[str]]:
    """The command lines of etcd and of kube-apiserver."""
    store = [
        str(assets / "etcd"),
        f"--data-dir={state / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{etcd}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]
    server = [
        str(assets / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--cert-dir={state / 'certificates'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--token-auth-file={state / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        *([] if has_controllers(assets) else ["--disable-admission-plugins=ServiceAccount"]),
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-key-file={state / 'service-accounts.key'}",
        f"--service-account-signing-key-file={state / 'service-accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
    ]
    return store, server


def controllers_command(assets: Path, state: Path) -> list[str]:
    """The command line of kube-controller-manager."""
    return [
        str(assets / CONTROLLERS),
        f"--kubeconfig={state / 'kubeconfig'}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--leader-elect=false",
        "--resource-quota-sync-period=10s",
        f"--root-ca-file={state / 'certificates' / 'apiserver.crt'}",
        f"--service-account-private-key-file={state / 'service-accounts.key'}",
    ]


class _Ended(Exception):
    """A binary ended while its start was awaited."""


@contextmanager
def started(assets: Path, state: Path) -> Iterator[Path]:
    """A running API server; yields its kubeconfig."""
    token = secrets.token_urlsafe(16)
    state.mkdir(parents=True, exist_ok=True)
    (state / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    (state / "tokens.csv").chmod(0o600)
    key = state / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    with ExitStack() as stack:
        port = _serve(assets, state, stack)
        authority = state / "certificates" / "apiserver.crt"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "envtest",
                    "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)},
                }
            ],
            "users": [{"name": "envtest", "user": {"token": token}}],
            "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": "envtest"}}],
            "current-context": "envtest",
        }
        kubeconfig = state / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        kubeconfig.chmod(0o600)
        if has_controllers(assets):
            _control(assets, state, stack, port, token)
        yield kubeconfig


def _control(assets: Path, state: Path, stack: ExitStack, port: int, token: str) -> None:
    """Start kube-controller-manager, and wait until it has created the first service account."""
    log = stack.enter_context((state / "log").open("ab"))
    process = subprocess.Popen(controllers_command(assets, state), stdout=log, stderr=log)
    stack.callback(_stop, process)
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(port, state / "certificates" / "apiserver.crt", _FIRST_OF_CONTROLLERS, token):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (state / "log").read_text()[-2000:]
            raise SystemExit(f"{CONTROLLERS} created no service account; its log: {tail}")
        time.sleep(0.2)


def _serve(assets: Path, state: Path, stack: ExitStack) -> int:
    """Start both binaries and wait until they serve; return the API's port.

    The binaries take ports by number. A port that is free when it is looked for can be another process's when a binary
    binds it: that binary ends, and both start again on other ports.
    """
    log = stack.enter_context((state / "log").open("ab"))
    attempt = 0
    while True:
        attempt += 1
        for folder in ("etcd", "certificates"):
            shutil.rmtree(state / folder, ignore_errors=True)
        port, etcd, peer = _ports(3)
        with ExitStack() as both:
            processes = []
            for command in commands(assets, state, etcd=etcd, peer=peer, port=port):
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
                both.callback(_stop, processes[-1])
            try:
                _wait(processes, state, port)
            except _Ended as error:
                if attempt == _ATTEMPTS:
                    raise SystemExit(f"{error}; its log: {(state / 'log').read_text()[-2000:]}") from None
                continue
            stack.push(both.pop_all())
            return port


def _wait(processes: list[subprocess.Popen[bytes]], state: Path, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    authority = state / "certificates" / "apiserver.crt"
    while True:
        if _ready(port, authority):
            return
        for name, process in zip(BINARIES, processes, strict=True):
            if process.poll() is not None:
                raise _Ended(f"{name} ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"kube-apiserver does not answer; its log: {(state / 'log').read_text()[-2000:]}")
        time.sleep(0.2)


def _ready(port: int, authority: Path) -> bool:
    """Whether the API answers with the certificate that was made at this start, so not another process's API."""
    return _answers(port, authority, "/readyz")


def _answers(port: int, authority: Path, path: str, token: str = "") -> bool:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        context = ssl.create_default_context(cafile=str(authority))  # no error of these files is an answer yet
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM; `server.json` in the state folder says where, as that of the local Kubernetes API does."""
    parser = argparse.ArgumentParser(prog="python -m hyperpod_ray_sandbox.kubernetes.envtest")
    parser.add_argument("--assets", type=Path, required=True, help="folder of etcd and kube-apiserver")
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args(argv)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with started(options.assets, options.state) as kubeconfig:
        record = options.state / "server.json"
        part = record.with_suffix(".part")
        part.write_text(json.dumps({"kubeconfig": str(kubeconfig)}))
        part.replace(record)
        ended.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
