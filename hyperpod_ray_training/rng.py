"""The random numbers of one rank: torch on CPU and GPU, numpy and Python.

A model with dropout only comes back to the run it would have had when its random numbers continue. So every
checkpoint carries the generators of each rank. At another world size the saved streams fit no rank: each rank then
starts a stream of its own that depends on the seed, the step and the rank alone, so the same resize gives the same run.
"""

from __future__ import annotations

import hashlib
import pickle
import random

import numpy as np
import torch


def capture(device: torch.device) -> bytes:
    """The state of this process's generators, for `restore`. `device` is the model's; its generator is included."""
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "cuda": torch.cuda.get_rng_state(device).numpy().tobytes() if device.type == "cuda" else None,
    }
    return pickle.dumps(state)


def restore(saved: bytes, device: torch.device) -> None:
    """Continue the streams that `capture` saw. A GPU without a saved stream keeps its own."""
    state = pickle.loads(saved)  # noqa: S301 - from the run's own checkpoint or a rank of the same run
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(torch.frombuffer(bytearray(state["torch"]), dtype=torch.uint8))
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state["cuda"]), dtype=torch.uint8), device)


def reseed(*, seed: int, step: int, rank: int) -> None:
    """Start new streams from the run's seed, the step and the rank; `torch.manual_seed` covers every GPU too."""
    digest = hashlib.sha256(f"{seed}:{step}:{rank}".encode()).digest()
    value = int.from_bytes(digest[:8], "big")
    random.seed(value)
    np.random.seed(value % 2**32)
    torch.manual_seed(value)
