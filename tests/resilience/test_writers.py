from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata

from hyperpod_ray_training.faults import FaultHooks
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.writers import reader_for, writer_for

NAME = "step-00000099-abcdef"


class Reduces:
    """Calls something when it is unpickled."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments

    def __call__(self) -> None:
        """What it makes may be called in its turn."""


def by_attributes(proof: Path) -> Reduces:
    """From a class that is allowed to `os.mkdir`, by nothing but attributes."""
    constructor = Reduces(getattr, Metadata, "__init__")
    get = Reduces(getattr, Reduces(getattr, constructor, "__globals__"), "__getitem__")
    return Reduces(Reduces(getattr, Reduces(get, "os"), "mkdir"), str(proof))


def planted(folder: Path, content: bytes) -> RunFolder:
    (folder / NAME).mkdir()
    (folder / NAME / ".metadata").write_bytes(content)
    return RunFolder(str(folder))


def test_a_planted_pickle_is_not_executed(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    for content in (
        pickle.dumps(Reduces(os.system, f"touch {proof}")),
        pickle.dumps(Reduces(exec, f"open({str(proof)!r}, 'w')")),
        pickle.dumps({"state": Reduces(os.mkdir, str(proof))}, protocol=0),
        pickle.dumps(Reduces(getattr, Metadata, "__init__")),
        pickle.dumps(Reduces(getattr, _MEM_FORMAT_ENCODING, "mro")),
        pickle.dumps(by_attributes(proof)),
        # by way of a module that is allowed: a dotted name of protocol 4
        b"\x80\x04\x8c\x13torch.serialization\x8c\x0cos.getcwd.__\x93.",
        b"ctorch\nload\n(S'" + str(proof).encode() + b"'\ntR.",
    ):
        folder = planted(tmp_path, content)
        reason = folder.why_unusable(NAME)
        assert reason is not None
        assert reason.startswith(".metadata cannot be read (UnpicklingError"), reason
        with pytest.raises(pickle.UnpicklingError):
            reader_for(folder, NAME).read_metadata()
        assert not proof.exists()
        (tmp_path / NAME / ".metadata").unlink()
        (tmp_path / NAME).rmdir()


@pytest.mark.parametrize("kind", ["shared", "fsspec"])
def test_what_torch_writes_is_read_as_torch_reads_it(tmp_path: Path, kind: str) -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        folder = RunFolder(str(tmp_path))
        hooks = FaultHooks(folder=None, rank=0, announce=lambda *_, **__: None)
        state = {
            "model": {"weight": torch.ones(3, 4), "half": torch.zeros(2, dtype=torch.bfloat16)},
            "small": torch.zeros(3).to(torch.float8_e4m3fn), "none": torch.zeros(0), "list": [torch.ones(2), "word"],
            "number": 7, "complex": torch.zeros(2, dtype=torch.complex64),
        }  # fmt: skip
        dcp.save(state, storage_writer=writer_for(writer_kind=kind, folder=folder, name=NAME, rank=0, hooks=hooks))
    finally:
        dist.destroy_process_group()
    theirs = FileSystemReader(folder.at(NAME)).read_metadata()
    ours = reader_for(folder, NAME).read_metadata()
    assert ours.state_dict_metadata == theirs.state_dict_metadata
    assert ours.storage_data == theirs.storage_data
    assert ours.planner_data == theirs.planner_data
    assert folder.why_unusable(NAME) is None
