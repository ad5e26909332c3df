"""Every option of every command reaches what the command calls, and what is called is what `calls.txt` records."""

from __future__ import annotations

import itertools
from typing import Any

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


def test_a_default_that_changes_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    command: Any = COMMANDS["local rehearse"]
    option = next(param for param in command.params if param.name == "step_delay")
    monkeypatch.setattr(option, "default", 0.2)
    assert said_calls.lines_of("local rehearse", command) != said_calls.recorded()["local rehearse"]
