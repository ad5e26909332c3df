"""The review inside `deploy`: what it compares with, when it stops, and which command it names."""

from __future__ import annotations

import pytest

from hyperpod_ray.cli import deploy
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import needs
from hyperpod_ray.ops.errors import CONDITION_FALSE


def test_what_is_not_recorded_is_named_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message for all of it, digests first; nothing is synthesized, and AWS is not called."""
    monkeypatch.setattr(needs, "image_lock", lambda *_: {})
    monkeypatch.setattr(deploy, "assembly", lambda *_, **__: pytest.fail("synthesized"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert main(["deploy", "prod"]) == CONDITION_FALSE
    said = capsys.readouterr().err
    assert said.count("prod cannot be deployed yet: no digest recorded for nvcr.io/nvidia/k8s-device-plugin") == 1
    assert "Fix: hyperpod-ray image pin; then commit " in said
    assert "Traceback" not in said
