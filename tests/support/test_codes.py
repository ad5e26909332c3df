"""A refusal with another exit code than the recorded one is noticed, and the record is of no function that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.ops import errors, output
from hyperpod_ray.ops.errors import CONDITION_FALSE, OpsError
from tests.support import codes


def test_no_record_is_of_nothing() -> None:
    assert set(codes.recorded()) == set(codes.today()), "Fix: make records"
    documented = {str(value) for name, value in vars(errors).items() if name.isupper() and type(value) is int}
    assert set().union(*codes.recorded().values()) <= documented | {codes.ANY}


def test_another_code_is_noticed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    judge: Any = request.config.pluginmanager.get_plugin("codes")
    monkeypatch.setattr(output, "interactive", lambda: False)
    with pytest.raises(OpsError):
        output.confirm("sure?", yes=False)
    assert judge.found == []
    monkeypatch.setattr(output, "BAD_USE", CONDITION_FALSE)
    with pytest.raises(OpsError):
        output.confirm("sure?", yes=False)
    assert judge.found == ["hyperpod_ray.ops.output.confirm: exit code 3, which codes.txt does not have"]
    judge.found.clear()


def test_a_refusal_of_a_test_is_nobodys() -> None:
    assert codes.name_of(None) == ""
    OpsError("x", expected="", fix="", code=77)
