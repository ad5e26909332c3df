"""Every command of docs/runbook.md does what the page says: it is run, in the page's order, on a world of its own."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.ops.world import ROOT, World, environment_text
from tests.support.web import web_server

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
COMMANDS = [line[2:] for block in FENCE.findall(PAGE) for line in block.splitlines() if line.startswith("$ ")]
ALLOWED = {
    "wait demo --for healthy --timeout 1": {0, 4},
    "preflight demo": {3},  # the embedded AWS is not bootstrapped
    "logs demo": {0, 1},  # no node of the embedded AWS writes a log
    "connect demo --check --port 0": {0},
    "data --fail-on-stale": {0, 3},  # what is stale depends on the day
    "cost demo --update": {1},  # the embedded AWS has no Price List
    "connect demo --check": {1},  # its port is held
}


@pytest.fixture(scope="module")
def own(start_world: object) -> Iterator[World]:
    made: World = start_world()  # type: ignore[operator]
    made.write(environment_text())
    made.create()
    made.install()
    made.settle()
    with web_server() as address:
        bridge = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265, "to": address}
        made.request("POST", "/rehearsal/bridges", bridge)
        with socket.socket() as taken:
            with contextlib.suppress(OSError):  # held by another process: as good
                taken.bind(("127.0.0.1", 8265))
                taken.listen()
            yield made
    made.stop()


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 15
    assert all(command.startswith("hyperpod-ray ") for command in COMMANDS)


def test_every_symptom_of_the_issue_has_its_chapter() -> None:
    for symptom in (
        "The job hangs",
        "A pod is Pending",
        "A node is Unschedulable",
        "The destroy is stuck",
        "InService but no nodes",
        "Connect: the port is busy",
        "Connect: connection refused",
    ):
        assert f"## {symptom}\n" in PAGE


def test_every_command_runs(own: World) -> None:
    for command in COMMANDS:
        line = _with_nodes(own, command.removeprefix("hyperpod-ray "))
        if "--web" in line:
            _page(own, line)
            continue
        result = own.ops(*shlex.split(line))
        allowed = next((codes for start, codes in ALLOWED.items() if line.startswith(start)), {0})
        assert result.code in allowed, f"{command}\n{result.out}\n{result.err}"
        if "--yes" in line:
            for node in own.get("/api/v1/nodes")["items"]:
                if any(t["key"].endswith("out-of-service") for t in node["spec"].get("taints", [])):
                    own.node_mode(node["metadata"]["name"], "gone")
            own.settle()


def _page(own: World, line: str) -> None:
    """The page of an environment: served with its verdict and every node, refused without its key, ended by Ctrl-C."""
    started = subprocess.Popen(
        [sys.executable, "-m", "hyperpod_ray.cli", *shlex.split(line)], env=own.environ(), cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")

        def text() -> str:
            with opener.open(url, timeout=600) as answer:
                return str(answer.read().decode())

        own.until(lambda: "Asking AWS and Kubernetes" not in text(), "the first look")
        page = text()
        assert re.search(r"Healthy|Recovering|Action required", page) and "Instance groups" in page
        assert all(node["InstanceId"] in page for node in own.instances())
        with pytest.raises(urllib.error.HTTPError):
            opener.open(f"http://127.0.0.1:{url.split(':')[2].split('/')[0]}/", timeout=600)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=600)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130 and err.splitlines()[-1] == "closed", err


def _with_nodes(own: World, line: str) -> str:
    rows = own.ops("nodes", "demo", "--group", "workers", "-o", "json").json["nodes"]
    if "i-spare" in line:
        line = line.replace(
            "i-spare", next(row["id"] for row in rows if row["status"] == "Running" and not row["pods"])
        )
    if "i-unreachable" in line:
        node = next(row["id"] for row in rows if row["pods"])
        own.node_mode(f"hyperpod-{node}", "unreachable")
        own.until(lambda: own.ops("nodes", "demo", "-o", "json").out.count('"unreachable"') == 1, "silence")
        line = line.replace("i-unreachable", node)
    return line
