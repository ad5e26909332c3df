"""The commands that the documentation prints run: in a fresh clone, and against an environment in the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.aws import install, process
from tests.docs.clone import Done, clone, run
from tests.docs.printed import Command, class_of, printed
from tests.ops.world import ACCOUNT, World, environment_text
from tests.support.web import web_server

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAMES = re.compile(r"(?<![\w/.])(demo|prod|dev|local|staging|research|ENV)(?![\w/.:-])")
NODE = re.compile(r"\b(hyperpod-)?(i-[\da-z]{8,}|i-spare|i-unreachable|NODE)\b")


def of_class(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Printed commands of a class with their entries, each once."""
    found: dict[str, dict[str, Any]] = {}
    for command in printed():
        known = class_of(command.text)
        if known and known[0] == name:
            found.setdefault(command.text, known[1])
    return sorted(found.items(), key=lambda item: _order(item[0]))


def _order(text: str) -> tuple[int, str]:
    """What breaks nodes or sets faults comes last."""
    late = ("faults set", "faults clear", "nodes free", "nodes re", "nodes drill", "fail-node", "quota")
    return next((number for number, word in enumerate(late, 1) if word in text), 0), text


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


CLONE, SANDBOX = of_class("clone"), of_class("sandbox")


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


# --- against an environment in the sandbox ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, fresh: Path) -> Iterator[tuple[World, Path]]:
    if not install.installed():
        pytest.fail("the embedded AWS is not installed: hyperpod-ray local setup")
    state: Path = tmp_path_factory.mktemp("aws")
    running = process.start(state=state, port=process.free_port(), seconds_per_state=1.0, account=ACCOUNT)
    made = World(running=running, state=state, folder=tmp_path_factory.mktemp("environments"))
    (fresh / ".local").mkdir()
    (fresh / ".local" / "aws").symlink_to(state)
    try:
        made.write(environment_text(count=4))
        made.create()
        made.install()
        made.settle()
        with web_server() as address:
            bridge = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265, "to": address}
            made.request("POST", "/rehearsal/bridges", bridge)
            yield made, fresh
    finally:
        process.stop(running, state)


def test_against_an_environment_in_the_sandbox(world: tuple[World, Path]) -> None:
    """One test: what a command breaks, the next one meets."""
    made, folder = world
    more = {
        **made.running.client.environment(),
        "KUBECONFIG": made.running.kubeconfig,
        "HYPERPOD_RAY_ENVIRONMENTS": str(made.folder),
    }
    wrong = []
    for text, entry in SANDBOX:
        line = _with_nodes(made, NAMES.sub(made.name, text) if "hyperpod-ray local" not in text else text)
        done = run(
            line, folder=folder, more=more, answers=entry.get("answers", ()), forever=entry.get("forever", False)
        )
        if done.code not in entry.get("exit", [130] if entry.get("forever") else [0]) or "Traceback" in done.out:
            wrong.append(f"{text}: exit {done.code}\n{done.out[-2000:]}")
        if "faults set" in text:
            made.running.client.clear_faults()
        if _order(text)[0] >= 3:
            for node in made.get("/api/v1/nodes")["items"]:
                if any(t["key"].endswith("out-of-service") for t in node["spec"].get("taints", [])):
                    made.node_mode(node["metadata"]["name"], "gone")
            made.settle()
    assert wrong == [], "\n\n".join(wrong)


def _with_nodes(made: World, line: str) -> str:
    """Put a node in the place of a printed one: one without pods, or for `free` one that no longer answers."""
    if not NODE.search(line):
        return line
    rows = made.ops("nodes", made.name, "--group", "workers", "-o", "json").json["nodes"]
    running = [row for row in rows if row["status"] == "Running"]
    if " free " in line:
        node = next(row["id"] for row in running if row["pods"])
        made.node_mode(f"hyperpod-{node}", "unreachable")
        made.until(lambda: '"unreachable"' in made.ops("nodes", made.name, "-o", "json").out, "silence")
    else:
        node = next(row["id"] for row in running if not row["pods"])
    return NODE.sub(lambda match: f"{match.group(1) or ''}{node}", line)
