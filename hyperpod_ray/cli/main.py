"""The root of the command line: what all commands have in common, and how a failure is reported."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import io
import itertools
import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hyperpod_ray.cli import completion
from hyperpod_ray.cli.failures import EXIT_CODES, failure
from hyperpod_ray.cli.options import current, epilog
from hyperpod_ray.core import names
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.core.secret_words import masked
from hyperpod_ray.core.version import full_version
from hyperpod_ray.ops import output, steering
from hyperpod_ray.ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, OpsError, explain

if TYPE_CHECKING:  # what `_register` imports, for tools that read imports
    from hyperpod_ray.cli import (  # noqa: F401
        cdk,
        charts,
        data,
        deploy,
        environments,
        image,
        init,
        local,
        manifests,
        nodes,
        operate,
        plan,
        review,
        runs,
        submit,
    )  # fmt: skip

COMMANDS = {
    "init": "init", "env": "environments", "plan": "plan", "preflight": "operate", "capacity": "operate",
    "review": "review", "diff": "cdk",
    "deploy": "deploy", "wait": "operate", "status": "operate", "nodes": "nodes", "logs": "operate",
    "connect": "operate", "submit": "submit", "runs": "runs", "ray-job": "manifests", "cost": "operate",
    "teardown": "operate", "manifests": "manifests", "charts": "charts", "image": "image", "data": "data",
    "local": "local", "demo": "local", "completion": "completion",
}  # fmt: skip
"""The commands in the order in which an environment needs them, as help shows them, and the module of each."""


class Root(typer.core.TyperGroup):
    """The root, whose help lists the commands in their order."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands."""
        return sorted(super().list_commands(ctx), key=list(COMMANDS).index)


app = typer.Typer(
    name=PROGRAM,
    cls=Root,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Ray training on Amazon SageMaker HyperPod: check, deploy, operate and rehearse environments.",
    epilog=epilog(["init my-platform", "env new staging", "local deploy staging", "deploy staging", "status staging"])
    + "\n\n\b\nExit codes:\n"
    + "\n".join(
        textwrap.fill(f"  {code:>3}  {meaning}", width=78, subsequent_indent=" " * 7) for code, meaning in EXIT_CODES
    ),
)


def _version(requested: bool) -> None:
    if requested:
        output.write_line(f"{PROGRAM} {full_version()}")
        raise typer.Exit


@app.callback()
def _common(
    environments: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar=names.ENVIRONMENTS_VARIABLE,
            help="Folder of environment files. Default: environments/ here or in a folder above.",
        ),
    ] = None,
    tunnel: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(
            envvar=names.TUNNEL_VARIABLE,
            help="Session Manager tunnel to the Kubernetes API. auto: where it is private and unreachable.",
        ),
    ] = "auto",
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    current.folder = environments.resolve() if environments else None
    current.tunnel = tunnel


@functools.cache
def _register(module: str) -> None:
    """Add the commands of one module to the root."""
    importlib.import_module(f"hyperpod_ray.cli.{module}").register(app)


def whole() -> typer.Typer:
    """The root with all commands."""
    for module in COMMANDS.values():
        _register(module)
    return app


# typer carries its own click; the base of its errors has no public name
USAGE: Any = typer.BadParameter.__mro__[2]


@functools.cache
def tree(first: str = "") -> Any:
    """The command tree, as click commands; built once, for a process that runs many commands.

    Args:
        first: First word of a command line. Where it is a command, the tree has that alone, and the modules of the
            other commands are not imported.
    """
    group: Any = typer.main.get_command(_only(first) if first in COMMANDS else whole())
    inner = group.invoke

    def invoke(context: Any) -> Any:
        group.invoked = True
        try:
            return inner(context)
        except KeyboardInterrupt:  # typer's own answer is the exit code without a word
            output.log("interrupted")
            return INTERRUPTED

    group.invoke = invoke
    return group


