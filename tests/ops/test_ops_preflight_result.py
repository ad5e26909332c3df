"""The exit code of `preflight`: what failed and what nobody could answer both count."""

from __future__ import annotations

import json

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK
from hyperpod_ray.ops.orchestrators.check import Check, Result
from hyperpod_ray.ops.orchestrators.eks import way
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (["ok"], OK),
        (["ok", "warning", "skipped"], OK),
        (["ok", "failed"], CONDITION_FALSE),
        (["ok", "unknown"], CONDITION_FALSE),
    ],
)
def test_only_what_is_known_to_be_good_passes(
    results: list[Result], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "_offline", lambda _: [])
    monkeypatch.setattr(preflight, "_online", lambda _: [Check(check=result, result=result) for result in results])
    monkeypatch.setattr(way, "way", lambda _: [])  # depends on what this machine has installed
    assert preflight.run(Target(load("dev")), offline=False, form=Format.json) == code
    assert json.loads(capsys.readouterr().out)["passed"] is (code == OK)
