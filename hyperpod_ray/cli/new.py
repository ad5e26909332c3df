"""`hyperpod-ray env new`: flags, or a few questions at a terminal, and a commented file that passes the check."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperpod_ray.cli.options import command, current
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError

if TYPE_CHECKING:
    from hyperpod_ray.core.common_plan import CommonPlan


def register(app: typer.Typer) -> None:
    """Add the command to `env`."""

    @command(
        app,
        "new",
        examples=[
            "env new staging",
            "env new staging --account 111122223333 --region eu-west-1 --type ml.g5.48xlarge --count 4",
            "env new --list-types --region eu-west-1",
        ],
    )
    def new(  # noqa: PLR0917
        name: Annotated[str, typer.Argument(metavar="[ENV]", help="Name of the new environment.")] = "",
        account: Annotated[str, typer.Option(metavar="ACCOUNT", help="AWS account, twelve digits.")] = "",
        region: Annotated[str, typer.Option(metavar="REGION", help="AWS Region.")] = "",
        zones: Annotated[
            str,
            typer.Option(
                metavar="ID,ID", help="Availability zone IDs. Default: the first two of the region that EKS accepts."
            ),
        ] = "",
        instance_type: Annotated[
            str, typer.Option("--type", metavar="TYPE", help="Instance type of the workers.")
        ] = "",
        count: Annotated[int | None, typer.Option(min=1, help="Number of worker nodes.")] = None,
        capacity_gib: Annotated[int, typer.Option(help="Size of the shared file system, GiB.")] = 1200,
        delete_data: Annotated[
            bool, typer.Option("--delete-data", help="Delete the file system when the stacks are destroyed.")
        ] = False,
        admin_role: Annotated[str, typer.Option(metavar="ARN", help="Role with full Kubernetes access.")] = "",
        list_types: Annotated[
            bool, typer.Option("--list-types", help="List the accelerated types of --region and exit.")
        ] = False,
    ) -> int:
        """Write a commented environment file that passes the check. Asks for what is missing at a terminal."""
        if list_types:
            return _list(region or _asked("region", "--region"))
        if not name:
            raise OpsError(
                "no name", expected="the new environment's name", fix=f"{PROGRAM} env new NAME", code=BAD_USE
            )
        target = _target(name)
        written = asked_text(
            name,
            account=account,
            region=region,
            zones=tuple(zone.strip() for zone in zones.split(",") if zone.strip()),
            instance_type=instance_type,
            count=count,
            capacity_gib=capacity_gib,
            on_destroy="delete" if delete_data else "retain",
            admin_role=admin_role,
            target=target,
            schema=(target.parent / "schema.json").is_file(),
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written, encoding="utf-8")
        output.write_line(f"wrote {target}")
        output.log(f"next: {PROGRAM} preflight {name} --offline")
        return OK


def asked_text(
    name: str, *, account: str, region: str, instance_type: str, count: int | None, admin_role: str, target: Path,
    schema: bool, zones: tuple[str, ...] = (), capacity_gib: int = 1200, on_destroy: str = "retain",
) -> str:  # fmt: skip
    """The text of a new environment file; asks at a terminal for what is missing.

    Raises:
        OpsError: nothing answers, or the settings do not pass the check.
    """
    account = account or _asked("AWS account (12 digits)", "--account")
    region = region or _asked("region", "--region", choices=_regions)
    instance_type = instance_type or _asked(
        f"instance type of the workers in {region}", "--type", choices=lambda: _types(region)
    )
    return _text(
        name,
        account=account,
        region=region,
        zones=zones,
        instance_type=instance_type,
        count=count or _number(_asked("number of worker nodes", "--count")),
        capacity_gib=capacity_gib,
        on_destroy=on_destroy,
        admin_role=admin_role,
        target=target,
        schema=schema,
    )


def _target(name: str) -> Path:
    from hyperpod_ray.core import project

    folder = current.folder or project.environments() or Path.cwd() / project.FOLDER_NAME
    target = folder / f"{name}.yaml"
    if target.exists():
        raise OpsError(
            f"{target} exists", expected="a new name", fix=f"{PROGRAM} env new OTHER, or delete the file", code=BAD_USE
        )
    return target


def _regions() -> list[str]:
    from hyperpod_ray.core import regions

    return [region for region in regions.regions() if regions.accelerated(region)]


def _types(region: str) -> list[str]:
    from hyperpod_ray.core import regions

    instance_types = regions.accelerated(region)
    if not instance_types:
        raise OpsError(
            f"region: '{region}'", expected=f"one of {', '.join(_regions())}", fix="choose one of them", code=BAD_USE
        )
    return instance_types


def _list(region: str) -> int:
    for name in _types(region):
        output.write_line(name)
    return OK


def _asked(question: str, option: str, *, choices: Callable[[], list[str]] | None = None) -> str:
    """An answer from the terminal."""
    if not output.interactive():
        raise OpsError(
            f"{option} is missing",
            expected=f"{question}",
            fix=f"add {option}, or run it at a terminal",
            code=BAD_USE,
        )
    if choices is not None:
        for line in _columns(choices()):
            output.log(f"  {line}")
    while True:
        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise OpsError(
                "nothing was written: no answer",
                expected="a line on stdin",
                fix=f"{PROGRAM} env new --help shows the options",
                code=BAD_USE,
            )
        if line.strip():
            return line.strip()


def _columns(words: list[str], *, width: int = 76) -> list[str]:
    cell_width = max(map(len, words)) + 2
    row = max(1, width // cell_width)
    return ["".join(word.ljust(cell_width) for word in words[i : i + row]).rstrip() for i in range(0, len(words), row)]


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise OpsError(
            f"number of worker nodes: '{text}'", expected="a whole number from 1", fix="--count 1 or more", code=BAD_USE
        )
    return int(text)


def _text(
    name: str, *, account: str, region: str, zones: tuple[str, ...], instance_type: str, count: int,
    capacity_gib: int, on_destroy: str, admin_role: str, target: Path, schema: bool,
) -> str:  # fmt: skip
    """The file's text, after the same check that every command makes."""
    from hyperpod_ray.core import loader, new_file, regions
    from hyperpod_ray.core.findings import meant

    offered = _types(region)
    if not regions.offers(region, instance_type) or not instance_type.startswith("ml."):
        raise OpsError(
            f"--type: '{instance_type}'",
            expected=f"an accelerated type that {region} offers",
            fix=meant(instance_type, offered) or f"{PROGRAM} env new --list-types --region {region}",
            code=BAD_USE,
        )
    try:
        head = regions.head_type(region)
    except regions.NoHeadTypeError as error:
        raise OpsError.of(error, fix="choose another region", code=BAD_USE) from error
    answers = new_file.Answers(
        name=name,
        account=account,
        region=region,
        zones=zones or new_file.default_zones(region),
        head_type=head,
        instance_type=instance_type,
        count=count,
        capacity_gib=capacity_gib,
        on_destroy=on_destroy,
        admin_role_arn=admin_role,
        schema=schema,
    )
    try:
        loader.named(name, file=str(target))
        plan = loader.parse(new_file.text(answers), name=name, path=target).plan
    except loader.EnvironmentFileError as error:
        problems = "\n".join(f"{problem.path}: {problem.message}" for problem in error.problems)
        raise OpsError(
            f"nothing was written: {problems}",
            expected=f"settings that pass `{PROGRAM} env check`",
            fix=f"{PROGRAM} env new --help",
            code=BAD_USE,
        ) from error
    return new_file.text(replace(answers, spare_pays_from=_spare_pays_from(plan)))


def _spare_pays_from(plan: CommonPlan) -> int | None:
    """Nodes from which on a spare pays; None for a type whose figures are not on file."""
    from hyperpod_ray.planner import PlanError, failures
    from hyperpod_ray.planner.cluster import cluster

    try:
        return round(cluster(plan).spare_pays_from(failures.published()).central)
    except PlanError:
        return None
