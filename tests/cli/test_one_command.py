"""One command everywhere: no module is run by hand, and every command in code, docs and workflows parses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from docs import commands_page
from hyperpod_ray.cli.main import USAGE, main, tree, whole
from hyperpod_ray.ops import errors
from tests.cli.one_command_helpers import words

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = "cli|core|ops|k8s|review|image|rehearsal|sandbox|local|charts|pricing"
BY_HAND = re.compile(rf"python3? -m ({ROOMS})\b(?!\.)")
READ = {".py", ".md", ".yaml", ".yml", ".sh", ".svg", ".toml", ".json", ""}
HISTORY = {"CHANGELOG.md"}
"""The changelog names what earlier versions had."""


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        PROJECT / name
        for name in listed
        if Path(name).suffix in READ
        and (PROJECT / name).is_file()
        and name not in HISTORY
        and not name.startswith("tests/environments/broken/")  # not text, some of them
    ]


def test_no_module_is_run_by_hand() -> None:
    own = Path(__file__)
    found = [
        f"{path.relative_to(PROJECT)}:{number}"
        for path in files()
        if path != own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BY_HAND.search(line)
    ]
    assert found == []


def nodes(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group that help shows, the root included."""
    yield path, node
    for name, child in getattr(node, "commands", {}).items():
        if not child.hidden:
            yield from nodes(child, (*path, name))


def test_every_help_has_an_example_of_its_own() -> None:
    found = list(nodes(tree()))
    assert len(found) > 60
    lacking = [
        " ".join(path)
        for path, node in found
        if f"Examples:\n  hyperpod-ray {' '.join(path)}".rstrip() not in (node.epilog or "")
    ]
    assert lacking == []


def test_no_line_of_a_list_of_commands_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path, node in nodes(tree()):
        if hasattr(node, "commands"):
            assert main([*path, "--help"]) == 0
            listed = capsys.readouterr().out.partition("\nCommands:\n")[2].partition("\n\n")[0]
            assert [line for line in listed.splitlines() if line.endswith("...")] == [], path


def test_no_help_is_wider_than_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path, _ in nodes(tree()):
        assert main([*path, "--help"]) == 0
        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == [], path


@pytest.mark.slow
@pytest.mark.parametrize("words", ["plan dev", "env check dev", "--help"])
@pytest.mark.parametrize("shell", ["PYTHONIOENCODING=latin-1 {} >/dev/full 2>&1 || true; PYTHONIOENCODING=latin-1 {}",
                                   "{} >&-", "{} 2>&-", "PYTHONIOENCODING=ascii {}"])  # fmt: skip
def test_a_poor_terminal_and_a_closed_output_give_no_traceback(words: str, shell: str) -> None:
    command = f"{sys.executable} -m hyperpod_ray.cli {words}"
    ended = subprocess.run(["sh", "-c", shell.replace("{}", command)], capture_output=True, check=False, cwd=PROJECT)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stdout + ended.stderr and b"UnicodeEncodeError" not in ended.stderr


def test_the_root_lists_the_commands_in_their_order() -> None:
    from hyperpod_ray.cli.main import COMMANDS

    shown = [name for name, child in tree().commands.items() if not child.hidden]
    assert set(shown) <= set(COMMANDS), "a command without a place in the help"
    assert [name for name in tree().list_commands(None) if name in shown] == [n for n in COMMANDS if n in shown]
    life = ["env", "preflight", "deploy", "status", "submit", "teardown"]
    assert [name for name in COMMANDS if name in life] == life


def test_the_help_of_a_rehearsal_names_every_fault() -> None:
    from hyperpod_ray_rules.faults import NAMES
    from hyperpod_ray_sandbox.rehearsal.faults import FAULTS

    assert tuple(FAULTS) == NAMES


