"""Which errors are a device's or a node's own, and a check of the device before a rank trains on it again.

Such an error concerns one rank: its process ends, and a spare takes the rank over. Every other exception of the loop
is the user's, and everybody's. An illegal address, a device-side assertion or an unspecified launch failure is most
often a bug of a kernel (CUDA's own words for 700, 710 and 719) and would follow the data to each spare: it stays the
user's.
"""

from __future__ import annotations

from hyperpod_ray_training.errors import MARK, in_three_parts

SIGNS: dict[str, str] = {
    # https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html: texts of `cudaGetErrorString`
    "uncorrectable ECC error": "cudaErrorECCUncorrectable (214)",
    "uncorrectable NVLink error": "cudaErrorNvlinkUncorrectable (220)",
    "hardware stack error": "cudaErrorHardwareStackError (714)",
    "Invalid access of peer GPU memory over nvlink or a hardware error": "cudaErrorContained (721)",
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
_CHECK_SIZE = 64
_FIX = "nothing here: this process ends, and HyperPod's health agent looks at the node"


class DeviceBrokenError(RuntimeError):
    """The device of this process computes something wrong, or nothing."""


def sign_of(error: BaseException) -> str | None:
    """The sign of a device's or node's failure in an error, or in what caused it; None for any other error.

    Only errors of the runtime count (RuntimeError, OSError): a ValueError may quote anything.
    """
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if MARK in text:
            return None
        if isinstance(cause, DeviceBrokenError):
            return text
        if isinstance(cause, (RuntimeError, OSError)):
            sign = next((sign for sign in SIGNS if sign in text), None)
            if sign is not None:
                return sign
        cause = cause.__cause__ or cause.__context__
    return None


def check_device() -> None:
    """Compute on this process's GPU and compare; DeviceBrokenError where it fails.

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
