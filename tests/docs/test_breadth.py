"""The list of commands and settings with who uses each: ADR 0015."""

from __future__ import annotations

import re

from hyperpod_ray.cli.main import tree
from tests.cli.test_one_command import nodes
from tests.docs.printed import PROJECT

PAGE = (PROJECT / "docs" / "adr" / "0015-each-command-and-setting-has-a-user.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading."""
    text = re.split(r"^##+ ", PAGE.partition(f"{heading}\n")[2], flags=re.M)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]


def test_each_command_has_a_user() -> None:
    commands = sorted(" ".join(path) for path, node in nodes(tree()) if not hasattr(node, "commands"))
    assert sorted(row[0].strip("`") for row in rows("### Commands")) == commands
    people = {row[0] for row in rows("## Decision")} | {"everybody"}
    assert {name for row in rows("### Commands") for name in row[1].split(", ")} <= people


def test_each_section_of_settings_has_a_user() -> None:
    page = (PROJECT / "docs" / "settings.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## `(\w+)", page, re.M))
    assert len(sections) > 10
    assert {row[0].strip("`") for row in rows("### Settings")} == sections | {"top level"}
