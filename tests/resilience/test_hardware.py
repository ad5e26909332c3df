"""Which errors are a device's own: texts that others have met and written down, and texts that only look alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hyperpod_ray_training import Unrecoverable, hardware
from hyperpod_ray_training.hardware import DeviceBrokenError, check_device, sign_of

ECC = """CUDA error: uncorrectable ECC error encountered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


@pytest.mark.parametrize(
    ("error", "sign"),
    [
        (RuntimeError(ECC), "uncorrectable ECC error"),
        (torch.AcceleratorError(ECC), "uncorrectable ECC error"),
        (RuntimeError("CUDA error: unknown error"), "CUDA error: unknown error"),
        (RuntimeError("CUDA error: uncorrectable NVLink error detected during the execution"), "NVLink"),
        (RuntimeError("Unable to determine the device handle for GPU0000:03:00.0: Unknown Error"), "device handle"),
        (RuntimeError("DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that"), "Bus error"),
        (DeviceBrokenError("the GPU failed a check: a sum of 3"), "failed a check"),
        # of the user's code, of a peer, or of memory that is too small
        (RuntimeError("CUDA error: device-side assert triggered"), None),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
        (RuntimeError("CUDA error: unspecified launch failure"), None),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), None),
        (RuntimeError("NCCL error: unhandled system error, remote process exited"), None),
        (RuntimeError("NCCL error in: …, unhandled cuda error (run with NCCL_DEBUG=INFO for details)"), None),
        (ValueError("label 'uncorrectable ECC error' is not in the vocabulary"), None),
        (RuntimeError("shapes do not match"), None),
        (Unrecoverable("3 saves in a row failed: uncorrectable ECC error"), None),
    ],
)
def test_whose_an_error_is(error: BaseException, sign: str | None) -> None:
    got = sign_of(error)
    assert (got is None) if sign is None else (got is not None and sign in got)
    wrapped = KeyError("in the loop")
    wrapped.__cause__ = error
    assert sign_of(wrapped) == got


@pytest.mark.parametrize(
    ("text", "fences"),
    [
        ("the log of another job says: CUDA error: uncorrectable ECC error encountered", False),
        ("is the GPU lost? nvidia-smi: GPU is lost", False),
        (ECC, True),  # as torch says it, from a rehearsal in a script
        ("NCCL error in: x.cpp:1, Cuda failure 'uncorrectable ECC error encountered'", True),
    ],
)
def test_what_the_users_own_code_quotes_fences_nobody(text: str, fences: bool) -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(text)
    assert (sign_of(caught.value) is not None) is fences


class NVMLError_GpuIsLost(Exception):
    """As pynvml has it."""


def test_nvml_says_that_a_gpu_is_lost() -> None:
    assert sign_of(NVMLError_GpuIsLost("GPU is lost")) == "GPU is lost"


class Card:
    """CUDA as a process sees it that has used it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, initialized: bool = True) -> None:
        self.asked = 0
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialized)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(hardware, "_uuid", lambda: "GPU-1")
        monkeypatch.setattr(hardware, "_errors_at_start", {})
        monkeypatch.setattr(hardware, "_trains_on", None)
        monkeypatch.setattr(hardware, "uncorrected_errors", lambda uuid: self.errors)
        self.errors: int | None = 2
        real = torch.ones

        def ones(*size: int, device: str) -> torch.Tensor:
            assert device == "cuda"
            self.asked += 1
            return self.made(real(*size))

        monkeypatch.setattr(torch, "ones", ones)

    def made(self, whole: torch.Tensor) -> torch.Tensor:
        return whole


def test_a_device_that_computes_right_may_train(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    check_device()
    assert card.asked == 1


def test_a_device_that_computes_wrong_or_fails_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    card.made = lambda whole: whole.index_put((torch.tensor([3]), torch.tensor([3])), torch.tensor(2.0))  # type: ignore[method-assign]
    with pytest.raises(DeviceBrokenError, match="Expected 262144"):
        check_device()

    def fails(_: Any) -> Any:
        raise RuntimeError(ECC)

    card.made = fails  # type: ignore[method-assign, assignment]
    with pytest.raises(DeviceBrokenError, match=r"uncorrectable ECC error encountered\. Expected"):
        check_device()


def test_a_process_without_cuda_is_not_given_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, initialized=False)
    check_device()
    assert card.asked == 0


def test_each_sign_has_a_source() -> None:
    assert all(source and sign for sign, source in hardware.SIGNS.items())


def test_a_device_with_new_memory_errors_may_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    hardware.training_begins()
    check_device()  # those from before are somebody else's
    card.errors = 3
    hardware.training_begins()  # the next generation
    with pytest.raises(DeviceBrokenError, match=r"3 memory errors that ECC did not correct\. Expected 2, as when"):
        check_device()
    card.errors = None
    check_device()


def test_without_nvml_nobody_knows_of_errors() -> None:
    if hardware._nvml() is None:
        assert hardware.uncorrected_errors("GPU-1") is None
    assert not hardware.device_is_busy()
