"""Every command that README and docs print has a class in `commands.yaml`, and each class is true."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.charts.executable import helm
from hyperpod_ray.cli.main import tree
from tests.cli.test_one_command import problem
from tests.docs.clone import environ
from tests.docs.printed import (
    CLASSES,
    DATA,
    PAGES,
    PROJECT,
    SHELL,
    Command,
    blocks,
    class_of,
    classes,
    matches,
    printed,
)

PRINTED = printed()


def entries(name: str) -> list[dict[str, Any]]:
    return classes()[name]


def test_the_pages_have_commands() -> None:
    assert len({command.text for command in PRINTED}) > 200
    assert len({command.page for command in PRINTED}) > 12


def test_every_printed_command_has_a_class() -> None:
    bare = [f"{command.place}: {command.text}" for command in PRINTED if class_of(command.text) is None]
    assert bare == [], "say in tests/docs/commands.yaml how each is proved:\n" + "\n".join(bare)


def test_a_new_command_has_none() -> None:
    assert class_of("hyperpod-ray frob prod") is None
    assert class_of("make frob") is None


def test_no_class_names_a_command_that_is_not_printed() -> None:
    assert set(classes()) == set(CLASSES)
    named = {entry["as"] for entry in entries("same")}
    stale = [
        f"{name}: {entry['run']}"
        for name, found in classes().items()
        for entry in found
        if entry["run"] not in named and not any(matches(entry["run"], command.text) for command in PRINTED)
    ]
    assert stale == []


def known(info: str) -> bool:
    """Whether a block's info string says commands, data, or Python, which other tests run."""
    return info in SHELL | DATA or info.startswith("python ")


def test_every_block_says_what_it_is() -> None:
    """A block without an info string, or an indented one, would escape the search."""
    unknown = {(block.page, block.info) for page in PAGES for block in blocks(page) if not known(block.info)}
    assert unknown == set()
    for page in PAGES:
        fenced = False
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            fenced = fenced != line.lstrip().startswith("```")
            assert fenced or not re.match(r"    (\$ |hyperpod-ray |make |npx |kubectl |aws )", line), f"{page}:{number}"


@pytest.mark.parametrize("entry", entries("same"), ids=lambda entry: entry["run"])
def test_what_is_the_same_is_run_elsewhere(entry: dict[str, Any]) -> None:
    known = class_of(entry["as"])
    assert (known[0] if known else "ci" if _made_by_ci(entry["as"]) else "") in {
        "clone",
        "sandbox",
        "walk",
        "tests",
        "ci",
    }, entry


def source_of(test: str) -> str:
    """The text of a test with the functions, fixtures and constants that it uses; the file for `::*`."""
    file, _, name = test.partition("::")
    text = (PROJECT / file).read_text("utf-8")
    if name == "*":
        return text
    tops = top_level(text)
    for node in ast.parse(text).body:
        # what files of tests share stands in a module beside them
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_helpers"):
            helpers = PROJECT / f"{(node.module or '').replace('.', '/')}.py"
            tops = {**top_level(helpers.read_text("utf-8")), **tops}
    reached, waiting = {name}, [name]
    while waiting:
        piece = tops[waiting.pop()]  # KeyError: there is no such test
        more = {word for word in re.findall(r"\w+", piece) if word in tops} - reached
        reached |= more
        waiting += more
    return "\n".join(tops[top] for top in tops if top in reached)


def top_level(text: str) -> dict[str, str]:
    """The text of each function, class and constant of a file."""
    tops: dict[str, str] = {}
    for node in ast.parse(text).body:
        lines = text.splitlines()[min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1 :]
        piece = "\n".join(lines[: (node.end_lineno or node.lineno) - (len(text.splitlines()) - len(lines))])
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            tops[node.name] = piece
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                tops[ast.unparse(target)] = piece
    return tops


def words_of(command: str) -> list[str]:
    """The words that make a command what it is: its program's verbs and its options."""
    words = shlex.split(command.replace("*", " "))
    if words[0] != "hyperpod-ray":
        return [
            word for word in words if word not in ("-", "-m") and not re.search(r"\.venv|^-f$|^python$|[A-Z]{4}", word)
        ]
    node, verbs = tree(), []
    for word in words[1:]:
        if word not in getattr(node, "commands", {}):
            break
        node = node.commands[word]
        verbs.append(word)
    return verbs + [word for word in words if word.startswith("--")]


