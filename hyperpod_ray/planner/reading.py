"""Reads the files that a user names. A file that is too large, too deep or no mapping is refused before it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from hyperpod_ray.planner import PlanError

MOST_BYTES = 1_000_000
"""No configuration of a model, record of interruptions or report is larger."""
MOST_YAML = 10_000
DEEPEST = 50
HANDED_OVER = (Path("/dev/fd"), Path("/proc/self/fd"))
"""Where a shell puts the pipes of `<(…)`."""


def json_object(path: Path, *, option: str, fix: str) -> dict[str, Any]:
    """The object of a JSON file.

    Args:
        path: The file.
        option: Option that names it, for the message.
        fix: What the user does about a wrong file.

    Raises:
        PlanError: It cannot be read, is too large, or holds something else.
    """
    try:
        value = json.loads(_text(path, option=option, fix=fix))
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{option} {path}: {_first_line(error)}", expected="a JSON object", fix=fix) from None
    return _mapping(value, path, option=option, fix=fix, form="a JSON object")


def yaml_mapping(path: Path, *, option: str, fix: str) -> dict[str, Any]:
    """The mapping of a YAML file; see `json_object`. Anchors are refused: they can expand without bound."""
    text = _text(path, option=option, fix=fix)
    if len(text) > MOST_YAML or text.count("{") + text.count("[") > DEEPEST:
        # the parser's time grows with the square of both
        raise PlanError(
            f"{option} {path}: {len(text):,} characters, or more than {DEEPEST} braces and brackets",
            expected=f"a mapping of a few lines, at most {MOST_YAML:,} characters",
            fix=fix,
        )
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise PlanError(f"{option} {path}: it has an alias", expected="plain values", fix=fix)
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PlanError(f"{option} {path}: {_first_line(error)}", expected="a YAML mapping", fix=fix) from None
    return _mapping(value, path, option=option, fix=fix, form="a YAML mapping")


def _text(path: Path, *, option: str, fix: str) -> str:
    try:
        with opened(path) as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise PlanError(f"{option} {path}: {_first_line(error)}", expected="a text file", fix=fix) from None
    raise PlanError(
        f"{option} {path}: more than {MOST_BYTES / 1e6:.0f} MB", expected=f"at most {MOST_BYTES / 1e6:.0f} MB", fix=fix
    )


def opened(path: Path) -> BinaryIO:
    """A file to read, or what a shell hands over as one (`<(…)`); no pipe whose writer may never come.

    Raises:
        OSError: It cannot be read, or is a pipe, a socket or a device.
    """
    # opening a named pipe waits for a writer, who may never come
    if not path.is_file() and path.parent not in HANDED_OVER:
        path.stat()  # says what is missing, or that links go in circles
        raise OSError(f"{'a folder' if path.is_dir() else 'a pipe or a device'} and no file")
    return path.open("rb")


def _mapping(value: Any, path: Path, *, option: str, fix: str, form: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanError(f"{option} {path}: it holds {_form_of(value)}", expected=form, fix=fix)
    return value


def _form_of(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "nothing")


def _first_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return (str(error).splitlines() or [type(error).__name__])[0]


def number(value: Any, *, name: str, low: float, high: float, fix: str, integer: bool = False) -> float:
    """A finite number between two bounds.

    Args:
        value: What the user gave.
        name: Option or setting, with its file where it has one.
        low: Smallest allowed value.
        high: Largest allowed value.
        fix: What the user does about a wrong value.
        integer: Whether a fraction is refused.

    Raises:
        PlanError: It is no such number.
    """
    bounds = f"{'a whole number' if integer else 'a number'} from {_shown(low)} to {_shown(high)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlanError(f"{name}: {str(value)[:60]}", expected=bounds, fix=fix)
    if not low <= value <= high or (integer and value != int(value)):
        raise PlanError(f"{name}: {_shown(value)}", expected=bounds, fix=fix)
    return float(value)


def _shown(value: float) -> str:
    """A number in few characters, also where it has a thousand digits."""
    if isinstance(value, int) and abs(value) >= 10**15:
        digits = len(f"{value:x}") * 1.2041
        return f"about {'-' if value < 0 else ''}10^{digits - 1:.0f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
