"""Reads a checkpoint's `.metadata`, a pickle, without running what somebody may have put into it.

A run's folder is often writable by more people than may run code as the one who looks at it. So only the classes that
torch's distributed checkpoint writes are made; any other name in the pickle is an error.
"""

from __future__ import annotations

import io
import pathlib
import pickle
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata

_PLAIN = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
        "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
}  # fmt: skip
_PATHS = {"PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath", "Path"}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module == "torch" and "." not in name:
            value = getattr(torch, name, None)
            if value is torch.Size or isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
                return value
        if module in {"pathlib", "pathlib._local"} and name in _PATHS:
            return pathlib.PurePosixPath
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a checkpoint's metadata")


def _member(owner: Any, name: Any) -> Any:
    """A member of an enumeration, which Python 3.11.0 to 3.11.3 pickle as its attribute."""
    if owner is not _MEM_FORMAT_ENCODING or name not in _MEM_FORMAT_ENCODING.__members__:
        raise pickle.UnpicklingError(f"{name!r} of {owner!r} does not belong into a checkpoint's metadata")
    return _MEM_FORMAT_ENCODING[name]


def read(content: bytes) -> Metadata:
    """The metadata in these bytes; `pickle.UnpicklingError` where they name anything else."""
    metadata = _Restricted(io.BytesIO(content)).load()
    if not isinstance(metadata, Metadata):
        raise pickle.UnpicklingError(f"a {type(metadata).__name__}, not a checkpoint's metadata")
    return metadata
