"""Every printed fix that a program can follow is followed: what it is for is then no longer said."""

from __future__ import annotations

import copy
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import EnvironmentFileError, Problem, parse_any
from hyperpod_ray_rules.data import read
from tests.core.environment_files import DUMPER, GONE, SLURM, changed
from tests.core.followed_fixes import FOLLOWED, LARGER, LOWER, NOT_FOLLOWED, RAISE, Edits
from tests.core.slurm_files_helpers import CASES as SLURM_CASES
from tests.core.test_environment_checks import CASES

Place = tuple[str | int, ...]
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|([^.\[\]]+)")
_VALUE = r"(?P<value>\[.*?\]|\{.*\}|\"[^\"]*\"|'[^']*'|[^\s,;()]+)"
_SET = re.compile(rf"set (?P<name>[A-Za-z_][\w.\[\]]*): {_VALUE}")
_SET_HERE = re.compile(r"set (?P<value>\d[\w.]*|\[.*?\])(?=$|[ ,;])")
_MEANT = re.compile(r"did you mean '(?P<value>[^']+)'\?$")
_QUOTE = re.compile(r"quote it: '(?P<value>[^']*)'$")
_REMOVE = re.compile(r"remove (?P<name>it|the setting|this entry|the section|[a-z_][\w.]*)$")
STEPS = 3
"""Fixes that may follow from a fix, until the file is good."""
TRIES = 8


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
    return list(_said_of(yaml.dump(data, Dumper=DUMPER, sort_keys=False)))


@functools.cache  # several fixes lead to the same file
def _said_of(text: str) -> tuple[Problem, ...]:
    try:
        return tuple(parse_any(text, name="test", path=Path("environments/test.yaml")).warnings)
    except EnvironmentFileError as error:
        return (*error.problems, *error.warnings)


def _place(text: str, data: dict[str, Any], here: Place) -> Place:
    """A place of a row of `FOLLOWED`; see there."""
    up = len(text) - len(text.lstrip("."))
    keys: list[str | int] = list(here[: len(here) - up + 1]) if up else []
    for key in text[up:].split(".") if text[up:] else []:
        if key == "{group}":
            keys.append(_group(data, here))
        elif key == "+":
            keys.append(len(there(data, tuple(keys)) or []))
        else:
            keys.append(int(key) if key.isdigit() and isinstance(there(data, tuple(keys)), list) else key)
    return tuple(keys)


def _group(data: dict[str, Any], here: Place) -> int:
    """Index of the instance group that a message is about: its own, or the one of its pod."""
    if here[:2] == ("hyperpod", "instance_groups") and len(here) > 2:
        return int(here[2])
    for end in range(len(here), 0, -1):
        section = there(data, here[:end])
        for key in ("instance_group", "driver_instance_group"):
            if isinstance(section, dict) and key in section:
                names = [group["name"] for group in data["hyperpod"]["instance_groups"]]
                return names.index(section[key])
    raise AssertionError(f"no instance group at {here}")


