"""Lock files compared by meaning: what is pinned to another version or digest, and what is no longer pinned.

Their changes show in no template, or only once charts are fetched and images are built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import yaml_text
from hyperpod_ray.core.project_files import RESOLVE, conflict
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.findings import Effect, Row, first_few

PYTHON = (
    "requirements.txt",
    *(f"requirements/{name}.txt" for name in ("rehearsal", "dev", "docs", "light", "oracles")),
    *(
        f"hyperpod_ray/image/requirements-{name}.txt"
        for name in ("build", "cu128", "cu130", "cu128-transformers", "cu130-transformers", "tiered")
    ),
)
NODE, CHARTS, IMAGES = "package-lock.json", "charts.lock.yaml", "images.lock.yaml"
SHIPPED = "hyperpod_ray/locks"
"""Folder of the product's own locks in its checkout."""
LIBRARY = ("hyperpod-ray", "aws-cdk-lib", "cdk8s", "cdk8s-plus-28", "constructs", "jsii", "cdklabs-deploy-time-build")
"""Packages that make the templates."""
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(.*)$")
_NAMED = 6
_CHANGED_CONTENT = " A published version whose content changes is a sign of a changed source: look at it."


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One thing that a lock file fixes."""

    version: str
    digests: frozenset[str] = frozenset()
    origin: str = ""
    """Where it is from, where that is part of the pin."""


Pins = dict[str, Pin]
Locks = dict[str, Pins]
"""Lock file → name → pin."""


def read(folder: Path) -> Locks:
    """Every lock file of a checkout.

    Raises:
        ReviewError: One of them cannot be read.
    """
    locks: Locks = {}
    for name in (*PYTHON, NODE, CHARTS, IMAGES):
        path = next((path for path in (folder / name, folder / SHIPPED / name) if path.is_file()), None)
        if path is None:
            continue
        text = path.read_text(encoding="utf-8")
        if line := conflict(text):
            raise ReviewError(
                f"{path.relative_to(folder)}:{line}: conflict markers of a merge",
                expected="a lock file",
                fix=RESOLVE,
            )
        try:
            locks[name] = dict(_pins(name, text))
        except (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
            raise ReviewError(
                f"{path}: {error}", expected="a lock file", fix="write it with its tool once more"
            ) from error
    return locks


def rows(base: Locks, head: Locks) -> list[Row]:
    """One row a lock file that differs, and one for what is no longer pinned by a digest."""
    return [row for name in {**base, **head} for row in _file(name, base.get(name, {}), head.get(name, {}))]


def libraries(base: Locks, head: Locks) -> list[str]:
    """Notes on sides whose lock asks for another library than the one that synthesized their templates."""
    notes = []
    for side, locks in (("base", base), ("head", head)):
        pins = locks.get("requirements.txt", {})
        unequal = [
            f"{name} {pins[name].version} (used: {_installed(name) or 'none'})"
            for name in LIBRARY
            if name in pins and pins[name].version != _installed(name)
        ]
        if unequal:
            notes.append(
                f"the {side}'s templates were not synthesized with its own library: its lock has {', '.join(unequal)}. "
                "What that library makes differently does not show here"
            )
    return notes


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


# --- one file --------------------------------------------------------------------------------------------------------


def _file(name: str, before: Pins, after: Pins) -> Iterator[Row]:
    changed = [
        f"{key} {_words(before.get(key))} → {_words(after.get(key))}"
        for key in sorted({*before, *after})
        if _version(before.get(key)) != _version(after.get(key))
    ]
    content = [
        key
        for key in sorted({*before} & {*after})
        if _version(before[key]) == _version(after[key])
        and before[key].digests
        and after[key].digests
        # a lock of wheels gains digests of other platforms: the same version with none in common is another file
        and not before[key].digests & after[key].digests
    ]
    loose = [key for key in sorted(after) if not after[key].digests and (key not in before or before[key].digests)]
    if changed or content:
        parts = [first_few(changed, most=_NAMED)] if changed else []
        parts += [f"other content under the same version: {first_few(content, most=_NAMED)}"] if content else []
        yield Row(
            effect=Effect.WEAKENS if content else Effect.SAFE,
            code="lock-changed",
            what=name,
            change="; ".join(parts),
            consequence=_consequence(name) + (_CHANGED_CONTENT if content else ""),
            where=name,
        )
    if loose:
        yield Row(
            effect=Effect.WEAKENS,
            code="lock-loosened",
            what=name,
            change=f"without a digest: {first_few(loose, most=_NAMED)}",
            consequence="Whatever the source delivers under this version is taken.",
            where=name,
        )


def _consequence(name: str) -> str:
    if name == CHARTS:
        return (
            "`hyperpod-ray charts fetch` fetches and packages them; the deploy upgrades the releases. "
            "Helm does not upgrade CRDs: first apply the new chart's yourself."
        )
    if name == IMAGES:
        return "The mirror copies them; pods created later run them."
    if name.startswith("hyperpod_ray/image/"):
        return "The training image is built again; running pods keep theirs, pods created later get the new one."
    if name == NODE:
        return "Other command-line tools; no template changes by it."
    if name == "requirements.txt":
        return "Other libraries of the command and of the templates; what they change in templates is in the rows."
    return "Other tools of development; nothing that is deployed."


def _version(pin: Pin | None) -> tuple[str, str]:
    return (pin.version, pin.origin) if pin else ("", "")


def _words(pin: Pin | None) -> str:
    if pin is None:
        return "none"
    return f"{pin.version} of {pin.origin[:60]}" if pin.origin else pin.version


# --- reading ---------------------------------------------------------------------------------------------------------


def _pins(name: str, text: str) -> Iterator[tuple[str, Pin]]:
    if name.endswith(".txt"):
        yield from _requirements(text)
    elif name == NODE:
        for path, record in json.loads(text)["packages"].items():
            if path:
                digest = record.get("integrity")
                yield path.removeprefix("node_modules/"), _pin(record.get("version"), [digest] if digest else [])
    elif name == CHARTS:
        for chart, record in _yaml(text)["charts"].items():
            yield chart, _chart(record)
            for sub in record.get("sub_charts") or []:
                yield f"{chart}/{sub['chart']}", _chart(sub)
    else:
        for image, digest in _yaml(text)["images"].items():
            yield image, _pin(digest or "not recorded", [digest] if digest else [])


def _yaml(text: str) -> Any:
    return yaml_text.load(text)


def _chart(record: dict[str, Any]) -> Pin:
    source = record.get("source") or {}
    commit = str(source.get("commit") or "")
    digest = str(record.get("sha256") or "")
    return Pin(
        version=str(record["version"]),
        digests=frozenset([digest] if digest else []),
        origin=commit or str(record.get("repository") or source.get("repository") or ""),
    )


def _requirements(text: str) -> Iterator[tuple[str, Pin]]:
    for requirement in text.replace("\\\n", " ").splitlines():
        match = _PINNED.match(requirement.strip())
        if match:
            yield match[1].lower(), _pin(match[2], re.findall(r"--hash=(\S+)", match[3]))


def _pin(number: Any, digests: Iterable[str]) -> Pin:
    return Pin(version=str(number or "?"), digests=frozenset(digests))
