"""The readers of a node's health against the real thing: nvidia-smi, CUDA's and NVML's texts, a node test in short."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.__main__ import PROJECT, check_of

NVML_GPU_IS_LOST = 15


def measure(device: str, *, small: bool) -> dict[str, Any]:
    """Each reader beside its source."""
    rows: list[dict[str, Any]] = []
    checks = [*_health(device, rows), *_texts(device, rows), *_errors(device), *_device_check(device)]
    checks += _node_test(device, rows, seconds=1 if small else 5)
    dcgm = shutil.which("dcgmi") or shutil.which("nv-hostengine")
    rows.append({"reader": "DCGM", "says": dcgm or "not installed here: not run"})
    return {"rows": rows, "checks": checks}


def _health(device: str, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from hyperpod_ray.ops.acceptance import node_probe

    health = node_probe.health()
    rows.append({"reader": "nodes check, nvidia-smi", "says": json.dumps(health)})
    if device != "cuda":
        return
    fields = {*node_probe.ECC, *node_probe.REMAPPED}
    unread = sorted(name for name in fields if not health or health[0].get(name) is None)
    yield check_of(
        "fields of nvidia-smi that were read",
        f"{len(fields) - len(unread)} of {len(fields)}; not: {unread}",
        "all",
        met=not unread,
    )


def _texts(device: str, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The signs that `hardware` looks for, beside what this driver's libraries say for those codes."""
    from hyperpod_ray_training.hardware import SIGNS

    if device != "cuda":
        return
    import torch

    runtime = torch.cuda.cudart()
    texts, unlike = [], []
    for sign, source in SIGNS.items():
        number = re.search(r"^cudaError\w+ \((\d+)\)", source)
        if number:
            text = (
                str(runtime.cudaGetErrorString(runtime.cudaError(int(number[1]))))
                if hasattr(runtime, "cudaGetErrorString")
                else _runtime_text(int(number[1]))
            )
            texts.append(text)
            if sign.removeprefix("CUDA error: ") not in text:
                unlike.append(f"{number[1]}: {text!r}")
    with contextlib.suppress(OSError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        text = nvml.nvmlErrorString(NVML_GPU_IS_LOST).decode()
        texts.append(text)
        if not any(sign in text for sign in SIGNS):
            unlike.append(f"NVML 15: {text!r}")
    rows.append({"reader": "texts of errors", "says": "; ".join(texts)})
    yield check_of(
        "texts of hardware errors",
        f"{len(texts) - len(unlike)} of {len(texts)}; unlike: {unlike}",
        "all alike",
        met=bool(texts) and not unlike,
    )


def _runtime_text(number: int) -> str:
    """`cudaGetErrorString` of the library that torch has loaded."""
    import pathlib

    maps = pathlib.Path("/proc/self/maps").read_text()
    path = re.search(r"(/\S*libcudart\S*\.so\S*)", maps)
    runtime = ctypes.CDLL(path[1] if path else "libcudart.so")
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    return str(runtime.cudaGetErrorString(number).decode())


USERS = {
    "an assertion of a kernel": (
        "import torch; x = torch.ones(4, device='cuda'); x[torch.tensor([9], device='cuda')].sum().item()"
    ),
    "out of memory": "import torch; torch.empty(1 << 50, dtype=torch.uint8, device='cuda')",
}
HARDWARE = {"no device": "import torch; torch.ones(1, device='cuda')"}


def _errors(device: str) -> Iterator[dict[str, Any]]:
    """Real errors, each in a process of its own: which count as the device's."""
    if device != "cuda":
        return
    import os

    code = (
        "import sys\ntry:\n exec(sys.argv[1])\nexcept BaseException as error:\n"
        " from hyperpod_ray_training.hardware import sign_of\n"
        " print('SIGN', sign_of(error), '|', str(error)[:120].replace(chr(10), ' '))"
    )
    for name, words in USERS.items():
        done = subprocess.run(
            [sys.executable, "-c", code, words], cwd=PROJECT, capture_output=True, text=True, check=False
        )
        line = next((line for line in done.stdout.splitlines() if line.startswith("SIGN")), done.stderr[-200:])
        yield check_of(f"{name} is the user's", line[:160], "no sign", met=line.startswith("SIGN None"))
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    for name, words in HARDWARE.items():
        done = subprocess.run(
            [sys.executable, "-c", code, words], cwd=PROJECT, capture_output=True, text=True, check=False, env=hidden
        )
        line = next((line for line in done.stdout.splitlines() if line.startswith("SIGN")), done.stderr[-200:])
        yield check_of(
            f"{name} (hidden from the process)", line[:160], "said as torch says it", met=line.startswith("SIGN")
        )


def _device_check(device: str) -> Iterator[dict[str, Any]]:
    import torch

    from hyperpod_ray_training.hardware import _uuid, check_device, training_begins, uncorrected_errors

    torch.ones(1, device=device)
    check_device()  # the first product of a process loads its library
    begin = time.perf_counter()
    check_device()
    seconds = time.perf_counter() - begin
    if device == "cuda":
        training_begins()
        check_device()
        errors = uncorrected_errors(_uuid())
        yield check_of("uncorrected errors by NVML", str(errors), "a number", met=errors is not None)
    yield check_of(
        "check of a device before a return", f"{1000 * seconds:.1f} ms", "passes, <= 50 ms", met=seconds <= 0.05
    )


def _node_test(device: str, rows: list[dict[str, Any]], *, seconds: float) -> Iterator[dict[str, Any]]:
    from hyperpod_ray.ops.acceptance import node_probe

    options: argparse.Namespace = node_probe.parser().parse_args(
        ["agent", "--seconds", str(seconds), "--limit", "50", "--storage", "", "--master", "127.0.0.1:29477"]
    )
    report = node_probe.agent(options)
    lines = {line["phase"]: line for line in report["lines"]}
    rows.append({"reader": "nodes check, one GPU", "says": json.dumps(lines)})
    yield check_of("the node test ends", ", ".join(lines), "done", met="done" in lines)
    if device == "cuda" and "compute" in lines:
        tflops = lines["compute"]["tflops"]
        yield check_of(
            "products of bf16 matrices",
            f"{tflops:.0f} TFLOP/s, {lines['compute']['wrong']} wrong",
            ">= 495, 0 wrong",
            met=tflops >= 495 and not lines["compute"]["wrong"],
        )
