"""`python -m hyperpod_ray_sandbox.kubernetes.server --state DIR`: serve the Kubernetes API on loopback.

Writes `DIR/server.json` (mode 0600) when it answers: `url`, `ca_file`, `token`, `kubeconfig`, `pid`. Objects are kept
in `DIR/objects.sqlite`, so a restart in the same directory finds them, with the same certificate, token and (if free)
port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import secrets
import signal
import socket
import ssl
import sys
from pathlib import Path
from typing import Any, cast

import hypercorn.asyncio
import hypercorn.config
import yaml

from hyperpod_ray_sandbox.kubernetes import tls
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.asgi import App
from hyperpod_ray_sandbox.kubernetes.auth import Authenticator
from hyperpod_ray_sandbox.kubernetes.controllers import Controllers, Settings
from hyperpod_ray_sandbox.kubernetes.faults import Faults
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]

LOOPBACK = "127.0.0.1"
CONTEXT = "rehearsal"
_CLOSING_SECONDS = 1.5
_PORTS = range(20_000, 26_000)
_BACKLOG = 100


def write_private(path: Path, text: str) -> None:
    """Write a file only its owner can read, whole or not at all."""
    part = path.with_name(path.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    part.replace(path)


def kubeconfig(url: str, ca_file: Path, token: str) -> str:
    """A kubeconfig for the server, as YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}],
        "current-context": CONTEXT,
    }
    return str(yaml.safe_dump(config, sort_keys=False))


def _token(directory: Path) -> str:
    file = directory / "token"
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32))
    return file.read_text()


