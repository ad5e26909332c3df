"""Which errors are a device's or a node's own, and a check of the device before a rank trains on it again.

Such an error concerns one rank: its process ends, and a spare takes the rank over. Every other exception of the loop
is the user's, and everybody's. An illegal address, a device-side assertion or an unspecified launch failure is most
often a bug of a kernel (CUDA's own words for 700, 710 and 719) and would follow the data to each spare: it stays the
user's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from pathlib import Path

from hyperpod_ray_training.errors import MARK, in_three_parts, of_user

SIGNS: dict[str, str] = {
    # https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html: texts of `cudaGetErrorString`
    "uncorrectable ECC error": "cudaErrorECCUncorrectable (214)",
    "uncorrectable NVLink error": "cudaErrorNvlinkUncorrectable (220)",
    "hardware stack error": "cudaErrorHardwareStackError (714)",
    "Invalid access of peer GPU memory over nvlink or a hardware error": "cudaErrorContained (226)",
    "no CUDA-capable device is detected": "cudaErrorNoDevice (100), on a device that has worked",
    "CUDA-capable device(s) is/are busy or unavailable": "cudaErrorDevicesUnavailable (46)",
    "system not yet initialized": "cudaErrorSystemNotReady (802): the fabric manager is away",
    "CUDA error: unknown error": "cudaErrorUnknown (999): what a process sees when its GPU has left the bus",
    # https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html: texts of `nvmlErrorString`
    "GPU is lost": "NVML_ERROR_GPU_IS_LOST (15)",
    "Unable to determine the device handle": "nvidia-smi, for a GPU that does not answer",
    # https://docs.nvidia.com/deploy/xid-errors/index.html: 79
    "fallen off the bus": "Xid 79",
    # torch/utils/data/_utils/signal_handling.py: a worker process of this node's ended by a signal
    "is killed by signal: Bus error": "SIGBUS in a DataLoader's worker: memory that failed, or a full /dev/shm",
}
"""What an error's text contains, and its source."""
_AS_THE_RUNTIME = ("CUDA error: ", "cuDNN error: ", "NCCL error", "DataLoader worker (pid")
"""How torch begins what a device, a library of the device or a loader's process has said."""
_CHECK_SIZE = 64
_FIX = "nothing here: this process ends, and HyperPod's health agent looks at the node"


_NVML, _UNCORRECTED, _SINCE_BOOT = "libnvidia-ml.so.1", 1, 0
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html: nvmlMemoryErrorType_t, nvmlEccCounterType_t
_errors_at_start: dict[str, int] = {}
"""Uncorrected memory errors of each GPU when this process began to train on it."""


_trains_on: int | None = None
_RELAXED = 2
# https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html: cudaStreamCaptureModeRelaxed


class DeviceBrokenError(RuntimeError):
    """The device of this process computes something wrong, or nothing."""


def sign_of(error: BaseException) -> str | None:
    """The sign of a device's or node's failure in an error, or in what caused it; None for any other error.

    Only errors of the runtime count (RuntimeError, OSError, NVML's): a ValueError may quote anything. Of those that the
    user's own code raises, one counts that says it as the runtime does, from its first word on.
    """
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if MARK in text:
            return None
        if isinstance(cause, DeviceBrokenError):
            return text
        if isinstance(cause, (RuntimeError, OSError)) or type(cause).__name__.startswith("NVMLError"):
            sign = next((sign for sign in SIGNS if sign in text), None)
            if sign is not None and (text.startswith((sign, *_AS_THE_RUNTIME)) or not of_user(cause)):
                return sign
        cause = cause.__cause__ or cause.__context__
    return None


@functools.cache
def _nvml() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(_NVML)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def uncorrected_errors(uuid: str) -> int | None:
    """Memory errors of a GPU since the node booted that ECC did not correct; None where NVML does not say.

    Args:
        uuid: Of the GPU, as `torch.cuda.get_device_properties` gives it.
    """
    library = _nvml()
    if library is None:
        return None
    handle, count = ctypes.c_void_p(), ctypes.c_ulonglong()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)):
        return None
    if library.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _SINCE_BOOT, ctypes.byref(count)):
        return None
    return count.value


def _uuid() -> str:
    import torch

    return str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", ""))


def training_begins() -> None:
    """Note this thread's GPU, and the errors that it has had before: later questions are about them."""
    global _trains_on
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        _trains_on, uuid = torch.cuda.current_device(), _uuid()
        errors = uncorrected_errors(uuid)
        if errors is not None:
            _errors_at_start.setdefault(uuid, errors)


@functools.cache
def _runtime() -> ctypes.CDLL | None:
    """The CUDA runtime that torch has loaded."""
    with contextlib.suppress(OSError):
        path = re.search(r"/\S*libcudart\S*\.so\S*", Path("/proc/self/maps").read_text())
        return ctypes.CDLL(path[0]) if path else None
    return None


def device_is_busy() -> bool:
    """Whether work is queued on the GPU that this process trains on; any thread may ask. False where nobody knows.

    A thread that waits for its GPU uses the processor all the time: CUDA asks again and again.
    """
    runtime = _runtime() if _trains_on is not None else None
    if runtime is None:
        return False
    import torch

    mode = ctypes.c_int(_RELAXED)  # a question in the midst of the capture of a graph must not end it
    if runtime.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode)):
        return False
    try:
        return not torch.cuda.default_stream(_trains_on).query()
    except RuntimeError:
        return False
    finally:
        runtime.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def check_device() -> None:
    """Compute on this process's GPU and compare, and ask for its memory errors; DeviceBrokenError where it fails.

    Nothing where this process has not used CUDA.
    """
    import torch  # `hyperpod_ray_training.watch` needs the list only

    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    try:
        ones = torch.ones(_CHECK_SIZE, _CHECK_SIZE, device="cuda")
        total = float((ones @ ones).sum())
        torch.cuda.synchronize()
    except RuntimeError as error:
        failure = f"the GPU failed a check: {str(error).partition(chr(10))[0]}"
        raise DeviceBrokenError(in_three_parts(failure, expected="a product of two matrices", fix=_FIX)) from error
    if total != _CHECK_SIZE**3:
        failure = f"the GPU failed a check: a sum of {total:g}"
        raise DeviceBrokenError(in_three_parts(failure, expected=f"{_CHECK_SIZE**3}", fix=_FIX))
    uuid = _uuid()
    errors, before = uncorrected_errors(uuid), _errors_at_start.get(uuid)
    if errors is not None and before is not None and errors > before:
        failure = f"the GPU failed a check: {errors} memory errors that ECC did not correct"
        raise DeviceBrokenError(in_three_parts(failure, expected=f"{before}, as when training began", fix=_FIX))
