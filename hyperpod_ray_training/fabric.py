"""Which way NCCL sends between nodes: EFA, InfiniBand or TCP sockets. NCCL falls back to sockets without an error.

NCCL says it in its own log, at the level INFO and once for each communicator. `listen` sends that log into a file of
this process where nobody asked for another; `chosen` reads the file. Nothing is read after an answer.
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

import functools
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from hyperpod_ray_training import flight

MOST_BYTES = 4_000_000
"""Of a log that is read: what it says of the network stands at its beginning."""
OURS = "nccl-%p.log"
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ([^\r\n]+?)(?: to comm)?\s*$", re.M)
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
_DEVICES = Path("/sys/class/infiniband")


def listen(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let NCCL write what it chooses into a file; before its first communicator, and not where the user logs it."""
    if "NCCL_DEBUG" in environ or "NCCL_DEBUG_FILE" in environ:
        return
    environ["NCCL_DEBUG"] = "INFO"
    environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
    environ["NCCL_DEBUG_FILE"] = str(Path(tempfile.gettempdir()) / OURS)


def listening(loop: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The user's loop, in a process that listens before a model is wrapped, which opens NCCL's first communicator."""

    @functools.wraps(loop)
    def run(config: dict[str, Any]) -> Any:
        listen()
        flight.record()
        return loop(config)

    return run


def chosen(environ: Mapping[str, str] = os.environ) -> str:
    """`efa`, `sockets`, `infiniband`, or the name that NCCL gives it; empty where it has not said."""
    name = environ.get("NCCL_DEBUG_FILE", "")
    if not name:
        return ""
    path = Path(name.replace("%h", socket.gethostname()).replace("%p", str(os.getpid())))
    try:
        with path.open("rb") as stream:
            return transport(stream.read(MOST_BYTES).decode(errors="replace"))
    except OSError:
        return ""


def transport(log: str) -> str:
    """The same, of NCCL's log: the last communicator counts."""
    networks = _NETWORK.findall(log)
    if not networks:
        return ""
    network = str(networks[-1]).strip()
    if "libfabric" in network.lower() or "ofi" in network.lower():
        providers = _PROVIDER.findall(log)
        provider = str(providers[-1]) if providers else "libfabric"
        return "efa" if provider.startswith("efa") else provider
    return {"Socket": "sockets", "IB": "infiniband"}.get(network, network[:40])


def uses_nccl() -> bool:
    """Whether the process group has NCCL for GPUs."""
    import torch.distributed as dist

    return "nccl" in str(dist.get_backend_config())


def has_efa(environ: Mapping[str, str] = os.environ, *, devices: Path = _DEVICES) -> bool:
    """Whether this process was given EFA interfaces."""
    try:
        present = any(path.name.startswith(("efa", "rdmap")) for path in devices.iterdir())
    except OSError:
        present = False
    return present or environ.get("FI_PROVIDER") == "efa"


def across_nodes(world: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ranks of several nodes talk; without the launcher's variable, more than one rank may."""
    local = environ.get("LOCAL_WORLD_SIZE", "")
    return world > (int(local) if local.isdigit() else 1)
