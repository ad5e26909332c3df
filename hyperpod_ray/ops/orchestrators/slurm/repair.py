"""Repair of nodes of an environment on Slurm: at once by HyperPod's API, or by a reason in Slurm after their jobs."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe import hyperpod, slurm
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import LOSES, HyperPodNodes, act_now
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair, Verb, When
from hyperpod_ray.ops.orchestrators.slurm import judgement
from hyperpod_ray.ops.orchestrators.slurm.instead import refused_command
from hyperpod_ray.ops.reach.clients import SlurmTarget


class SlurmRepair:
    """Repair of the nodes of one environment."""

    def __init__(self, target: SlurmTarget, nodes: HyperPodNodes) -> None:
        self.target, self.nodes = target, nodes

    def planned(self, nodes: Sequence[str], *, verb: Verb, when: When | None) -> NodeRepair:
        """At once or after the jobs of the nodes, as `judgement` has it."""
        instances = list({instance.id: instance for instance in map(self.nodes.find, nodes)}.values())
        command = " ".join(["hyperpod-ray", "nodes", verb, self.target.name, *nodes])
        return judgement.judged(self.nodes.look(), instances, verb=verb, when=when, command=command)

    def outcome(self, verb: Verb) -> str:
        """What becomes of a node's name, address and disks."""
        return LOSES[verb].format(node="a new instance with the same name in Slurm starts")

    def carry_out(self, repair: NodeRepair, *, verb: Verb) -> str:
        """Call HyperPod's API, or give the nodes a reason in Slurm."""
        if repair.when == "now":
            return act_now(self.target, repair.instances, verb=verb)
        cluster = hyperpod.require_cluster(self.target)
        controller = slurm.controller_of(self.target, hyperpod.instances(self.target))
        if controller is None:
            raise OpsError.outcome("the Slurm controller does not run", fix=self.target.command("status"))
        slurm.update(self.target, cluster, controller, repair.hosts, reason=judgement.REASONS[verb])
        for host in repair.hosts:
            output.write_line(host)
        return f"asked for; watch it: hyperpod-ray nodes {self.target.name}"

    def drill(self, node: str, *, action: str, yes: bool) -> int:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "nodes drill")

    def free(self, node: str, *, yes: bool) -> int:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "nodes free")