def test_the_page_of_exit_codes_has_them_all_and_the_shape_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    page = commands_page.exit_codes()
    codes = {value for name, value in vars(errors).items() if name.isupper() and type(value) is int}
    assert {int(row.split("|")[1]) for row in page.splitlines() if re.match(r"\| \d", row)} == codes
    assert main(["status", "stagin", "-o", "json"]) == 2
    printed = json.loads(capsys.readouterr().out)
    shown = json.loads(page.rpartition("```json\n")[2].partition("```")[0])
    assert shown.keys() | {"schema_version", "generated_at"} == printed.keys()
    assert shown["error"].keys() == printed["error"].keys()


def test_the_reference_holds_every_command_and_option() -> None:
    page = commands_page.page(tree())

    def walk(node: Any, path: tuple[str, ...]) -> None:
        children = getattr(node, "commands", None)
        if children is not None:
            for name, child in children.items():
                if not child.hidden:
                    walk(child, (*path, name))
            return
        section = page.partition(f"## `{' '.join(path)}`\n")[2].partition("\n## ")[0]
        assert section, path
        for param in node.params:
            for option in param.opts:
                assert option.startswith("-") is False or option in ("-h", "--help") or f"`{option}`" in section, path

    walk(tree(), ())


# --- commands that are written somewhere ------------------------------------------------------------------------------

# its own: a command keeps the help options of the first context that it is parsed in, here one without the root
TREE: Any = typer.main.get_command(whole())
NAMED = re.compile(r"(?<![\w.-])hyperpod-ray(?= )")
END = {
    ".py": re.compile(r"""[`"'|;)\n,]|\\n|…|#|\.(\s|$)| (to|asks|and|reads|does|on|says) |$"""),
    ".md": re.compile(r"[`|;\n…)]|\\$| > | \|\| | \[|#|$"),
}


def written() -> Iterator[tuple[str, str]]:
    """Place and text of each command."""
    for path in files():
        if path.suffix not in (".py", ".md", ".yml", ".yaml") or "tests" in path.relative_to(PROJECT).parts:
            continue
        end = END[".md"] if path.suffix in (".md", ".yml") else END[".py"]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for match in NAMED.finditer(line):
                if "[OPTIONS]" in line or line == "hyperpod-ray completion SHELL":
                    continue  # a usage line of the generated page
                text = line[match.end() + 1 :]
                stop = end.search(text)
                yield f"{path.relative_to(PROJECT)}:{number}", text[: stop.start() if stop else None].strip()


def problem(text: str) -> str:
    """Why a command does not parse; empty where it does. A bare name of a command is a mention, not a call."""
    path: list[str] = []
    rest, node = words(text), TREE
    while rest and getattr(node, "commands", None) is not None:
        word = rest.pop(0).rstrip(":")
        if word in ("--environments", "--tunnel"):
            rest.pop(0)
            continue
        if word in ("--help", "-h", "--version"):
            return ""
        if word not in node.commands:
            if path == ["nodes"]:
                rest, word = [word, *rest], "list"
            else:
                return f"no command '{' '.join([*path, word])}'"
        node, path = node.commands[word], [*path, word]
    if getattr(node, "commands", None) is not None or not rest:
        return ""
    try:
        node.make_context(" ".join(path), rest)
    except USAGE as error:
        message = str(error.format_message())
        # what a variable holds is one of the choices, or the command itself says so
        return "" if set("$}") & set(text) and "'1' is not one of" in message else message
    return ""


def test_every_written_command_parses() -> None:
    found = list(written())
    assert len(found) > 150
    wrong = [f"{place}: {text!r}: {why}" for place, text in found if (why := problem(text))]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    "text", ["frob", "nodes frob prod --x", "status prod --jsn", "local ray kil-node", "wait prod --timeout soon"]
)
def test_a_wrong_command_is_found(text: str) -> None:
    assert problem(text)


@pytest.mark.parametrize(
    "text",
    ["status prod", "nodes prod", "nodes", "submit prod -- python -x", "review --base main", "wait {x} --for {y}"],
)
def test_a_right_command_passes(text: str) -> None:
    assert problem(text) == ""
