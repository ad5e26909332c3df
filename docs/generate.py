"""Writes every page and file that comes from the code: `.venv/bin/python -m docs.generate [--check] [WORD…]`.

A word chooses the files whose path holds it. `--check` writes nothing; the exit code is 3 where a file is stale.
The other tables of `docs/security/` need templates: `make tables` writes them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import typer

from docs import (
    access_page,
    alarms_page,
    changed_lines,
    commands_page,
    limits_page,
    plan_agreement,
    plan_pages,
    recipe_losses,
    rules_page,
    settings_page,
    team_attacks,
)
from hyperpod_ray.cli.main import whole
from hyperpod_ray.core import load_any, needs_page, reference
from hyperpod_ray.core.loader import environment_names
from hyperpod_ray.planner import data, fitting

PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
STALE = 3


def generated() -> Iterator[tuple[Path, Callable[[], str]]]:
    """Each file and what writes its text, a source before what reads it."""
    yield PROJECT / reference.SCHEMA_FILE, reference.schema
    yield PROJECT / reference.JOB_SCHEMA_FILE, reference.job_schema
    yield DOCS / "settings.md", settings_page.settings_page
    yield DOCS / "job-file.md", settings_page.job_page
    yield DOCS / "reference" / "commands.md", lambda: commands_page.page(typer.main.get_command(whole()))
    yield DOCS / "reference" / "exit-codes.md", commands_page.exit_codes
    yield rules_page.PAGE, rules_page.page
    yield limits_page.PAGE, limits_page.page
    yield access_page.PAGE, access_page.page
    yield alarms_page.PAGE, alarms_page.page
    yield changed_lines.PAGE, changed_lines.page
    yield team_attacks.PAGE, team_attacks.page
    yield fitting.FILE, fitting.text
    yield plan_agreement.PAGE, plan_agreement.page
    for recipe in recipe_losses.recipes():
        yield recipe_losses.JOBS / recipe / "loss.svg", partial(recipe_losses.picture, recipe)
        yield recipe_losses.JOBS / recipe / "README.md", partial(recipe_losses.readme, recipe)
    for name in environment_names():
        yield plan_pages.FOLDER / f"{name}.md", partial(plan_pages.page, name)
    for file in sorted(DOCS.glob("needs-*.md")):
        yield file, partial(_needs, file.stem.removeprefix("needs-"))


def _needs(environment: str) -> str:
    return needs_page.page(load_any(environment).plan)


def main(words: list[str] | None = None) -> int:
    """Write the files, or name those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="writes the generated files")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 3 where a file is stale")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only files whose path holds one of the words")
    arguments = parser.parse_args(words)
    stale = 0
    for file, text in generated():
        name = str(file.relative_to(PROJECT))
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        fresh = text()
        if file.is_file() and file.read_text(encoding="utf-8") == fresh:
            continue
        stale = STALE
        if arguments.check:
            sys.stderr.write(f"{name}: stale. Expected what its source gives. Fix: python -m docs.generate\n")
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(fresh, encoding="utf-8")
        sys.stdout.write(f"wrote {name}\n")
        if file == fitting.FILE:
            data.speed.cache_clear()
    return stale if arguments.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
