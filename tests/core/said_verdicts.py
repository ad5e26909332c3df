"""What the rules say of files that differ from a good one in one place: `verdicts.txt`. `make records` writes it.

Each number one less, one more and twice as much, each switch turned, each name another one of its kind, each ARN of
another account or Region, each entry left out or twice. A line is what is said of the change and not of the good file,
or no longer. A change of which nothing is said stands nowhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
import yaml

from hyperpod_ray.core import today
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES, Finding
from hyperpod_ray.core.orchestrators import ORCHESTRATORS
from tests.core.account.sabotage import DAY
from tests.core.every_section import changed, leaves, without
from tests.core.said_plans import FOLDERS
from tests.support import records

FILE = Path(__file__).with_name("verdicts.txt")
BASES = ("climate", "behind-a-proxy", "seismic", "everything", "closed", "slurm-options", "existing")
"""The files that have the most sections, and the most of what a section may have several of."""
OFTEN = 1
"""How often a setting is changed in the same way, over all files of an orchestrator."""
Data = dict[str, Any]
Where = tuple[str | int, ...]


@functools.cache
def bases() -> dict[str, tuple[Data, Path]]:
    """Each file, and the folder that it is in."""
    files = {name: _file(name) for name in BASES}
    return {name: (yaml.safe_load(file.read_text(encoding="utf-8")), file.parent) for name, file in files.items()}


def _file(name: str) -> Path:
    return next(folder / f"{name}.yaml" for folder in FOLDERS if (folder / f"{name}.yaml").exists())


def _others(by_key: dict[str, set[str]], path: Where, value: str) -> Iterator[tuple[str, Any]]:
    """Another value of the same key; the same ARN of another account, of another Region."""
    if value.startswith("arn:"):
        parts = value.split(":")
        yield "of another account", ":".join([*parts[:4], "999999999999", *parts[5:]])
        if parts[3]:
            yield "of another region", ":".join([*parts[:3], "ap-south-1", *parts[4:]])
        return
    known = by_key[_key(path)]
    after = sorted(known - {value})
    if after:
        yield "of another", next((other for other in after if other > value), after[0])
    else:
        yield "longer", f"{value}x"


def _at(data: Any, path: Where) -> Any:
    for part in path:
        data = data[part]
    return data


def _key(path: Where) -> str:
    return [part for part in path if isinstance(part, str)][-1]


def variations(base: Data) -> Iterator[tuple[str, Where, Callable[[], Data]]]:
    """Yield each change: its sort, where it is, and the file."""
    values = {path: _at(base, path) for path in leaves(base)}
    by_key: dict[str, set[str]] = defaultdict(set)
    for path, value in values.items():
        if isinstance(value, str):
            by_key[_key(path)].add(value)
    for path, value in values.items():
        yield "without", path, partial(without, base, path)
        if isinstance(value, bool):
            yield "turned", path, partial(changed, base, path, not value)
        elif isinstance(value, int):
            for change, number in (("less", value - 1), ("more", value + 1), ("twice", value * 2)):
                yield change, path, partial(changed, base, path, number)
        elif isinstance(value, str):
            for change, other in _others(by_key, path, value):
                yield change, path, partial(changed, base, path, other)
        elif isinstance(value, list) and value:
            yield "again", path, partial(changed, base, path, [*value, value[0]])
            yield "turned round", path, partial(changed, base, path, value[::-1])


def _said(name: str, data: Data, folder: Path, *, section: str = "") -> Counter[tuple[str, str]]:
    """What the model or the rules say of a file: where, and the words. With a section, of the rules that read it."""
    orchestrator = ORCHESTRATORS[data.get("orchestrator", "eks")]
    try:
        settings = orchestrator.settings.model_validate(data, strict=True)
    except pydantic.ValidationError as refused:
        return Counter(("model " + ".".join(map(str, each["loc"])), each["type"]) for each in refused.errors())
    plan = orchestrator.plan(name=name, settings=settings)
    evidence = _evidence(name, folder)
    lines: Counter[tuple[str, str]] = Counter()
    for rule in RULES:
        reads = rule.reads(settings.orchestrator)
        if rule.stage == "load" and rule.concerns(plan) and rule.runs(evidence) and (not section or section in reads):
            with contextlib.suppress(Exception):  # a rule may presuppose what another one refuses
                lines.update(map(_line, [*rule(plan, evidence)]))
    return lines


@functools.cache
def _evidence(name: str, folder: Path) -> Evidence:
    return Evidence(repository=Repository.around(name, folder=folder, root=records.PROJECT))


def _refused(said: Counter[tuple[str, str]]) -> bool:
    """Whether the model refuses the file, so that no rule is asked."""
    return any(where.startswith("model ") for where, _ in said)


def _line(finding: Finding) -> tuple[str, str]:
    text = finding.message.replace("\n", " ").replace(str(records.PROJECT), "<project>")
    return f"{finding.severity} {'.'.join(map(str, finding.path))}", text


@functools.cache
def verdicts() -> dict[str, dict[str, dict[str, str]]]:
    """For each file, what is said of each change of it."""
    times: Counter[tuple[str, ...]] = Counter()
    by_file: dict[str, dict[str, dict[str, str]]] = {}
    for name, (base, folder) in bases().items():
        usual = {section: _said(name, base, folder, section=section) for section in base}
        by_file[name] = {}
        for change, path, make in variations(base):
            pattern = re.sub(r"\.\d+", "[]", ".".join(map(str, path)))
            sort = (str(base.get("orchestrator")), pattern, change)
            if times[sort] == OFTEN or path[0] == "orchestrator":
                continue
            times[sort] += 1
            said = _said(name, make(), folder, section=str(path[0]))
            before = usual[str(path[0])]
            gone = [] if _refused(said) else before - said
            lines = [*(said - before), *((f"no {where}", text) for where, text in gone)]
            if lines:
                entry = by_file[name].setdefault(f"{name}: {'.'.join(map(str, path))} {change}", {})
                for where, text in sorted(lines):
                    entry[where] = f"{entry[where]} ¶ {text}" if where in entry else text
    return by_file


@functools.cache
def recorded() -> records.Record:
    """What the file holds."""
    return records.read(FILE.read_text(encoding="utf-8"))


def write() -> int:
    """Write the file."""
    os.environ[today.VARIABLE] = DAY
    record = {change: lines for changes in verdicts().values() for change, lines in changes.items()}
    FILE.write_text(
        records.written(record, title="What is said of a file that differs in one place."), encoding="utf-8"
    )
    sys.stdout.write(f"{len(record)} changes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
