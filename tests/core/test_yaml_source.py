"""Files as `yaml_source` reads them: the same data as YAML's own readers, with lines; what is refused, and where."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.yaml_source import Node, read

SCALARS: dict[str, Any] = {
    "7": 7, "-7": -7, "+7": 7, "0": 0, "1.5": 1.5, "-.5": -0.5, "5.": 5.0, "1e3": 1000.0, "1.5E-2": 0.015,
    ".inf": math.inf, "-.Inf": -math.inf, "~": None, "null": None, "Null": None, "": None, "true": True, "Yes": True,
    "on": True, "off": False, "NO": False, "False": False, "yess": "yess", "y": "y", "nul": "nul", "1.2.3": "1.2.3",
    "7 GiB": "7 GiB", "usw2-az1": "usw2-az1", "'7'": "7", '"true"': "true", "'~'": "~", "''": "",
    "'2026-11-21'": "2026-11-21", '"0x1F"': "0x1F", '"a\\tb"': "a\tb",
}  # fmt: skip


@pytest.mark.parametrize("text", SCALARS)
def test_a_scalar_is_what_yaml_says(text: str) -> None:
    """https://yaml.org/type/ for YAML 1.1, where it and 1.2 agree. PyYAML takes `1e3` and `-.5` for text."""
    root, flaws = read(f"a: {text}\n")
    assert flaws == []
    assert root is not None and root.data() == {"a": SCALARS[text]}
    assert type(root.data()["a"]) is type(SCALARS[text])
    if text not in ("1e3", "-.5"):
        assert yaml.safe_load(f"a: {text}\n") == {"a": SCALARS[text]}


def test_not_a_number_is_one() -> None:
    root, flaws = read("a: .nan\n")
    assert flaws == [] and root is not None and math.isnan(root.data()["a"])


TEXT = """\
# a comment
account: "000000000001"

network:
  zones: [a, b]
groups:
  - name: head
    count: 2

  - {name: workers, count: 3}
empty:
"""
LINES = {
    (): 2, ("account",): 2, ("network",): 4, ("network", "zones"): 5, ("network", "zones", 1): 5, ("groups",): 6,
    ("groups", 0): 7, ("groups", 0, "count"): 8, ("groups", 1): 10, ("groups", 1, "name"): 10, ("empty",): 11,
    # what is not there is pointed at by what is around it
    ("network", "cidr"): 4, ("groups", 7, "name"): 6, ("groups", "name"): 6, ("nothing", "at", "all"): 2,
    ("groups", -1): 6, ("account", 0): 2,
}  # fmt: skip


def whole() -> Node:
    root, flaws = read(TEXT)
    assert flaws == [] and root is not None
    return root


@pytest.mark.parametrize("path", LINES)
def test_each_piece_has_its_line(path: tuple[str | int, ...]) -> None:
    assert whole().line_of(path) == LINES[path]


def test_pieces_are_found_by_their_path() -> None:
    root = whole()
    assert root.data() == yaml.safe_load(TEXT)
    account, name = root.at(("account",)), root.at(("groups", 0, "name"))
    assert account is not None and (account.kind, account.quoted, account.text) == ("scalar", True, "000000000001")
    assert name is not None and (name.value, name.quoted) == ("head", False)
    assert root.at(()) is root
    for path in (("groups", 2), ("groups", -1), ("groups", "x"), ("network", 0), ("none",), ("account", "x")):
        assert root.at(path) is None
    assert root.keys == {"account": 2, "network": 4, "groups": 6, "empty": 11}


