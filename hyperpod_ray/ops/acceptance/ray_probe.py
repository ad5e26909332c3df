"""Starts the acceptance test on the nodes of a Ray cluster that have nothing else to do; prints one line of JSON.

    python -m hyperpod_ray_check.ray_probe '{"seconds": 60, "storage": "/fsx/…", "hosts": []}'

An agent takes all GPUs of its node, or all CPUs of a node without GPUs. A node whose GPUs a run holds is busy: it is
named and left alone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import node_probe

WAIT_SECONDS = 45.0
"""How long a node has to give its GPUs to the test; a process of Ray starts in a few seconds."""
HEAD = "node:__internal_head__"


class Agent:
    """One node's place in the test."""

    def look(self) -> dict[str, Any]:
        """Host, address, a free port, and the GPUs that torch can use."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        place = {"host": socket.gethostname(), "address": ray.util.get_node_ip_address(), "port": port}
        try:
            return {**place, "devices": node_probe.devices()}
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            return {**place, "error": str(error)[:300]}

    def measure(self, words: list[str], limit: float) -> dict[str, Any]:
        """The node's measurements."""
        command = [sys.executable, str(Path(node_probe.__file__)), "agent", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit + 120, check=False)
        for line in done.stdout.splitlines():
            if line.startswith(node_probe.MARK):
                return dict(json.loads(line[len(node_probe.MARK) :]))
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"error": last[:300]}


def candidates(hosts: list[str]) -> list[dict[str, Any]]:
    """Living nodes with GPUs; without any in the cluster, those with CPUs but for the head."""
    import ray

    living = [node for node in ray.nodes() if node["Alive"]]
    with_gpus = [node for node in living if node["Resources"].get("GPU")]
    chosen = with_gpus or [node for node in living if node["Resources"].get("CPU") and HEAD not in node["Resources"]]
    return [node for node in chosen if not hosts or node["NodeManagerHostname"] in hosts or node["NodeName"] in hosts]


def held(node: dict[str, Any]) -> bool:
    """Whether something holds GPUs of a node, or CPUs where it has none; False where the node has left."""
    import ray

    left = ray._private.state.available_resources_per_node().get(node["NodeID"])
    name = "GPU" if node["Resources"].get("GPU") else "CPU"
    return left is not None and left.get(name, 0) < node["Resources"][name]


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Measure the nodes that are free."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = candidates(list(request.get("hosts") or []))
    agents = []
    for node in nodes:
        gpus = node["Resources"].get("GPU", 0)
        holds = {"num_gpus": gpus, "num_cpus": 0} if gpus else {"num_cpus": node["Resources"]["CPU"]}
        place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        options: Any = {"scheduling_strategy": place, **holds}
        agents.append(ray.remote(**options)(Agent).remote())
    places: list[dict[str, Any] | None] = []
    looks = [agent.look.remote() for agent in agents]
    ready = (
        set(ray.wait(looks, num_returns=len(looks), timeout=request.get("wait", WAIT_SECONDS))[0]) if looks else set()
    )
    answers: list[dict[str, Any]] = []
    busy = []
    for node, agent, look in zip(nodes, agents, looks, strict=True):
        name = {"host": node["NodeManagerHostname"], "address": node["NodeManagerAddress"]}
        place_of: dict[str, Any] | None = None
        if look not in ready:
            ray.kill(agent)
            if held(node):
                busy.append(name)
            else:
                answers.append({**name, "error": "the node does not answer Ray, though no run holds it"})
        else:
            try:
                place_of = {**name, **ray.get(look), "gpus": int(node["Resources"].get("GPU", 0)), "agent": agent}
            except ray.exceptions.RayError as error:
                answers.append({**name, "error": f"{type(error).__name__}: the agent ended"})
        if place_of is not None and "error" in place_of:
            answers.append({**name, "error": place_of["error"]})
            place_of = None
        places.append(place_of)
    able = [answer for answer in places if answer]
    most = max((answer["devices"] for answer in able), default=0)
    for answer in able:
        if answer["devices"] < most:
            answers.append(
                {"host": answer["host"], "address": answer["address"],
                 "error": f"{answer['devices']} of {most} GPUs answer"}
            )  # fmt: skip
    measured = [answer for answer in able if answer["devices"] == most]
    answers += _measure(measured, max(1, most), request)
    return {"answers": answers, "busy": busy, "cuda": most > 0, "ranks": max(1, most)}


def _measure(places: list[dict[str, Any]], ranks: int, request: dict[str, Any]) -> list[dict[str, Any]]:
    import ray

    calls = []
    limit = float(request["limit"])
    for number, answer in enumerate(places):
        words = ["--node", str(number), "--nodes", str(len(places)), "--ranks", str(ranks), "--limit", str(limit)]
        words += ["--master", f"{places[0]['address']}:{places[0]['port']}", "--seconds", str(request["seconds"])]
        words += ["--storage", str(request["storage"]), "--storage-mib", str(request["storage_mib"])]
        calls.append(answer["agent"].measure.remote(words, limit))
    answers = []
    for answer, call in zip(places, calls, strict=True):
        name = {"host": answer["host"], "address": answer["address"]}
        try:
            answers.append({**ray.get(call, timeout=limit + 180), **name})
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError) as error:
            answers.append({**name, "error": f"{type(error).__name__}: the node's agent was lost"})
    return answers


def main(arguments: list[str]) -> int:
    """Measure, and print."""
    import ray

    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    sys.stdout.write(f"{node_probe.MARK}{json.dumps(run(json.loads(arguments[0])))}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
