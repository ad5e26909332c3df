"""The page of JSON documents has every kind that a command writes, and a difference is noticed."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops import output
from tests.support import documents

ROOMS = documents.PAGE.parents[2] / "hyperpod_ray"


def written_kinds() -> set[str]:
    """The first argument of each call that writes a document."""
    texts = [file.read_text(encoding="utf-8") for file in ROOMS.rglob("*.py")]
    writing = (text for text in texts if "write_json(" in text or "json_text(" in text)
    calls = (node for text in writing for node in ast.walk(ast.parse(text)))
    return {
        str(call.args[0].value)
        for call in calls
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("write_json", "json_text")
        and isinstance(call.args[0], ast.Constant)
    }


def test_the_page_has_every_kind_and_no_other() -> None:
    assert set(documents.published()) == written_kinds()


BEST: dict[str, Any] = dict.fromkeys(("environment", "run", "metric", "mode", "value", "step", "path", "bytes"), 1)
RUNS: dict[str, Any] = {"environment": "e", "runs": []}


@pytest.mark.parametrize(
    ("kind", "document", "said"),
    [
        ("best", BEST, []),
        ("best", {**BEST, "size": 1}, ["best: document: 'size' is not on the page"]),
        ("best", {key: 1 for key in BEST if key != "bytes"}, ["best: document: lacks 'bytes'"]),
        ("runs", RUNS, []),
        ("frob", {}, ["documents.md has no document 'frob'"]),
        ("environment", {"environment": "e", "settings": {"a": {"b": 1}}}, []),
    ],
)
def test_a_difference_is_said(kind: str, document: dict[str, Any], said: list[str]) -> None:
    assert documents.problems(kind, document) == said


def test_names_of_a_table_are_anybodys_and_objects_in_lists_are_looked_at() -> None:
    figure = {"what": "w", "unit": "u", "source": "s", "size": 1}
    answer = {"answer": "a", "figures": [figure], "notes": [], "title": "t"}
    lines = documents.problems("plan", {"answers": {"fit": answer}})
    assert "plan: answers.*.figures[]: 'size' is not on the page" in lines
    assert not any("'fit'" in line for line in lines)


def test_each_document_of_a_command_is_looked_at(request: pytest.FixtureRequest, capsys: Any) -> None:
    judge: Any = request.config.pluginmanager.get_plugin("documents")
    output.write_json("best", {**BEST, "size": 1})
    assert judge.found == ["best: document: 'size' is not on the page"]
    judge.found.clear()
    assert '"size": 1' in capsys.readouterr().out


def test_a_slow_test_is_warned_and_any_other_fails() -> None:
    slow: Any = SimpleNamespace(get_closest_marker=lambda name: name == "slow")
    quick: Any = SimpleNamespace(get_closest_marker=lambda _: None)
    with pytest.warns(UserWarning, match="'size' is not on the page"):
        documents.tell(slow, ["best: document: 'size' is not on the page"])
    with pytest.raises(pytest.fail.Exception, match="'size' is not on the page"):
        documents.tell(quick, ["best: document: 'size' is not on the page"])