def _listener(requested: int, directory: Path) -> socket.socket:
    """A socket that listens on the port asked for; for 0 on the one of the last run if free, else on any.

    Not one that the kernel gives to connections: while this server is unreachable on demand, nobody may get its port.
    It listens at once: a port that is only looked for could be another server's a moment later.
    """
    port_file = directory / "port"
    previous = [int(port_file.read_text())] if not requested and port_file.exists() else []
    for port in [requested] if requested else [*previous, *random.sample(_PORTS, 100)]:
        try:
            listener = _listen(port)
        except OSError:
            continue
        write_private(port_file, str(port))
        return listener
    raise SystemExit(f"port {requested} is taken; choose another with --port, or 0 for any")


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class Server:
    """The HTTP server around the application; can be made unreachable for a while."""

    def __init__(self, directory: Path, port: int, settings: Settings) -> None:
        self.directory = directory
        self.store = Store(directory / "objects.sqlite")
        self.ca_file, self.cert_file, self.key_file = tls.make(directory)
        self.api = Api(self.store, self.ca_file.read_text())
        self.faults = Faults()
        self.controllers = Controllers(self.api, settings)
        self.token = _token(directory)
        self._listener: socket.socket | None = _listener(port, directory)
        self.port = int(self._listener.getsockname()[1])
        authenticator = Authenticator(
            static_token=self.token,
            aws_endpoint=settings.aws_endpoint,
            region=settings.region,
            cluster_arn=lambda: self.store.note("eks").partition("@")[0],
            service_account=self.api.tokens.identify,
        )
        self.app = App(self.api, authenticator, self.faults, self._go_unreachable, self.controllers.hook)
        self._stop = asyncio.Event()
        self._pause: asyncio.Event = asyncio.Event()
        self._pause_seconds = 0.0

    @property
    def url(self) -> str:
        """Where the server answers."""
        return f"https://{LOOPBACK}:{self.port}"

    def _go_unreachable(self, seconds: float) -> None:
        self._pause_seconds = seconds
        # let the answer to this request out first
        asyncio.get_running_loop().call_later(0.1, self._pause.set)

    def _config(self) -> hypercorn.config.Config:
        config = hypercorn.config.Config()
        # again after it was unreachable on demand: the end of serving closes the socket
        listener, self._listener = self._listener or _listen(self.port), None
        config.bind = [f"fd://{listener.detach()}"]
        config.certfile = str(self.cert_file)
        config.keyfile = str(self.key_file)
        # HTTP/1.1 only: one connection a request is simpler to cut, delay and hang
        config.alpn_protocols = ["http/1.1"]
        config.graceful_timeout = 0.5
        config.shutdown_timeout = 1.0
        config.keep_alive_timeout = 300
        config.h11_max_incomplete_size = 65_536
        config.errorlog = logging.getLogger("hyperpod_ray_sandbox.kubernetes.http")
        return config

    async def _until_down(self) -> None:
        waits = {asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(self._pause.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _announce(self) -> None:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        while not self._stop.is_set():
            try:
                _, writer = await asyncio.open_connection(LOOPBACK, self.port, ssl=context)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        config_file = self.directory / "kubeconfig"
        write_private(config_file, kubeconfig(self.url, self.ca_file, self.token))
        record = {
            "url": self.url,
            "ca_file": str(self.ca_file),
            "token": self.token,
            "kubeconfig": str(config_file),
            "port": self.port,
            "pid": os.getpid(),
        }
        write_private(self.directory / "server.json", json.dumps(record, indent=2) + "\n")
        sys.stderr.write(
            f"recording Kubernetes API (a rehearsal, not Kubernetes) on {self.url}, KUBECONFIG={config_file}\n"
        )

    async def _serve(self) -> None:
        """Serve until stopped or paused; connections that do not close in time are dropped."""
        serving = asyncio.ensure_future(
            hypercorn.asyncio.serve(cast(Any, self.app), self._config(), shutdown_trigger=self._until_down)
        )
        down = asyncio.ensure_future(self._until_down())
        await asyncio.wait({serving, down}, return_when=asyncio.FIRST_COMPLETED)
        down.cancel()
        # an idle TLS client never answers the closing, and asyncio would wait 30 s for it
        await asyncio.wait({serving}, timeout=_CLOSING_SECONDS)
        if not serving.done():
            serving.cancel()
            await asyncio.wait({serving}, timeout=_CLOSING_SECONDS)

    async def run(self) -> None:
        """Serve until `SIGTERM` or `SIGINT`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        tasks = [asyncio.ensure_future(self._announce()), asyncio.ensure_future(self.controllers.run())]
        try:
            while not self._stop.is_set():
                self._pause.clear()
                await self._serve()
                if self._pause.is_set() and not self._stop.is_set():
                    try:
                        async with asyncio.timeout(self._pause_seconds):
                            await self._stop.wait()
                    except TimeoutError:
                        continue
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2)
            self.store.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hyperpod_ray_sandbox.kubernetes.server", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--state", type=Path, required=True, help="directory for objects, certificate, token and server.json"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port on 127.0.0.1; 0 takes the last one of this state, or any"
    )
    parser.add_argument(
        "--aws-endpoint", default="", help="URL of the embedded AWS; without it no nodes and no file systems"
    )
    parser.add_argument("--region", default="us-west-2", help="AWS region to ask there")
    parser.add_argument(
        "--eks-cluster", default="", help="EKS cluster this API stands for (default: the only one there is)"
    )
    parser.add_argument("--poll-seconds", type=float, default=1.0, help="how often the embedded AWS is asked")
    parser.add_argument(
        "--time-scale",
        type=float,
        default=0.05,
        help="seconds here per second in real life, for what controllers wait for",
    )
    parser.add_argument(
        "--entrypoint-program",
        default="[]",
        help="JSON list: the command that runs a RayJob's entrypoint, given a folder; without it none runs",
    )
    parser.add_argument("--static-nodes", type=Path, help="JSON file with a list of Node objects to start with")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the server; returns the exit code."""
    args = _parser().parse_args(argv)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it reports every connection cut at the end
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    directory: Path = args.state.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    settings = Settings(
        aws_endpoint=args.aws_endpoint,
        region=args.region,
        eks_cluster=args.eks_cluster,
        poll_seconds=args.poll_seconds,
        time_scale=args.time_scale,
        static_nodes=args.static_nodes,
        entrypoints=tuple(json.loads(args.entrypoint_program)),
        runs=directory / "rayjobs",
    )

    async def serve() -> None:
        await Server(directory, args.port, settings).run()

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
