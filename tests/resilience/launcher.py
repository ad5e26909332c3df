"""Starts jobs by forking: torch and ray are imported once, and each launch takes a second instead of many.

Reads one JSON object a line (script, arguments, ranks, environment, output) and answers with the exit codes. Each
rank is a process of its own with torchrun's environment. As under torchrun the first rank that fails takes the others
with it.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

import torch
from torch.distributed import TCPStore

GRACE_S = 120.0
PORT_BYTES = 8


def rank_main(request: dict[str, Any], rank: int, store_port: int) -> NoReturn:
    """Become the script, as rank `rank`, once the descriptor `store_port` says where the store listens."""
    port = int(os.read(store_port, PORT_BYTES))  # no buffer: the other ranks read the same pipe
    os.close(store_port)
    output = os.open(f"{request['output']}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    world = max(1, request["ranks"])
    if request["ranks"]:
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"})
        os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
    sys.argv = [request["script"], *request["arguments"]]
    code = 0
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def launch(request: dict[str, Any]) -> list[int]:
    """Fork the ranks and wait for them; exit code of each, negative for a signal."""
    running = {}
    reading, writing = os.pipe()
    for rank in range(max(1, request["ranks"])):
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            rank_main(request, rank, reading)
        running[pid] = rank
    os.close(reading)
    # as torchrun does: one process has the store, so nobody looks for a port that another process may take. After the
    # forks: a rank that is forked while the store's thread holds one of libc's locks waits for that lock forever
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for _ in running:
        os.write(writing, f"{store.port:{PORT_BYTES}}".encode())
    os.close(writing)
    codes: dict[int, int] = {}
    kill_at = None
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
            if codes and any(codes.values()) and kill_at is None:
                kill_at = time.monotonic() + GRACE_S  # long enough for the others to tell why they cannot go on
                for other in running:
                    os.kill(other, signal.SIGTERM)
        elif kill_at is not None and time.monotonic() > kill_at:
            for other in running:
                os.kill(other, signal.SIGKILL)
            kill_at = time.monotonic() + GRACE_S
        else:
            time.sleep(0.02)
    return [codes[rank] for rank in sorted(codes)]


def main() -> None:
    """Import what is slow, say so, then serve."""
    import preload

    import hyperpod_ray_training.resumable
    import hyperpod_ray_training.watch  # noqa: F401
    from hyperpod_ray_training import tracking

    tracking.CALL_S = tracking.CLOSE_S = tracking.FAILED_CLOSE_S = 600.0
    torch.set_num_threads(1)
    preload.load("sklearn.datasets")
    gc.freeze()  # what is imported is no state of a loop, and need not be copied into each process
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(launch(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
