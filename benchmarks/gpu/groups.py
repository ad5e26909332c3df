"""A world of one over NCCL: what waits for a stuck kernel is cut, and the group opens again in the same process."""

from __future__ import annotations

import threading
import time
from typing import Any

from benchmarks.gpu.__main__ import check_of

ROUNDS = 3
STUCK_S = 3.0


def measure(device: str, *, small: bool) -> dict[str, Any]:
    """Open, use, cut while a collective stands behind a long kernel, let go, open again."""
    import os

    import torch
    import torch.distributed as dist

    from hyperpod_ray_training.spares.groups import GenerationOverError, Groups

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    on_gpu = device == "cuda"
    groups = Groups(node="127.0.0.1", timeout_s=60, backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    rows: list[dict[str, Any]] = []
    right = 0
    for number in range(ROUNDS):
        begin = time.monotonic()
        groups.open(gen=number, rank=0, world=1, host="127.0.0.1", port=groups.store.port)
        opened = time.monotonic() - begin
        value = torch.full((1024,), float(number + 1), device=device)
        dist.all_reduce(value)
        right += float(value.sum()) == 1024.0 * (number + 1)
        used = time.monotonic() - begin - opened
        if on_gpu:
            torch.cuda._sleep(int(STUCK_S * 1.5e9))
        threading.Timer(0.2, groups.cut).start()
        begin, raised = time.monotonic(), ""
        try:
            work = dist.all_reduce(torch.ones(1 << 20, device=device), async_op=True)
            work.wait()
            time.sleep(0.5)
            if on_gpu:
                torch.cuda.current_stream().query()
        except BaseException as error:
            raised = type(error).__name__
        waited = time.monotonic() - begin
        begin = time.monotonic()
        try:
            groups.let_go()
        except GenerationOverError:  # it came while the generation was being left already, as in the product's loop
            groups.let_go()
        let_go = time.monotonic() - begin
        rows.append(
            {
                "round": number,
                "open s": round(opened, 3),
                "first collective s": round(used, 3),
                "waited s": round(waited, 2),
                "raised": raised or "-",
                "let go s": round(let_go, 3),
            }
        )
    return {
        "rows": rows,
        "checks": [
            check_of(
                "a group opens again after an abort",
                f"{right} of {ROUNDS} sums right",
                f"{ROUNDS}",
                met=right == ROUNDS,
            ),
            check_of(
                "open again",
                f"{max(row['open s'] for row in rows[1:])} s",
                "<= 1 s",
                met=max(row["open s"] for row in rows[1:]) <= 1,
            ),
        ],
    }
