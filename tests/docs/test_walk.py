"""The commands that the documentation prints run in a fresh clone, and their printed output is real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.clone import Done, clone, run
from tests.docs.printed import NAMES, Command, of_class, printed

pytestmark = [pytest.mark.slow]


def check(text: str, done: Done, entry: dict[str, Any]) -> None:
    assert done.code in entry.get("exit", [0]), f"{text}: exit {done.code}\n{done.out[-4000:]}"
    assert "Traceback (most recent call last)" not in done.out, f"{text}\n{done.out[-4000:]}"


# --- in a fresh clone -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = clone(tmp_path_factory.mktemp("clone") / "ray on hyperpod")
    (folder.parent / "home" / ".local/share/bash-completion/completions").mkdir(parents=True)
    (folder.parent / "home" / ".config/fish/completions").mkdir(parents=True)
    return folder


CLONE = of_class("clone")


@pytest.mark.parametrize(("text", "entry"), CLONE, ids=lambda item: item if isinstance(item, str) else "")
def test_in_a_fresh_clone(fresh: Path, text: str, entry: dict[str, Any]) -> None:
    more = {"fpath": str(fresh.parent / "home")}
    line = NAMES.sub("dev", text) if " ENV" in text else text
    done = run(line, folder=fresh, more=more, answers=entry.get("answers", ()))
    check(text, done, entry)
    if " env new " in text:
        (fresh / "environments" / "staging.yaml").unlink(missing_ok=True)


# --- what the pages print as output -----------------------------------------------------------------------------------

OUTPUTS = {"hyperpod-ray env check prod": ("environments/prod.yaml", "type: ml.p5.48xlarge", "type: p5.48xlarge")}
"""A command with printed output: the file that the page changes before it, and how."""


@pytest.mark.parametrize("command", [c for c in printed() if c.output], ids=lambda c: c.place)
def test_the_printed_output_is_the_real_one(fresh: Path, command: Command) -> None:
    file, before, after = OUTPUTS[command.text]
    path = fresh / file
    original = path.read_text()
    assert before in original
    path.write_text(original.replace(before, after))
    try:
        done = run(command.text, folder=fresh, more={})
    finally:
        path.write_text(original)
    assert command.output in done.out
    assert done.code == 2