def _only(name: str) -> typer.Typer:
    """The root with one of its commands or groups."""
    _register(COMMANDS[name])
    part = copy.copy(app)
    part.registered_groups = [group for group in app.registered_groups if group.name == name]
    part.registered_commands = [
        command
        for command in app.registered_commands
        if name == (command.name or typer.main.get_command_name(getattr(command.callback, "__name__", "")))
    ]
    return part


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a failure is one line, the next command and an exit code, or JSON where that was asked for."""
    words = sys.argv[1:] if arguments is None else arguments
    current.environment, current.folder, current.tunnel = "ENV", None, "auto"
    output.forget()
    if completion.VARIABLE in os.environ:
        completion.prepare()
    try:
        # completion lists the whole tree
        root = tree() if completion.VARIABLE in os.environ or not words else tree(words[0])
        root.invoked = False
        code = int(root.main(args=words, prog_name=PROGRAM, standalone_mode=False) or OK)
        if code == INTERRUPTED and not root.invoked:  # typer's answer, while it reads the command line
            output.log("interrupted")
        return code
    except (KeyboardInterrupt, typer.Abort):
        output.log("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader (head, less) has gone; Python would complain again when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        as_json = _asks_for_json(words)
        if isinstance(error, USAGE) and not as_json:
            usage = io.StringIO()
            error.show(file=usage)  # with the words of the command line, which may be somebody else's
            sys.stderr.write(steering.printable(usage.getvalue()))
            return int(error.exit_code)
        return _failed(_explained(error), as_json=as_json)
    finally:
        if opened := sys.modules.get("hyperpod_ray.ops.reach.tunnel"):
            opened.close_all()


def _explained(error: Exception) -> OpsError:
    """What a failure means; a failure without an explanation is a defect of this program."""
    if isinstance(error, USAGE):
        return OpsError(
            error.format_message().rstrip("."),
            expected="a command line as in its help",
            fix=f"{PROGRAM} --help",
            code=int(error.exit_code),
        )
    if isinstance(error, ModuleNotFoundError) and (missing := extra_of(error)):
        return missing
    explained = explain(error, environment=current.environment)
    if explained is None and os.environ.get(names.TRACEBACK_VARIABLE):
        raise error
    return explained or OpsError(
        f"internal error: {type(error).__name__}: {error}",
        expected="no failure of this kind",
        fix=f"run the command again with {names.TRACEBACK_VARIABLE}=1 and report the output",
        code=ERROR,
    )


EXTRAS = {
    "deploy": {"aws_cdk", "cdk8s", "cdk8s_plus_28", "cfnlint", "constructs", "jsii", "hyperpod_ray_training"},
    "local": {"hyperpod_ray_sandbox"},
    "plan": {"numpy", "matplotlib"},
}
"""Packages that the light installation lacks, by what they are for."""


INSTALL = {
    "deploy": "pip install 'hyperpod-ray[deploy]'",
    "local": "pip install hyperpod-ray-sandbox",
    "plan": "pip install 'hyperpod-ray[plan]'",
}
"""What brings each of them."""


def extra_of(error: ModuleNotFoundError) -> OpsError | None:
    """What to install for a command of which a package is missing; None for a package of no extra."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return OpsError(
                f"no package {package}: this command needs the part [{extra}] of {PROGRAM}",
                expected="an installation with it",
                fix=INSTALL[extra],
                code=BAD_USE,
            )
    return None


def script() -> None:
    """Entry point of the installed command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the shell closed it (>&-): nobody reads
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows a question mark
    # a shell starts background jobs with SIGINT ignored, and Python then never raises KeyboardInterrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # pydantic looks for plugins in every installed distribution; this program has none
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # what a command opened is closed also when it is asked to end
    signal.signal(signal.SIGTERM, _terminated)
    code = main()
    # what is alive stays until the process is gone: Python's last searches for garbage cost a sixth of a short command
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said: what ends now has nothing to interrupt
    raise SystemExit(code)


def _terminated(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _failed(error: OpsError, *, as_json: bool) -> int:
    if as_json and not output.wrote_json():
        output.write_json("error", failure(error))
        return error.code
    output.log(f"error: {masked(error.message)}")
    if error.fix:
        output.log(f"Fix: {masked(error.fix)}")
    return error.code


def _asks_for_json(arguments: list[str]) -> bool:
    """Whether the command line asks for JSON. Read without the parser, which does not finish after a usage error."""
    own_words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    pairs = itertools.pairwise(own_words)
    return any(word in ("--output=json", "-ojson") for word in own_words) or any(
        name in ("-o", "--output") and value == "json" for name, value in pairs
    )
