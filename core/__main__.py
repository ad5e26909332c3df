"""`python -m core`: judge environment files and write the reference made from the model.

Exit codes: 0 fine, 1 a generated file is stale (`--check`), 2 bad use or a bad environment file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from core import loader


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.command == "check":
        return _check(options.names, folder=options.folder)
    from core import reference  # noqa: PLC0415  # only these two commands need it

    file, text = {
        "schema": (reference.SCHEMA_FILE, reference.schema),
        "settings": (reference.SETTINGS_FILE, reference.settings_page),
    }[options.command]
    return _written(file, text(), command=options.command, check=options.check)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m core", description="environment files: judge them, document them")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="say everything that is wrong with environment files")
    check.add_argument("names", nargs="*", metavar="NAME", help="environments; left out: all of them")
    check.add_argument("--folder", type=Path, default=loader.FOLDER, help="where the files are (default: %(default)s)")
    for name, what in (("schema", "JSON Schema for editors"), ("settings", "settings page of the docs")):
        command = commands.add_parser(name, help=f"write the {what}, made from the model")
        command.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")
    return parser


def _check(names: Sequence[str], *, folder: Path) -> int:
    """Judge each file; all problems on stderr, one `ok` line per good file on stdout."""
    wanted = list(names) or loader.names(folder=folder)
    if not wanted:
        print(f"{folder}: no environment here", file=sys.stderr)
        return 2
    failed = False
    for name in wanted:
        try:
            found = loader.load(name, folder=folder)
        except loader.EnvironmentFileError as error:
            failed = True
            for problem in sorted([*error.problems, *error.warnings], key=lambda problem: problem.line):
                print(problem, file=sys.stderr)
            continue
        for warning in found.warnings:
            print(warning, file=sys.stderr)
        counted = f" ({len(found.warnings)} warning{'s' if len(found.warnings) > 1 else ''})" if found.warnings else ""
        print(f"ok {name}{counted}")
    return 2 if failed else 0


def _written(file: Path, text: str, *, command: str, check: bool) -> int:
    """Write a generated file, or say whether the one there is what would be written."""
    if check:
        if file.exists() and file.read_text(encoding="utf-8") == text:
            return 0
        print(f"{file}: stale; run: python -m core {command}", file=sys.stderr)
        return 1
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
