"""A part of `make fuzz` in every run: other cases than its own, and the same ones each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import fuzz

CASES = 150


@pytest.mark.slow
def test_no_hostile_case_gets_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fuzz.Cases(random.Random(29), tmp_path)
    monkeypatch.chdir(tmp_path)
    for form, given, files in every(CASES):
        fuzz.lay(tmp_path, files)
        end, said = fuzz.ended(given)
        assert fuzz.wrong(end, said, given) == "", (form, given)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (KeyError("x"), ""),
        (1, "error: internal error: KeyError"),
        (2, "Traceback (most recent call last)"),
        (2, "x\x1b[2J"),
        (2, "x\u202e"),
        (2, f"https://{fuzz.CREDENTIAL}@example.com"),
        (77, ""),
    ],
)
def test_what_is_wrong_is_called_so(end: object, said: str) -> None:
    assert fuzz.wrong(end, said, ["env", "check"])
    assert not fuzz.wrong(2, "x.yaml:1: a mistake\n\tis said", ["env", "check"])


def test_the_same_seed_makes_the_same_cases(tmp_path: Path) -> None:
    def every(seed: int) -> list[fuzz.Case]:
        return list(fuzz.Cases(random.Random(seed), tmp_path)(CASES))

    assert every(1) == every(1) != every(2)
    forms = {form.partition(":")[0].partition(" ")[0] for form, _, _ in every(1)}
    assert forms == {"file", "lock", "job", "command"}