def _values(value: Any, now: Any, words: re.Match[str]) -> list[Any]:
    """What a reader may write for a value of a row."""
    if value in (LOWER, RAISE) and not isinstance(now, int | float):
        return []
    if value is LOWER:
        return sorted({0, 1, *(int(now // divisor) for divisor in (2, 4, 10, 50)), now - 1, now - 2}, reverse=True)
    if value is RAISE:
        return [now + 1, now + 2, 2 * now + 1, 4 * now + 4, 64]
    if value is LARGER:
        return [name for name in sorted(read("instance_types.yaml")) if name != now]
    if isinstance(value, str):
        filled = _filled(value, words)
        return [yaml.safe_load(filled) if filled != value and filled.startswith("{") else filled]
    return [{_filled(key, words): inner for key, inner in value.items()} if isinstance(value, dict) else value]


def _filled(text: str, words: re.Match[str]) -> str:
    """With words of the fix itself where the row has their number."""
    return re.sub(r"\{(\d)\}", lambda number: words[int(number[1])] or "", text)


def _rename(data: dict[str, Any], here: Place, name: str) -> None:
    section = there(data, here[:-1])
    section[name] = section.pop(here[-1])


def written(data: dict[str, Any], here: Place, edits: Edits, words: re.Match[str]) -> Iterator[dict[str, Any]]:
    """The files that one row's edits may come to; none where a place is not there."""
    edits = {_filled(key, words): value for key, value in edits.items()}
    keys = [key for key in edits if key != "rename"]
    places = {key: _place(key, data, here) for key in keys}
    choices: list[list[Edits]] = [
        [{}] if key == "rename" else [{key: value} for value in _values(edits[key], there(data, places[key]), words)]
        for key in edits
    ]
    for choice in itertools.product(*choices):
        after = copy.deepcopy(data)
        if "rename" in edits:
            _rename(after, here, _filled(edits["rename"], words))
        for key, value in {name: value for part in choice for name, value in part.items()}.items():
            place = places[key]
            if value is GONE:
                remove(after, place)
                continue
            section = there(after, place[:-1])
            if isinstance(section, list) and place[-1] == len(section):
                section.append(copy.deepcopy(value))
            elif section is None or isinstance(section, dict | list):
                put(after, place, copy.deepcopy(value))
        if after != data:
            yield after


def readings(data: dict[str, Any], problem: Problem, part: str) -> Iterator[dict[str, Any]]:
    """Each file that a reader of this alternative may come to."""
    if (fixed := followed(data, problem, part)) is not None and fixed != data:
        yield fixed
        return
    for pattern, rows in FOLLOWED.items():
        if words := re.fullmatch(pattern, part):
            for edits in rows:
                yield from written(data, place_of(problem.path), edits, words)
            return


def _plain(text: str) -> str:
    """A message without its values."""
    return re.sub(r"'[^']*'|\bml\.[\w.-]+|[\d.,]+", "*", text)


def _known(said: list[Problem]) -> set[tuple[str, str]]:
    return {(problem.path, _plain(problem.what)) for problem in said}


def _new_errors(data: dict[str, Any], known: set[tuple[str, str]]) -> list[Problem]:
    return [other for other in _said(data) if other.severity == "error" and not _known([other]) & known]


def _ends(data: dict[str, Any], known: set[tuple[str, str]], steps: int) -> list[str]:
    """Errors that are left of those that a fix brought up, when their own fixes are followed in turn."""
    new = _new_errors(data, known)
    if not new or not steps:
        return [str(problem) for problem in new]
    for part in alternatives(new[0].fix):
        for fixed in itertools.islice(readings(data, new[0], part), TRIES):
            if not _ends(fixed, known | _known(new[:1]), steps - 1):
                return []
    return [str(problem) for problem in new]


def _fails(before: list[Problem], problem: Problem, fixed: dict[str, Any]) -> list[str]:
    """What is said after the fix: the same again, or an error that leads nowhere."""
    again = [other for other in _said(fixed) if _known([other]) == _known([problem])]
    return [str(other) for other in again] or _ends(fixed, _known(before), STEPS)


_FILES = [
    *(((case.rule, changed(case.trips)), case) for case in CASES),
    *(((case.rule, changed(case.trips, of=SLURM)), case) for case in SLURM_CASES),
]
_EVERY = [
    (rule, data, problem, part)
    for (rule, data), case in _FILES
    for problem in _said(data)
    if problem.path == case.path and case.says in problem.message
    for part in alternatives(problem.fix)
]


@pytest.mark.parametrize(
    ("data", "problem", "part"), [row[1:] for row in _EVERY], ids=[f"{row[0]}-{row[3][:40]}" for row in _EVERY]
)
def test_a_fix_that_is_followed_works(data: dict[str, Any], problem: Problem, part: str) -> None:
    """One of the files that the fix may come to says neither the same again nor anything worse."""
    if any(re.fullmatch(pattern, part) for pattern in NOT_FOLLOWED):
        return
    before, tries = _said(data), []
    for fixed in readings(data, problem, part):
        if not (fails := _fails(before, problem, fixed)):
            return
        tries.append(fails)
    assert tries, f"nobody follows this fix: {part!r}\n{problem}"
    raise AssertionError(f"{problem}\nfollowed: {part}\nthen: {tries[:3]}")


def test_every_row_is_of_a_fix() -> None:
    parts = {part for *_, part in _EVERY}
    unused = [row for row in (*FOLLOWED, *NOT_FOLLOWED) if not any(re.fullmatch(row, part) for part in parts)]
    assert not unused
