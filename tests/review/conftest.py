"""Every assembly is synthesized once, for all tests and runs; see `tests/support/assemblies.py`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.review import said
from tests.review.command_helpers import repository  # noqa: F401 - fixtures
from tests.review.scenario import PROJECT, Assemble, Side, patched, settings_text
from tests.support.assemblies import synthesized


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Compare what reviews say with what they said."""
    return (yield from said.listen(item))


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """Synthesizes an environment with a side's changes by the real app; equal ones only once."""
    made: dict[str, Path] = {}
    scratch = tmp_path_factory.mktemp("patched")

    def synthesize(environment: str, side: Side) -> Path:
        text = settings_text(environment, side)
        key = _digest([environment, text, side.files])
        if key not in made:
            made[key] = synthesized(
                environment,
                text,
                path=Path(f"environments/{environment}.yaml"),
                validation=False,  # other tests validate the templates; here it would double the time
                project=lambda: _project(side, scratch / f"{key}-project"),
                changes=side.files,
            )
        whole = _digest([key, side.resources, side.objects, side.stacks])
        if whole not in made:
            made[whole] = patched(made[key], environment, side, scratch / f"{key}-{whole}")
        return made[whole]

    return synthesize


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _project(side: Side, folder: Path) -> Path:
    """The project itself, or a copy of its uploaded folders with a side's edits."""
    if not side.files:
        return PROJECT
    for name in ("lifecycle", "hyperpod_ray/image", "hyperpod_ray_training"):
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name)
    for name, text in side.files.items():
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return folder
