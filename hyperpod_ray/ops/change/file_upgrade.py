"""`env upgrade`: an environment file of an older version, changed for this one."""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

from hyperpod_ray.core import upgrade as upgrades
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.loader import (
    EnvironmentFileError,
    Problem,
    located_flaw,
    named,
    parse_any,
    relative,
    text_of,
)
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.core.shapes import SEMANTIC_VERSION
from hyperpod_ray.core.version import __version__, release
from hyperpod_ray.core.yaml_source import YamlError, read
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError


def upgrade(path: Path, *, since: str, write: bool) -> int:
    """Show what an older file needs, and write it where that is asked for.

    Args:
        path: The environment file.
        since: The version that it is written for. Empty: the file says it.
        write: Write the upgraded text.

    Raises:
        EnvironmentFileError: The file cannot be changed, or something is left to change by hand.
        OpsError: The version is none, or not known.
    """
    file, name = relative(path), path.stem
    named(name, file=file)
    text = text_of(path, name=name, folder=path.parent, file=file)
    version = _version(text, since=since, path=path)
    upgraded = upgrades.upgraded(text, since=version, file=file)
    if upgraded.text == text:
        output.write_line(f"{file}: nothing to change for {__version__}")
    else:
        before, after = text.splitlines(keepends=True), upgraded.text.splitlines(keepends=True)
        new_name = f"{file} for {__version__}"
        output.write_text("".join(difflib.unified_diff(before, after, f"{file} for {version}", new_name)))
        for change in upgraded.changes:
            output.write_line(upgrades.sentence(change))
    if upgraded.destroy_first:
        output.log(
            f"note: destroy the environment with {version} before you deploy it with {__version__}: "
            "an upgrade in place would replace its network and its data"
        )
    if write and upgraded.text != text:
        _write(path, upgraded.text, file=file)
        output.log(f"wrote {file}")
    repository = Repository.around(name, folder=path.parent)
    try:
        parse_any(upgraded.text, name=name, path=path, repository=repository)
    except EnvironmentFileError as error:
        if not write and upgraded.text != text:
            output.log("lines below are those of the changed file")
        raise EnvironmentFileError(error.problems) from None
    if write:
        output.log(f"next: {PROGRAM} env check {name}; {PROGRAM} review {name} --deployed")
    elif upgraded.text != text:
        option = f" --from {version}" if since else ""
        output.log(f"nothing was written. next: {PROGRAM} env upgrade {shlex.quote(relative(path))}{option} --write")
    return OK


def _version(text: str, *, since: str, path: Path) -> str:
    """The version that a file is written for, as the command line or the file says it."""
    recorded, line = _recorded(text, path=path)
    version = since or recorded
    releases = ", ".join(upgrades.RELEASES[:-1])
    if not version:
        raise OpsError(
            f"{relative(path)} does not say which version it is written for",
            expected=f"--from with one of {releases}",
            fix=f"{PROGRAM} env upgrade {shlex.quote(relative(path))} --from {upgrades.RELEASES[-2]}",
            code=BAD_USE,
        )
    if not re.fullmatch(SEMANTIC_VERSION.pattern, version):
        raise OpsError(f"'{version}' is no version", expected=f"one of {releases}", fix="--from VERSION", code=BAD_USE)
    if release(version) > release(__version__):
        fix = f"install {PROGRAM} {version} or newer"
        message = Message(f"{version}, and this is {PROGRAM} {__version__}", expected="an older version", fix=fix)
        raise EnvironmentFileError([_problem(message, path=path, line=line)])
    if release(version) < release(upgrades.RELEASES[0]):
        raise OpsError(f"'{version}' was no release", expected=f"one of {releases}", fix="--from VERSION", code=BAD_USE)
    return version


def _problem(message: Message, *, path: Path, line: int) -> Problem:
    return located_flaw(YamlError(line, ("written_for",), message), file=relative(path))


def _recorded(text: str, *, path: Path) -> tuple[str, int]:
    """What `written_for` says, and its line; empty where the file does not say it.

    Raises:
        EnvironmentFileError: The file cannot be read, such as after a merge that left conflict markers in it.
    """
    root, flaws = read(text)
    if flaws:
        raise EnvironmentFileError([located_flaw(flaw, file=relative(path)) for flaw in flaws])
    data = root.data() if root is not None and root.kind == "mapping" else {}
    version = data.get("written_for")
    return (version if isinstance(version, str) else "", root.line_of(("written_for",)) if root is not None else 1)


def _write(path: Path, text: str, *, file: str) -> None:
    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    try:
        path.write_text(mark + text, encoding="utf-8", newline="")
    except OSError as error:
        raise OpsError(
            f"{file} cannot be written: {(error.strerror or str(error)).lower()}",
            expected="a file that you may write",
            fix="correct its permissions",
            code=BAD_USE,
        ) from error
