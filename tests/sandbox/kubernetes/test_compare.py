from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.kubernetes.conformance import compare
from hyperpod_ray_sandbox.kubernetes.conformance.runner import cases


def test_agreement_and_disagreement(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(iter(cases()))
    words = ["local", "conformance", "--kubeconfig", str(cluster.server["kubeconfig"]), "--only", case.name]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 requests to the embedded API v1.")
    assert said.endswith(f" at {cluster.server['url']}: 0 disagreements\n")
    wrong = dataclasses.replace(case, name=f"{case.name} but wrong")
    monkeypatch.setattr(compare, "cases", lambda: [wrong])
    monkeypatch.setattr(compare, "run", lambda _client, _case: "got 200")
    assert main(words) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{wrong.name}: got 200"
    assert lines[1].startswith("1 requests to ") and lines[1].endswith(": 1 disagreements")
