"""Every printed fix that a program can follow is followed: what it is for is then no longer said."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import Problem
from tests.core.environment_files import Case, changed, judged
from tests.core.test_environment_checks import CASES

Place = tuple[str | int, ...]
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|([^.\[\]]+)")
_VALUE = r"(?P<value>\[.*?\]|\{.*\}|\"[^\"]*\"|'[^']*'|[^\s,;()]+)"
_SET = re.compile(rf"set (?P<name>[A-Za-z_][\w.\[\]]*): {_VALUE}")
_SET_HERE = re.compile(r"set (?P<value>\d[\w.]*|\[.*?\])(?=$|[ ,;])")
_MEANT = re.compile(r"did you mean '(?P<value>[^']+)'\?$")
_QUOTE = re.compile(r"quote it: '(?P<value>[^']*)'$")
_REMOVE = re.compile(r"remove (?P<name>it|the setting|this entry|the section|[a-z_][\w.]*)$")
REVEALS = {
    "image_serves_the_nodes": "a type of another architecture needs an image and a head of that architecture, too",
    "ultraservers_are_whole": "fewer nodes carry fewer workers",
}
"""Rules whose fix is right, and after which another rule has its turn."""
_MUCH = 105
"""Fixes that are followed, at least: fewer would mean that the reading of them broke."""


def place_of(path: str) -> Place:
    """A path of a message as keys and indexes."""
    return tuple(int(number) if number else quoted or name for number, quoted, name in _PART.findall(path))


def alternatives(fix: str) -> Iterator[str]:
    """The parts of a fix of which each is enough."""
    for part in re.split(r", or |; ", fix):
        yield part.strip()


def there(data: Any, place: Place) -> Any:
    for key in place:
        if isinstance(data, list):
            if not isinstance(key, int) or key >= len(data):
                return None
        elif not isinstance(data, dict) or key not in data:
            return None
        data = data[key]
    return data


def put(data: Any, place: Place, value: Any) -> bool:
    """Set a value; sections on the way are made."""
    for index, key in enumerate(place[:-1]):
        if isinstance(data, dict) and key not in data:
            data[key] = [] if isinstance(place[index + 1], int) else {}
        data = data[key]
        if data is None:
            return False
    data[place[-1]] = value
    return True


def remove(data: Any, place: Place) -> bool:
    if there(data, place) is None and not isinstance(there(data, place[:-1]), dict):
        return False
    for key in place[:-1]:
        data = data[key]
    if isinstance(data, dict) and place[-1] not in data:
        return False
    del data[place[-1]]
    return True


def named(data: Any, name: str, near: Place) -> Place:
    """Where a setting of that name is: a path of the file, or a neighbour of what the message is about."""
    own = place_of(name)
    if len(own) > 1 or (own[0] in data and own[0] not in ("eks", "ray", "storage")):
        return own
    if near and near[-1] == own[0]:
        return near
    for end in range(len(near), -1, -1):
        section = there(data, near[:end])
        if isinstance(section, dict) and (own[0] in section or end == len(near) - 1 or end == len(near)):
            return (*near[:end], *own)
    return own


def followed(data: dict[str, Any], problem: Problem, part: str) -> dict[str, Any] | None:  # noqa: PLR0911
    """The file after one alternative of a fix; None where a program cannot follow it."""
    data = copy.deepcopy(data)
    here = place_of(problem.path)
    if match := _MEANT.match(part):
        if problem.what == "unknown setting":
            section = there(data, here[:-1])
            section[match["value"]] = section.pop(here[-1])
            return data
        return data if put(data, here, match["value"]) else None
    if match := _QUOTE.match(part):
        return data if put(data, here, match["value"]) else None
    if match := _SET.match(part):
        value = yaml.safe_load(match["value"])
        return data if put(data, named(data, match["name"], here), value) else None
    if match := _SET_HERE.match(part):
        return data if put(data, here, yaml.safe_load(match["value"])) else None
    if match := _REMOVE.match(part):
        name = match["name"]
        itself = name in {"it", "the setting", "this entry", "the section"}
        return data if remove(data, here if itself else named(data, name, here)) else None
    return None


def _said(data: dict[str, Any]) -> list[Problem]:
    return judged(yaml.safe_dump(data, sort_keys=False))[1]


def _followable(case: Case) -> Iterator[tuple[Problem, str, dict[str, Any]]]:
    data = changed(case.trips)
    for problem in _said(data):
        if problem.path != case.path:
            continue
        for part in alternatives(problem.fix):
            if (fixed := followed(data, problem, part)) is not None and fixed != data:
                yield problem, part, fixed


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.path}")
def test_a_fix_that_is_followed_works(case: Case) -> None:
    for problem, part, fixed in _followable(case):
        before = {(other.path, other.what) for other in _said(changed(case.trips))} - {(problem.path, problem.what)}
        worse = [
            str(other) for other in _said(fixed) if other.severity == "error" and (other.path, other.what) not in before
        ]
        if case.rule in REVEALS:
            worse = [line for line in worse if f" {problem.path}: " in line]
        assert not worse, f"{problem}\nfollowed: {part}\nthen: {worse}"


def test_many_fixes_can_be_followed() -> None:
    assert sum(len(list(_followable(case))) for case in CASES) >= _MUCH