@pytest.mark.parametrize("entry", entries("tests"), ids=lambda entry: entry["run"])
def test_the_named_test_runs_the_command(entry: dict[str, Any]) -> None:
    source = source_of(entry["test"])
    missing = [
        word
        for word in ([entry["through"]] if "through" in entry else words_of(entry["run"]))
        if not re.search(rf"(?<![\w-])({re.escape(word)}|{re.escape(word.strip('-').replace('-', '_'))})", source)
    ]
    assert missing == [], entry["test"]


def test_a_test_of_another_command_does_not_count() -> None:
    source = source_of("tests/docs/test_printed_commands.py::test_a_new_command_has_none")
    assert "frob" in source and "teardown" not in source
    assert words_of("hyperpod-ray teardown prod --confirm prod") == ["teardown", "--confirm"]


# --- what .ci/run makes -----------------------------------------------------------------------------------------------


def _made_by_ci(text: str) -> bool:
    """Whether a make target, or the command in a target's recipe, is among what `.ci/run` makes."""
    steps = re.findall(r"^step make (.+)$", (PROJECT / ".ci/run").read_text(), re.MULTILINE)
    makefile = (PROJECT / "Makefile").read_text()
    rules = {
        target: (needs.split("#")[0].split(), recipe)
        for target, needs, recipe in re.findall(r"^([\w-]+): ?(.*)\n((?:\t.*\n)*)", makefile, re.MULTILINE)
    }
    wanted, seen = [word for step in steps for word in step.split()], set()
    while wanted:
        target = wanted.pop()
        if target in rules and target not in seen:
            seen.add(target)
            wanted += rules[target][0]
    if text.startswith("make "):
        return set(text.split()[1:]) <= seen
    words = text.removeprefix("hyperpod-ray ").split(" --")[0]
    return any(f"$(RUN) {words}" in rules[target][1] for target in seen)


@pytest.mark.parametrize("entry", entries("ci"), ids=lambda entry: entry["run"])
def test_ci_runs_it(entry: dict[str, Any]) -> None:
    assert _made_by_ci(entry["run"])


@pytest.mark.xfail(
    strict=True, reason="the slow tests and the walk return to .ci/run when one whole run of them was green"
)
def test_ci_walks() -> None:
    assert _made_by_ci("make walk")
    assert not _made_by_ci("make pin")


# --- what nothing runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [command for command in PRINTED if (found := class_of(command.text)) and found[0] == "account"],
    ids=lambda command: command.place,
)
def test_what_needs_an_account_is_at_least_understood(command: Command, tmp_path: Path) -> None:
    """Options and operations exist, by the program's own parser."""
    words = shlex.split(command.text)
    match words[0]:
        case "hyperpod-ray":
            assert problem(command.text.removeprefix("hyperpod-ray ")) == ""
        case "make":
            assert _dry(["make", "--dry-run", *words[1:]], tmp_path) == 0
        case "npx" | "cdk":
            verb = words[words.index("cdk") + 1]
            assert _dry([str(PROJECT / "node_modules/.bin/cdk"), verb, "--help"], tmp_path) == 0
        case "aws":
            import boto3

            client = boto3.client(words[1], region_name="us-west-2")  # type: ignore[call-overload]
            shape = client.meta.service_model.operation_model("".join(map(str.title, words[2].split("-")))).input_shape
            options = {
                "".join(part[:1].upper() + part[1:] for part in w[2:].split("-")) for w in words if w[:2] == "--"
            }
            assert {option.casefold() for option in options} <= {name.casefold() for name in shape.members}
        case "pip":
            assert (PROJECT / words[words.index("--constraint") + 1]).is_file()
        case "python" | ".venv/bin/python":
            if words[1] == "-m":
                module = PROJECT / words[2].replace(".", "/")
                assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()
            else:
                assert list((PROJECT / "tests").rglob(Path(words[1]).name)), words[1]
        case ".github/protect.sh":
            assert subprocess.run(["bash", "-n", words[0]], cwd=PROJECT, check=False).returncode == 0
        case "helm":
            program = helm()
            assert program is not None
            assert _dry([str(program), words[1], "--help"], tmp_path) == 0
        case "kubectl":
            assert words[1] == "--namespace"
            assert words[3] in ("exec", "logs")
        case _:
            assert words[0] == "ray" or "=" in words[0], command.text


def _dry(words: list[str], home: Path) -> int:
    variables = environ(PROJECT, {"HOME": str(home)})
    return subprocess.run(words, cwd=PROJECT, env=variables, capture_output=True, check=False).returncode


def test_the_docs_list_what_nothing_runs() -> None:
    """The list in the sandbox's page, in the order of `commands.yaml`."""
    text = (PROJECT / "docs/embedded-aws.md").read_text("utf-8").partition("## Commands that nothing runs\n")[2]
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(entry["run"], entry["why"]) for entry in entries("account")]
