"""`nodes check` on Slurm: srun."""

from __future__ import annotations

import base64
import json
import secrets
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.observe import hyperpod, slurm
from hyperpod_ray.ops.observe.snapshot import Instance, Snapshot
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from hyperpod_ray.ops.orchestrators.node_check import MARK, Measured, Request, program
from hyperpod_ray.ops.orchestrators.slurm.run_folders import reading_node
from hyperpod_ray.ops.reach.clients import SlurmTarget

Runner = Callable[[Sequence[str]], str]
_ON_NODE = """
import os, sys, json, types, base64, zlib, io, contextlib
request = json.loads(sys.argv[1])
folder = request["folder"]
os.makedirs(folder, exist_ok=True)
request["probe"] = os.path.join(folder, "node_probe.py")
with open(request["probe"], "w") as stream:
    stream.write(PROBE)
module = types.ModuleType("slurm_probe")
exec(START, module.__dict__)
printed = io.StringIO()
try:
    with contextlib.redirect_stdout(printed):
        module.main([json.dumps(request)])
finally:
    import shutil
    shutil.rmtree(folder, ignore_errors=True)
sys.stdout.write(base64.encodebytes(zlib.compress(printed.getvalue().encode())).decode())
"""


class SlurmNodeCheck:
    """Measures idle compute nodes by `srun`, started on a node that mounts the file system."""

    def __init__(self, target: SlurmTarget, nodes: HyperPodNodes, *, run: Runner | None = None) -> None:
        self.target, self.nodes, self.run = target, nodes, run

    def measured(self, request: Request) -> Measured:
        """What the nodes answer."""
        target = self.target
        if request.address:
            raise OpsError(
                f"--address: {request.address}", expected="an environment on EKS: Slurm has no Jobs API",
                fix="remove it", code=BAD_USE,
            )  # fmt: skip
        seen = self.nodes.look()
        cluster = hyperpod.require_cluster(target)
        instances = hyperpod.instances(target)
        free, busy, hosts = self._idle(seen, instances, request)
        if not free:
            return Measured(answer={"answers": [], "busy": [{"host": host} for host in busy]}, hosts=hosts)
        node = reading_node(target, instances)
        if node is None:
            raise OpsError.outcome("no controller or login node runs", fix=target.command("status"))
        kinds = {group.type for group in target.plan.compute}
        gpus = max((target.plan.type_spec(kind).accelerators for kind in kinds), default=0)
        base = (request.storage if request.storage not in ("", "none") else names.MOUNT_PATH).rstrip("/")
        content = request.content(
            hosts=free, python=request.python, gpus=gpus, folder=f"{base}/.nodes-check-{secrets.token_hex(4)}-program"
        )
        limit = 2 * float(content["limit"])
        words = slurm.session(target, cluster, node, slurm_command(content))
        text = (self.run or _session(limit))(words)
        answer = slurm_answer(text)
        busy_hosts = [*answer["busy"], *({"host": host} for host in busy)]
        return Measured(answer={**answer, "busy": busy_hosts}, hosts=hosts)

    def _idle(
        self, seen: Snapshot, instances: Sequence[Instance], request: Request
    ) -> tuple[list[str], list[str], dict[str, str]]:
        """Compute nodes that are idle, those that are not, and instance IDs by Slurm's names."""
        if seen.slurm is None:
            raise OpsError.outcome(
                "Slurm does not answer: which nodes are idle is unknown", fix=self.target.command("status")
            )
        chosen_ids = {self.nodes.find(node).id for node in request.nodes}
        compute = {group.name for group in self.target.plan.compute}
        free: list[str] = []
        busy: list[str] = []
        hosts: dict[str, str] = {}
        for instance in instances:
            node = seen.slurm.of(instance)
            if node is None or instance.group not in compute or (chosen_ids and instance.id not in chosen_ids):
                continue
            hosts[node.name] = instance.id
            idle = node.state.rstrip("*~#").lower() == "idle" and not seen.slurm.on(node.name)
            (free if idle else busy).append(node.name)
        return free, busy, hosts


def _session(limit: float) -> Runner:
    fix = "see squeue on the controller, then run the command again"
    return lambda words: slurm.answer(words, seconds=limit, expectation="the test of the nodes to end", fix=fix)


def slurm_command(content: Mapping[str, Any]) -> str:
    """What runs on the node that reads and writes the file system: one line."""
    texts = {name: program(name) for name in ("node_probe", "slurm_probe")}
    whole = f"PROBE = {texts['node_probe']!r}\nSTART = {texts['slurm_probe']!r}\n{_ON_NODE}"
    packed = base64.b64encode(zlib.compress(whole.encode(), 9)).decode()
    start = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
    words = ["python3", "-c", start, json.dumps(content)]
    return f"{slurm.PATH}; echo {slurm.MARK} && {shlex.join(words)} && echo {slurm.DONE}"


def slurm_answer(text: str) -> dict[str, Any]:
    """The answer between the marks of a session."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        inner = lines[lines.index(slurm.MARK) + 1 : lines.index(slurm.DONE)]
        printed = zlib.decompress(base64.b64decode("".join(inner), validate=True)).decode()
        line = next(line for line in printed.splitlines() if line.startswith(MARK))
        return dict(json.loads(line.removeprefix(MARK)))
    except (ValueError, StopIteration, zlib.error):
        raise OpsError(
            "the answer of the test is cut short", expected="all of it over Session Manager",
            fix="run the command again",
        ) from None  # fmt: skip
