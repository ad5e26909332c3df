"""Every option of every command reaches what the command calls, and what is called is what `calls.txt` records."""

from __future__ import annotations

import itertools

import pytest

from hyperpod_ray.cli.main import tree
from tests.cli import said_calls

COMMANDS = {path: command for path, command in said_calls.leaves(tree()) if path not in said_calls.ELSEWHERE}
WITHOUT_A_CALL = {
    "review --out": "the report goes to a file",
    "runs pull --last": "it is the default",
}
"""Options that change no call, and why."""


@pytest.mark.parametrize("path", COMMANDS)
def test_the_calls_of_a_command_are_those_of_the_record(path: str) -> None:
    today = said_calls.lines_of(path, COMMANDS[path])
    assert today == said_calls.recorded().get(path), "Fix: correct the command, or make records"


def test_no_option_is_ignored() -> None:
    """The record has a line "the same" where an option changes no call: somebody typed it for nothing."""
    ignored = [
        f"{path} {option.split()[0]}"
        for path, lines in said_calls.recorded().items()
        for option, line in itertools.pairwise(lines)
        if line.strip() == "the same"
    ]
    assert sorted(ignored) == sorted(WITHOUT_A_CALL), "each needs its reason above"


def test_no_record_is_of_nothing() -> None:
    assert set(said_calls.recorded()) == set(COMMANDS)
    listed = {path for path, _ in said_calls.leaves(tree())}
    assert set(said_calls.ELSEWHERE) <= listed
    for file in said_calls.ELSEWHERE.values():
        assert (said_calls.FILE.parents[2] / file).is_file(), file


def test_what_an_option_changes_is_a_line() -> None:
    plain = [said_calls.Call("f", ("'x'", "a=1", "b=2")), said_calls.Call("g")]
    for own, lines in (
        (plain, []),
        ([said_calls.Call("f", ("'x'", "a=2", "b=2")), said_calls.Call("g")], ["f: a=2"]),
        ([said_calls.Call("f", ("'x'", "a=1")), said_calls.Call("g")], ["f: without b=2"]),
        ([said_calls.Call("f", ("'y'", "a=1", "b=2")), said_calls.Call("g")], ["f: 'y', without 'x'"]),
        ([plain[0], said_calls.Call("h", ("c=3",))], ["h(c=3)", "no g"]),
    ):
        assert list(said_calls._differing(plain, own)) == lines


ANYWHERE = {"completion", "data", "env new", "init"}
"""Commands that need no project, and whose tests are elsewhere."""


@pytest.mark.parametrize("path", [path for path, _ in said_calls.leaves(tree()) if path not in ANYWHERE])
def test_in_an_empty_folder_a_command_says_what_is_missing(path: str) -> None:
    """A failure without an explanation is raised here: the command would call it an internal error."""
    command = dict(said_calls.leaves(tree()))[path]
    words = [*path.split(), *said_calls._required(command), *said_calls.WITH.get(path, [])]
    ends = [call.arguments for call in said_calls.calls(words, empty=True) if call.name == "exit"]
    assert all(code in ("2", "3") and message for code, message in ends), ends