TABS = "not valid YAML: a tab in the indentation"
PAIRED = "look for a missing ':', quote or bracket, or an indentation that differs from its neighbours"
TO_READERS = "means different things to different YAML readers"
DECIMAL = "a plain decimal number, or text in quotes"
FLAWS: dict[str, tuple[str, int, tuple[str | int, ...], str, str, str]] = {
    "an alias": ("a: &x 1\nb: *x\n", 2, ("b",), "alias *x", "no aliases in environment files", "write the value out"),
    "an anchor": ("a:\n  b: &x 1\n", 2, ("a", "b"), "anchor &x", "no anchors in environment files", "remove it"),
    "a tag": ("a: !!int 3\n", 1, ("a",), "tag !!int", "no tags in environment files", "remove it"),
    "a tag of its own": ("a: !x 3\n", 1, ("a",), "tag !x", "no tags in environment files", "remove it"),
    "a merge key": ("a: {b: 1}\n<<: {c: 1}\n", 2, (), "merge key <<", "no merge keys in environment files",
                    "write the settings out"),
    "a second document": ("a: 1\n---\nb: 1\n", 2, (), "a second document starts here ('---')",
                          "one environment a file", "move it to a file of its own"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, ("a",), "set twice: first in line 1", "one value", "keep one"),
    "a list as key": ("a: 1\n[b]: 2\n", 2, (), "a list, a mapping or an alias as key", "text", "correct the key"),
    "a key that is a boolean": ("on: 1\n", 1, ("on",), "a key that is not text in YAML: on", "text", "quote it: 'on'"),
    "a key that is a number": ("7: 1\n", 1, ("7",), "a key that is not text in YAML: 7", "text", "quote it: '7'"),
    "a key with a tag": ("!!str a: 1\n", 1, ("a",), "an anchor or tag at a key", "none in environment files",
                         "remove it"),
    "a date": ("a: 2026-11-21\n", 1, ("a",), "2026-11-21 is a date to some YAML readers", "text",
               "quote it: '2026-11-21'"),
    "an octal number": ("a:\n  - 010\n", 2, ("a", 0), f"010 {TO_READERS}", DECIMAL, "quote it if it is text: '010'"),
    "a hexadecimal number": ("a: 0x1F\n", 1, ("a",), f"0x1F {TO_READERS}", DECIMAL, "quote it if it is text: '0x1F'"),
    "underscores": ("a: 1_000\n", 1, ("a",), f"1_000 {TO_READERS}", DECIMAL, "quote it if it is text: '1_000'"),
    "base 60": ("a: 12:30\n", 1, ("a",), f"12:30 {TO_READERS}", DECIMAL, "quote it if it is text: '12:30'"),
    "nineteen digits": ("a: 1234567890123456789\n", 1, ("a",), "a number of 19 digits", "at most 18",
                        "quote it if it is text"),
    "a control character": ('a: "\\x07"\n', 1, ("a",), "character U+0007",
                            "characters that a setting can contain", "remove it"),
    "a control character in a key": ('"\\x07": 1\n', 1, (), "a control character in the key '\\x07'", "none",
                                     "remove it"),
    "a character that YAML has not": ("a: 1\nb: \x07\n", 2, (), "character U+0007", "characters that YAML allows",
                                      "remove it"),
    "a tab": ("a:\n\tb: 1\n", 2, (), TABS, "YAML", "indent with spaces"),
    "two colons": ("a: 1\nb: c: d\n", 2, (), "not valid YAML: mapping values are not allowed in this context", "YAML",
                   "quote a value that contains ': '; indent a key as its neighbours"),
    "an open quote": ('a: 1\nb: "c\n', 2, (), "not valid YAML: found unexpected end of stream", "YAML",
                      "close the open quote or bracket"),
    "an open bracket": ("a: [1,\nb: 2\n", 2, (), "not valid YAML: did not find expected ',' or ']'", "YAML", PAIRED),
    "a special character": ("a: 1\nb: @c\n", 2, (), "not valid YAML: found character that cannot start any token",
                            "YAML", "quote a value that starts with a special character (@ ` % * & !)"),
    "a merge that is not resolved": ("a: 1\n<<<<<<< mine\nb: 1\n=======\nb: 2\n>>>>>>> theirs\n", 2, (),
                                     "conflict markers of a merge", "one of the two versions", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAWS)
def test_what_could_mean_two_things_is_refused(case: str) -> None:
    text, line, path, what, expected, fix = FLAWS[case]
    _, flaws = read(text)
    first = flaws[0] if case != "an alias" else flaws[1]
    assert (first.line, first.path) == (line, path)
    assert first.message.what.startswith(what)
    assert first.message.expected == expected
    assert fix in ("", first.message.fix)
    assert first.message.fix


def test_what_a_file_of_another_kind_is_called() -> None:
    _, flaws = read("a: &x 1\n---\n", of="job")
    assert [flaw.message.expected for flaw in flaws] == ["no anchors in job files", "one job a file"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "a: [\n"])
def test_nothing_is_said_of_settings_where_there_are_none(text: str) -> None:
    root, _ = read(text)
    assert root is None or root.value is None


def test_a_file_is_as_deep_as_24_levels() -> None:
    for levels, deep in ((24, False), (25, True)):
        root, flaws = read("[" * levels + "]" * levels)
        assert root is not None
        assert [flaw.message.what for flaw in flaws] == (["nested too deep"] if deep else [])
    assert flaws[0].message.expected == "at most 24 levels"
    root, flaws = read("[" * 200 + "]" * 200)
    assert root is None and flaws[-1].message.what.endswith("nested more than 120 levels deep")
    root, flaws = read("a: [" + "[" * 30 + "]" * 30 + "]\nb: *x\n")
    assert flaws[-1].path == ("b",), "what follows is read"


def test_what_is_refused_keeps_the_rest() -> None:
    root, flaws = read('a: 010\nb: 2\na: 3\nc: "x\\x07y"\n[d]: [1, {e: 2}]\nf: 4\n')
    assert len(flaws) == 4
    assert root is not None and root.data() == {"a": "010", "b": 2, "c": "x?y", "f": 4}
