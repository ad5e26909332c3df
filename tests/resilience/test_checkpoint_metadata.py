"""A checkpoint's `.metadata` is a pickle that somebody else may have written: reading it runs nothing."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata, TensorProperties

from hyperpod_ray_training import metadata


def test_what_is_allowed_is_no_function_that_does_anything() -> None:
    for module, names in metadata._PLAIN.items():
        for name in names:
            value = getattr(__import__(module, fromlist=[name]), name)
            assert isinstance(value, type) or (module, name) == ("torch.serialization", "_get_layout")


def test_a_checkpoint_of_debians_python_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.0 to 3.11.3, which Debian 12 has, pickle a member of an enumeration as its class's attribute."""
    written = Metadata({}, {"format": TensorProperties(memory_format=torch.contiguous_format)})
    monkeypatch.setattr(_MEM_FORMAT_ENCODING, "__reduce_ex__", lambda member, _: (getattr, (type(member), member.name)))
    content = pickle.dumps(written)
    assert b"getattr" in content
    assert metadata.read(content) == written
