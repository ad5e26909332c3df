"""Node.js runs without a Python program around it, which would print a traceback at Ctrl-C."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperpod_ray.stacks.app import use_pinned_node


def test_node_is_the_program_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JSII_NODE", raising=False)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    use_pinned_node()
    with Path(os.environ["JSII_NODE"]).open("rb") as program:
        assert program.read(2) != b"#!"


def test_another_node_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/opt/node/bin/node")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    use_pinned_node()
    assert os.environ["JSII_NODE"] == "/opt/node/bin/node"
