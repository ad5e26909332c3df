"""The vocabulary that all commands share: names, options and formats mean the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.output import Format

if TYPE_CHECKING:
    from hyperpod_ray.ops.reach.clients import AnyTarget, Target

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Invocation:
    """What the command line says before the command, and which environment an error is about."""

    environment: str = "ENV"
    folder: Path | None = None
    tunnel: Literal["auto", "always", "never"] = "auto"


current = Invocation()


def folder() -> Path:
    """The folder of environment files that this command works with.

    Raises:
        OpsError: there is none at or above the current folder, or several.
    """
    from hyperpod_ray.core import project

    chosen = current.folder or project.environments()
    if chosen is None:
        raise OpsError(
            f"no environment file in {Path.cwd()} and the folders above it",
            expected=f"a folder {project.FOLDER_NAME}/ with one",
            fix=f"change to the project's folder, give {PROGRAM} --environments FOLDER, or make a project: "
            f"{PROGRAM} init FOLDER",
            code=BAD_USE,
        )
    return chosen


def project_folder() -> Path:
    """The user's project: the folder with `cdk.json` around the environment files, or around the current folder.

    Raises:
        OpsError: there is none.
    """
    from hyperpod_ray.ops.change import cdk

    return cdk.folder(current.folder)


def foreign_folder() -> Path | None:
    """The folder of environment files where it is not `environments/` of the current folder, else None."""
    from hyperpod_ray.core import project

    chosen = folder()
    return None if chosen == Path.cwd() / project.FOLDER_NAME else chosen


def target(name: str) -> Target:
    """The environment called `name` with its clients."""
    from hyperpod_ray.ops.reach.clients import target as made

    current.environment = name
    return made(name, folder=foreign_folder(), mode=current.tunnel)


def any_target(name: str) -> AnyTarget:
    """The environment called `name` with its clients, whatever orchestrates it."""
    from hyperpod_ray.ops.orchestrators import any_target as made

    current.environment = name
    return made(name, folder=foreign_folder(), mode=current.tunnel)


def names(incomplete: str = "") -> list[str]:
    """Environments that begin with `incomplete`, for completion."""
    from hyperpod_ray import core

    try:
        return [name for name in core.environment_names(folder=folder()) if name.startswith(incomplete)]
    except OpsError:
        return []


Env = Annotated[
    str,
    typer.Argument(metavar="ENV", help="Environment: the name of a file in environments/.", autocompletion=names),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Format of the data on stdout.")]
Plain = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="Format of the data on stdout.")]
"""`--output` of a command whose data is no report."""
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file. Default: stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class Listing(TyperGroup):
    """A group whose first subcommand is its default: `nodes ENV` is `nodes list ENV`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `list` where the first word is no subcommand."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(help: str, *, examples: Sequence[str], cls: Any = None) -> typer.Typer:
    """A command that only has subcommands."""
    return typer.Typer(cls=cls, no_args_is_help=True, rich_markup_mode=None, help=help, epilog=epilog(examples))


def command(
    app: typer.Typer, name: str | None = None, *, examples: Sequence[str], **settings: Any
) -> Callable[[Function], Function]:
    """Register a command whose help ends with examples, each written without the program's name."""
    return app.command(name, epilog=epilog(examples), cls=Decided, **settings)


class Decided(TyperCommand):
    """A command that an environment's orchestrator can refuse: `core.decisions` says which, and what to use instead."""

    def invoke(self, ctx: Any) -> Any:
        """Run it, or refuse before anything is asked or done."""
        name = ctx.params.get("env")
        if isinstance(name, str) and name:
            flags = [f"--{key.replace('_', '-')}" for key, value in ctx.params.items() if value is True]
            _refuse(name, path=ctx.command_path.partition(" ")[2], options=flags)
        return super().invoke(ctx)


def _refuse(name: str, *, path: str, options: list[str]) -> None:
    from hyperpod_ray.core import orchestrator_support as decisions

    if not decisions.undecided(path):
        return
    from hyperpod_ray.core.loader import orchestrator_of

    try:
        orchestrator = orchestrator_of(name, folder=folder())
    except OpsError:
        return  # the command itself says that there is no folder, where it needs one
    if refused := decisions.instead(orchestrator, path, options):
        words, replacement = refused
        raise OpsError(
            f"{PROGRAM} {words}: environment '{name}' is on Slurm: {replacement.why}",
            expected="an environment with orchestrator eks",
            fix=replacement.use.format(env=name),
            code=BAD_USE,
        )


def epilog(examples: Sequence[str]) -> str:
    """The end of a help: examples, each written without the program's name."""
    lines = "\n".join(f"  {_folded(f'{PROGRAM} {example}')}" for example in examples)
    return f"\b\nExamples:\n{lines}"


def _folded(line: str) -> str:
    """A command in lines of 78 characters that a shell reads as one; quoted words stay whole."""
    words: list[str] = re.findall(r"(?:\"[^\"]*\"|\S)+", line)
    folded, width = words[0], len(words[0])
    for word in words[1:]:
        if width + len(word) > 72:
            folded, width = f"{folded} \\\n     ", 5
        folded, width = f"{folded} {word}", width + 1 + len(word)
    return folded
