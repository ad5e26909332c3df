from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import yaml_edit
from hyperpod_ray.core.loader import EnvironmentFileError
from hyperpod_ray.core.yaml_source import read
from tests.environments.upgrade_helpers import OLD, RELEASED, label, paths, upgraded

FILES = sorted(RELEASED.glob("*/**/*.yaml"))


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[-2] != "examples"], ids=label)
def test_each_key_of_a_file_is_removed_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root, _ = read(text)
    assert root is not None
    for place in paths(root.data()):
        expected = copy.deepcopy(root.data())
        for depth in range(len(place), 0, -1):
            parent = expected
            for key in place[: depth - 1]:
                parent = parent[key]
            del parent[place[depth - 1]]
            if parent:
                break
        after, flaws = read(yaml_edit.removed(text, place))
        assert flaws == []
        assert (after.data() if after is not None else {}) == expected, place


@pytest.mark.parametrize(
    ("edit", "text", "arguments"),
    [
        ("added", "a: 1\n", (("x", "y", "z"), 1)),
        ("added", "a: [1]\n", (("a", "b"), 1)),
        ("added", "a:\n- b: 1\n", (("a", 0, "c"), 1)),
        ("added", "a: [\n", (("b",), 1)),
        ("removed", "a: [1]\n", (("a", 0),)),
        ("removed", "a:\n- b: 1\n- c: 2\n  d: 3\n", (("a", 1, "d"),)),
        ("replaced", "a: {b: 1}\n", (("a",), 2)),
        ("replaced", "a:\n", (("a",), 2)),
        ("quoted", "a: 'x'\n", (("a",),)),
        ("quoted", "a: {b: 1}\n", (("a",),)),
        ("quoted_key", "a: 1\n", (("a", "b"),)),
    ],
)
def test_what_cannot_be_edited_as_text_is_said(edit: str, text: str, arguments: tuple[Any, ...]) -> None:
    """The path is named, and nothing is written that nobody asked for."""
    try:
        after = getattr(yaml_edit, edit)(text, *arguments)
    except yaml_edit.Unchangeable as refusal:
        assert str(refusal) in {".".join(map(str, arguments[0][:end])) for end in range(1, 4)} | {"(file)"}
    else:
        assert (edit, text) == ("removed", "a:\n- b: 1\n- c: 2\n  d: 3\n")
        assert after == "a:\n- b: 1\n- c: 2\n"


def test_a_key_is_added_to_each_form_of_a_section() -> None:
    """Block, flow, empty, null, and none; what stands there keeps its place."""
    forms = {
        "a:\n  b: 1\n": "a:\n  x: 2\n  b: 1\n",
        "a: {b: 1}\n": "a: {x: 2, b: 1}\n",
        "a: {}\n": "a: {x: 2}\n",
        "a:\n": "a: {x: 2}\n",
        "a: null\n": "a: {x: 2}\n",
        "b: 1\n": "b: 1\na: {x: 2}\n",
        "b: 1": "b: 1\na: {x: 2}\n",
        "b: 1\r\n": "b: 1\r\na: {x: 2}\r\n",
    }
    assert {text: yaml_edit.added(text, ("a", "x"), 2) for text in forms} == forms


def test_an_edit_that_missed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_edit, "added", lambda text, path, value: text)
    with pytest.raises(EnvironmentFileError, match="cannot be changed as text"):
        upgraded(OLD)
