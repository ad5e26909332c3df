"""The handler of a custom resource, with a client whose answers botocore's own model accepts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import boto3
import pytest
from botocore.stub import Stubber

HANDLERS = Path(__file__).resolve().parents[2] / "constructs/handlers"


@contextmanager
def stubbed(
    name: str, service: Literal["ec2", "fsx", "sagemaker"], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ModuleType, Stubber]]:
    """The handler's module, and the stub of its client: every answer that was added must be asked for."""
    spec = importlib.util.spec_from_file_location(name, HANDLERS / name / "index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    client: Any = boto3.client(service, region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(boto3, "client", lambda _: client)
    with Stubber(client) as stub:
        yield module, stub
        stub.assert_no_pending_responses()
