"""Files of a user that the planner reads: a configuration, a record, a report."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperpod_ray.planner import PlanError, reading


def file(folder: Path, text: str | bytes) -> Path:
    path = folder / "mine"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "it holds a list. Expected a JSON object"), ("3", "it holds a number"), ("true", "it holds a boolean"),
        ("null", "it holds nothing"), ("{", "Expecting property name"), ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{}", "invalid start byte"), ("x" * (reading.MOST_BYTES + 1), "more than 1 MB"),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused_at_its_option(text: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refusal:
        reading.json_object(file(tmp_path, text), option="--config", fix="give another")
    assert str(refusal.value).startswith("--config ") and words in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x 1\nb: *x\n", "it has an alias"), ("- a", "it holds a list"), ("a: [", "while parsing"),
        ("a: " + "[" * 51 + "]" * 51, "braces and brackets"), ("a: " + "x" * reading.MOST_YAML, "at most 10,000 characters"),
    ],
)  # fmt: skip
def test_yaml_that_could_grow_without_bound_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=words):
        reading.yaml_mapping(file(tmp_path, text), option="--failures", fix="give another")


def test_good_files_are_mappings(tmp_path: Path) -> None:
    assert reading.json_object(file(tmp_path, '{"a": 1}'), option="-", fix="-") == {"a": 1}
    assert reading.yaml_mapping(file(tmp_path, "a: 1\n"), option="-", fix="-") == {"a": 1}


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a pipe or a device and no file"):
        reading.opened(pipe)
    with pytest.raises(OSError, match="a folder and no file"):
        reading.opened(tmp_path)
    with pytest.raises(FileNotFoundError):
        reading.opened(tmp_path / "none")


@pytest.mark.parametrize(
    ("value", "integer", "words"),
    [
        (0, False, "0. Expected a number from 1 to 10"), (11, False, "11. Expected"), (True, False, "True. Expected"), ("5", False, "5. Expected"),
        (2.5, True, "2.5. Expected a whole number from 1 to 10"), (float("nan"), False, "nan. Expected"), (10**400, False, "about 10^4"),
    ],
)  # fmt: skip
def test_a_number_has_bounds(value: object, integer: bool, words: str) -> None:
    with pytest.raises(PlanError) as refusal:
        reading.number(value, name="--x", low=1, high=10, fix="correct it", integer=integer)
    assert words in str(refusal.value), str(refusal.value)


def test_a_good_number_is_one() -> None:
    assert reading.number(10, name="--x", low=1, high=10, fix="-", integer=True) == 10.0
    assert reading.number(2.5, name="--x", low=1, high=10, fix="-") == 2.5
