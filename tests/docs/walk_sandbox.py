"""Commands against a deployed environment, as printed: `make walk` runs this against the sandbox's APIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import install, process
from tests.docs.clone import clone, run
from tests.docs.printed import NAMES, of_class
from tests.ops.world import ACCOUNT, World, environment_text
from tests.support.web import web_server

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NODE = re.compile(r"\b(hyperpod-)?(i-…|(?:i-[\da-z]{8,}|i-spare|i-unreachable|NODE)\b)")
LATE = (
    *("faults set", "faults clear", "nodes free", "nodes re", "nodes drill", "fail-node", "quota"),
    *("ray-job", "create secret"),
)
"""What breaks nodes, sets faults, or takes room comes last, in this order."""


def order(text: str) -> tuple[int, str]:
    return next((number for number, word in enumerate(LATE, 1) if word in text), 0), text


SANDBOX = sorted(of_class("sandbox"), key=lambda item: order(item[0]))


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return clone(tmp_path / "ray on hyperpod")


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, fresh: Path) -> Iterator[tuple[World, Path]]:
    if not install.installed():
        pytest.fail("the embedded AWS is not installed: hyperpod-ray local setup")
    state: Path = tmp_path_factory.mktemp("aws")
    running = process.start(state=state, seconds_per_state=1.0, account=ACCOUNT)
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
        if 3 <= order(text)[0] <= 6:
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
