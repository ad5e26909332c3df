"""The pages of commands and of exit codes, from the command tree. `python -m docs.generate` writes them."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from hyperpod_ray.cli.failures import EXIT_CODES, failure
from hyperpod_ray.core import names
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops.errors import ERROR, OpsError

_ROOT_ONLY = {"help"}


def page(root: Any) -> str:
    """Every command, with its arguments, options and examples.

    Args:
        root: The command line as one Typer group.
    """
    lines = [
        "# Commands",
        "",
        "`python -m docs.generate` writes this page from the command tree; do not edit it.",
        "`ENV` is the name of a file in `environments/`, without `.yaml`.",
        "",
        "## For all commands",
        "",
        "| option | what it does |",
        "|---|---|",
        *_rows(root),
        "| `-o`, `--output FORMAT` | Format of the data on stdout: `table`, `json`, and `markdown` for reports. "
        "With `json`, an error is [JSON on stdout](exit-codes.md#errors-as-json) too. |",
        "| `--out FILE` | Write to a file or folder instead. |",
        "| `-y`, `--yes` | Do not ask for confirmation. |",
        "",
        "Messages go to stderr. `NO_COLOR` turns colours off. Completion: `source <(hyperpod-ray completion bash)`.",
        "",
        "[Exit codes](exit-codes.md) are the same for all commands.",
        "",
    ]
    for path, node in _leaves(root, ()):
        lines += _section(path, node)
    return "\n".join(lines).rstrip() + "\n"


def exit_codes() -> str:
    """The page of exit codes."""
    example = OpsError("the credentials have expired", expected="current credentials", fix="aws sso login", code=ERROR)
    lines = [
        "# Exit codes",
        "",
        "`python -m docs.generate` writes this page from the command tree; do not edit it.",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES),
        "",
        f"`{PROGRAM} submit` exits with the job's own exit code.",
        "",
        "In a script, act on the number, not on the text.",
        "This line passes when the environment is healthy, or may still become so:",
        "",
        "```console",
        f"$ {PROGRAM} wait prod --for healthy --timeout 3600 || test $? -eq 4",
        "```",
        "",
        "## Errors as text",
        "",
        "An error is two lines on stderr: what failed with what was expected, and the fix.",
        f"An internal error shows its traceback with `{names.TRACEBACK_VARIABLE}=1`.",
        "",
        "```text",
        f"error: {example.message}",
        f"Fix: {example.fix}",
        "```",
        "",
        "## Errors as JSON",
        "",
        "With `-o json`, an error is a document on stdout.",
        "It has the fields `schema_version` and `generated_at` of every document, and these:",
        "",
        "```json",
        json.dumps({"kind": "error", **failure(example)}, indent=2),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(node, "commands", None)
    if children is None:
        yield path, node
        return
    for name in sorted(children):
        if not children[name].hidden:
            yield from _leaves(children[name], (*path, name))


def _section(path: tuple[str, ...], node: Any) -> list[str]:
    arguments = " ".join(_argument(parameter) for parameter in node.params if parameter.param_type_name == "argument")
    usage = " ".join(filter(None, [PROGRAM, *path, "[OPTIONS]" if _rows(node) else "", arguments]))
    help_ = " ".join((node.help or "").split())
    rows = _rows(node)
    unfolded = re.sub(r" \\\n +", " ", node.epilog or "")
    examples = [line.strip() for line in unfolded.splitlines() if line.strip().startswith(PROGRAM)]
    return [
        f"## `{' '.join(path)}`",
        "",
        help_,
        "",
        "```text",
        usage,
        "```",
        "",
        *(
            ["| argument or option | default | what it is |", "|---|---|---|", *_described(node), ""]
            if rows or arguments
            else []
        ),
        "```console",
        *(f"$ {line}" for line in examples),
        "```",
        "",
    ]


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required or name.startswith(("[", "--")) else f"[{name}]"


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()!s}`"
    spelled = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len))
    if parameter.secondary_opts:
        spelled += "".join(f", `{name}`" for name in parameter.secondary_opts)
    if parameter.is_flag:
        return spelled
    return f"{spelled} {_kind(parameter)}"


def _kind(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    annotation = parameter.type_descriptor.annotation
    parts = typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "\\|".join(str(member.value) for member in annotation)
    if parts and all(isinstance(part, str) for part in parts):
        return "\\|".join(parts)
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(annotation, "TEXT")


def _described(node: Any) -> list[str]:
    rows = []
    for parameter in node.params:
        if parameter.name in _ROOT_ONLY:
            continue
        default = parameter.default
        default_text = "required" if parameter.required else ""
        if (
            not parameter.required
            and default not in (None, "", False, [], ())
            and isinstance(default, str | int | float)
        ):
            default_text = f"`{getattr(default, 'value', default)}`"
        rows.append(f"| {_spelled(parameter)} | {default_text} | {_cell(parameter.help or '')} |")
    return rows


def _rows(node: Any) -> list[str]:
    return [
        f"| {_spelled(parameter)} | {_cell(parameter.help or '')} |"
        for parameter in node.params
        if parameter.param_type_name == "option" and parameter.name not in _ROOT_ONLY
    ]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
