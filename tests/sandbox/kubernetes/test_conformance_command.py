"""`hyperpod-ray local conformance`: what it prints and its exit codes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cli.main import main
from sandbox.kubernetes.conformance import compare
from sandbox.kubernetes.conformance.runner import cases


def test_agreement_and_disagreement(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(iter(cases()))
    words = ["local", "conformance", "--kubeconfig", str(cluster.server["kubeconfig"]), "--only", case.name]
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(", 0 disagreements\n")
    wrong = dataclasses.replace(case, name=f"{case.name} but wrong")
    monkeypatch.setattr(compare, "cases", lambda: [wrong])
    monkeypatch.setattr(compare, "run", lambda _client, _case: "got 200")
    assert main(words) == 3
    assert capsys.readouterr().out == f"{wrong.name}: got 200\n1 requests, 1 disagreements\n"


def test_no_server_is_bad_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["local", "conformance"]) == 2
    assert "--kubeconfig" in capsys.readouterr().err
