"""Reads a job file, or says everything that is wrong with it: file, line, path, value, what is allowed, fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hyperpod_ray.core import messages
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.findings import Finding, meant
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import (
    WHOLE_FILE,
    EnvironmentFileError,
    Problem,
    dotted,
    flaw_of,
    located_flaw,
    once,
    relative,
    unreadable_file,
    without_echoes,
)
from hyperpod_ray.core.shapes import SECRET_KEY
from hyperpod_ray.core.yaml_source import MAX_BYTES, Node, YamlError, read

OPTIONS = {"working_dir": "--working-dir", "gpus_per_worker": "--gpus-per-worker", "py_modules": "--py-module",
           "packages": "--package", "secrets": "--secret", "command": "-- COMMAND"}  # fmt: skip
"""Options of `submit` whose name is not the field's."""
_NONE = Node("mapping", 0)


class JobFileError(EnvironmentFileError):
    """The job cannot be used; `problems` holds all of it. Commands print it and exit with code 2."""


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """A job that was read and found good."""

    job: Job
    path: Path | None
    """None for a job of options alone."""
    given: frozenset[str] = frozenset()
    """Fields that options gave, in place of the file's."""
    root: Node = field(default_factory=lambda: _NONE)

    @property
    def folder(self) -> Path:
        """What paths in the job are relative to."""
        return self.path.parent if self.path else Path()

    def local(self, name: str, value: str) -> Path:
        """A path of the job on this machine: an option's is relative to the current folder."""
        return Path(value) if name in self.given else self.folder / value

    def located(self, findings: Iterable[Finding]) -> list[Problem]:
        """What the checks found, with its file and line, or the option that it is about."""
        return [_problem(finding, job=self) for finding in findings]


def load(path: Path | None, options: Mapping[str, Any]) -> JobFile:
    """A job from a file, from options, or from a file with options in place of some fields.

    Args:
        path: The file; None for options alone.
        options: Field to value. A mapping (`env`, `secrets`) is added to the file's.

    Raises:
        JobFileError: With every problem of the file and of the options.
    """
    root, flaws = _read(path) if path else (_NONE, [])
    file = relative(path) if path else ""
    data = dict(root.data())
    for name, value in options.items():
        current = data.get(name)
        data[name] = {**current, **value} if isinstance(value, dict) and isinstance(current, dict) else value
    overrides = frozenset(options)
    flaws += [
        YamlError(root.keys[key], (key,), messages.unknown_setting((key,), root=Job))
        for key in root.data()
        if key not in Job.model_fields
    ]
    flawed = {flaw.path for flaw in flaws}
    job = None
    try:
        job = Job.model_validate({key: value for key, value in data.items() if key in Job.model_fields}, strict=True)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            spot = tuple(part for part in detail["loc"] if part != "[key]")
            flaw = flaw_of(detail, path=spot, root=root, model=Job)
            if flaw.path not in flawed:
                flaws.append(flaw)
    problems = [_named(flaw, file=file, overrides=overrides) for flaw in once(without_echoes(flaws))]
    if problems or job is None:
        raise JobFileError(sorted(problems, key=lambda problem: problem.line))
    return JobFile(job=job, path=path, given=overrides, root=root)


def refuse(problems: list[Problem]) -> None:
    """Raise where there is a problem.

    Raises:
        JobFileError: with all of them.
    """
    if problems:
        raise JobFileError(problems)


def _read(path: Path) -> tuple[Node, list[YamlError]]:
    file = relative(path)
    try:
        raw = path.read_bytes()
        text = raw[: MAX_BYTES + 1].decode("utf-8-sig")
    except FileNotFoundError:
        near = [sibling.name for sibling in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        fix = meant(path.name, near) or "correct the path"
        raise _no_job_file(file, "no such file", expected="a job file", fix=fix) from None
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()
        raise _no_job_file(file, f"it cannot be read: {why}", expected="a job file", fix="correct it") from None
    if len(raw) > MAX_BYTES:
        raise _no_job_file(file, f"more than {MAX_BYTES:,} bytes", expected="a job file", fix="correct the path")
    root, flaws = read(text, of="job")
    if root is None or root.kind != "mapping":
        problem = messages.typed(root.data()) if root is not None and root.data() is not None else "the file is empty"
        empty = YamlError(1, (), Message(problem, expected="fields of a job (command: …)", fix="add them"))
        raise JobFileError([located_flaw(flaw, file=file) for flaw in once(flaws or [empty])])
    return root, flaws


def _no_job_file(file: str, problem: str, *, expected: str, fix: str) -> JobFileError:
    return JobFileError(unreadable_file(file, problem, expected=expected, fix=fix).problems)


def _option(name: str) -> str:
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def _named(flaw: YamlError, *, file: str, overrides: frozenset[str]) -> Problem:
    problem = located_flaw(flaw, file=file)
    name = str(flaw.path[0]) if flaw.path else ""
    if name == "secrets" and problem.expected == SECRET_KEY.expected:
        # it may be the secret itself
        problem = replace(problem, what="no reference (its value is not shown)", fix="name where the secret is kept")
    if name in overrides or (not file and name):
        rest = dotted(flaw.path[1:]) if flaw.path[1:] else ""
        return Problem(
            path=f"{_option(name)}{f' {rest}' if rest else ''}",
            what=problem.what,
            expected=problem.expected,
            fix=problem.fix if file or problem.what != messages.MISSING else f"give it: {_option(name)}",
        )
    return problem


def _problem(finding: Finding, *, job: JobFile) -> Problem:
    name = str(finding.path[0]) if finding.path else ""
    line = job.root.line_of(finding.path) if job.path else 0
    from_option = name in job.given or job.path is None
    return Problem(
        path=(_option(name) if from_option else dotted(finding.path)) if name else WHOLE_FILE,
        what=finding.what,
        expected=finding.expected,
        fix=finding.fix,
        file="" if from_option or job.path is None else relative(job.path),
        line=0 if from_option else line,
        severity="error" if finding.severity == "error" else "warning",
    )
