"""`hyperpod-ray env`: create, check and show environment files, and the reference generated from the settings model."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperpod_ray.cli import new
from hyperpod_ray.cli.options import Env, Plain, command, current, folder, foreign_folder, group, names, project_folder
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError

if TYPE_CHECKING:
    from hyperpod_ray.core.loader import AnyFile, Problem
    from hyperpod_ray.pricing.prices import Prices

app = group("Create, check and show environment files.", examples=["env new staging", "env check", "env show prod"])
new.register(app)
Generated = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write to this file. Default: the file of the project.")
]
Check = Annotated[bool, typer.Option("--check", help="Write nothing. Exit code 3 when the file is stale.")]


def register(root: typer.Typer) -> None:
    """Add the group to the root."""
    root.add_typer(app, name="env")


@command(app, examples=["env check", "env check prod", "env check prod -o json"])
def check(
    names_: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENV]...", help="Environments. Default: all.", autocompletion=names),
    ] = None,
    form: Plain = "table",
) -> int:
    """Check environment files. Prints every error with file and line; exit code 2 when there is one."""
    from hyperpod_ray import core
    from hyperpod_ray.core import needs

    where = folder()
    selected = names_ or core.environment_names(folder=where)
    if not selected:
        raise OpsError(
            f"no environment: {where}", expected="an environment file", fix=f"{PROGRAM} env new NAME", code=BAD_USE
        )
    skipped = [] if names_ or not where.is_dir() else core.skipped_files(folder=where)
    for skipped_file in skipped:
        message = "not checked. Expected NAME.yaml, with NAME in lower-case letters, digits and hyphens. Fix: rename it"
        output.log(f"{where / skipped_file}: {message}")
    prices = functools.cache(_prices)
    results: list[dict[str, Any]] = []
    for name in selected:
        missing: dict[str, str] = {}
        try:
            file = core.load_any(name, folder=where)
            problems = sorted(
                [*file.warnings, *_planned(file, prices), *_paid(file, prices)], key=lambda problem: problem.line
            )
            missing = needs.without_digest(file.plan)
            valid = all(problem.severity == "warning" for problem in problems)
        except core.EnvironmentFileError as error:
            problems = sorted([*error.problems, *error.warnings], key=lambda problem: problem.line)
            valid = False
        results.append({"name": name, "ok": valid, "problems": problems, "without_digest": sorted(missing)})
        if form == "json":
            continue
        for problem in problems:
            output.log(str(problem))
        if valid:
            plural = "s" if len(problems) > 1 else ""
            output.write_line(f"ok {name}" + (f" ({len(problems)} warning{plural})" if problems else ""))
        if missing:
            sys.stderr.write(
                f"note: {name} cannot be deployed yet: no digest is recorded for {', '.join(missing)}. "
                f"Fix: {needs.PIN}\n"
            )
    if form == "json":
        output.write_json("check", {"environments": results, "skipped": skipped})
    return OK if all(result["ok"] for result in results) else BAD_USE


def _paid(file: AnyFile, prices: Callable[[], Prices]) -> list[Problem]:
    """What the prices on file say of the budget; nothing without one."""
    if file.settings.budget is None:
        return []
    from hyperpod_ray.core.loader import located
    from hyperpod_ray.pricing import budget
    from hyperpod_ray.pricing.prices import cost

    return located(file, budget.findings(file.plan, cost(file.plan, prices(), day=output.now().date())))


def _prices() -> Prices:
    """The prices on file."""
    from hyperpod_ray.pricing import price_file

    try:
        return price_file.recorded(foreign_folder())
    except price_file.PriceFileError as error:
        raise OpsError.of(error, code=BAD_USE, fix="correct the file, or delete it") from error


def _planned(file: AnyFile, prices: Callable[[], Prices]) -> list[Problem]:
    """What a plan of the section `training` finds; nothing without one."""
    from hyperpod_ray import core

    if not isinstance(file, core.EnvironmentFile) or file.settings.training is None:
        return []
    from hyperpod_ray.core.loader import located
    from hyperpod_ray.planner import checks

    return located(file, checks.findings(file.plan, prices(), day=output.now().date()))


@command(
    app,
    examples=["env upgrade prod", "env upgrade prod --from 0.2.0"],
)
def upgrade(
    env: Annotated[str, typer.Argument(metavar="ENV|FILE", help="Environment, or its file.", autocompletion=names)],
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="VERSION", help="Version that the file is written for. Default: its setting written_for."
        ),
    ] = "",
    write: Annotated[bool, typer.Option("--write", help="Write the file. Default: show what would change.")] = False,
) -> int:
    """Change an older version's environment file for this version.

    Shows the difference and the reason for each change. Comments stay. Exit code 2 where something is left for you.
    """
    from hyperpod_ray.ops.change import file_upgrade

    path = Path(env)
    if path.suffix not in {".yaml", ".yml"}:
        path = folder() / f"{env}.yaml"
    current.environment = path.stem
    return file_upgrade.upgrade(path, since=since, write=write)


@command(app, examples=["env show prod", "env show prod -o json"])
def show(env: Env, form: Plain = "table") -> int:
    """Print the settings with all defaults, as YAML or JSON."""
    from hyperpod_ray import core

    current.environment = env
    settings = core.load_any(env, folder=folder()).settings.model_dump(mode="json")
    if form == "json":
        output.write_json("environment", {"environment": env, "settings": settings})
    else:
        import yaml

        output.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=110))
    return OK


@command(app, examples=["env needs prod"])
def needs(env: Env) -> int:
    """Print what the network must let through. Lists every image, AWS call and destination, and why each works."""
    from hyperpod_ray import core
    from hyperpod_ray.core import needs_page

    current.environment = env
    output.write_text(needs_page.page(core.load_any(env, folder=folder()).plan))
    return OK


@command(app, examples=["env schema", "env schema --check"])
def schema(check: Check = False, out: Generated = None) -> int:
    """Write the JSON Schemas of environment and job files."""
    from hyperpod_ray.core import reference

    if out:
        return written(out.absolute(), reference.schema(), command="env schema", check=check)
    files = {reference.SCHEMA_FILE: reference.schema(), reference.JOB_SCHEMA_FILE: reference.job_schema()}
    return max(written(file, text, command="env schema", check=check) for file, text in files.items())


def written(file: Path, text: str, *, command: str, check: bool) -> int:
    """Write a generated file, or check that the present one is what would be written."""
    file = project_folder() / file
    if check:
        if file.exists() and file.read_text(encoding="utf-8") == text:
            return OK
        raise OpsError(
            f"{file}: stale", expected="what its source generates", fix=f"{PROGRAM} {command}", code=CONDITION_FALSE
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    output.write_line(f"wrote {file}")
    return OK
