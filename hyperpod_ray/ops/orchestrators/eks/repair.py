"""Repair of nodes of an environment on EKS: HyperPod's API, and labels and taints of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import NODES, Instance, Snapshot
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import LOSES, HyperPodNodes, act_now
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair, Verb, When
from hyperpod_ray.ops.reach.clients import Target


class EksRepair:
    """Repair of the nodes of one environment."""

    def __init__(self, target: Target, nodes: HyperPodNodes) -> None:
        self.target, self.nodes = target, nodes

    def planned(self, nodes: Sequence[str], *, verb: Verb, when: When | None) -> NodeRepair:
        """At once: what runs there is lost."""
        del verb
        if when == "after-jobs":
            raise OpsError(
                "--when after-jobs: only Slurm knows when a node's jobs end",
                expected="an environment with orchestrator slurm",
                fix="stop the run, then give the command without --when",
                code=BAD_USE,
            )
        instances = list({instance.id: instance for instance in map(self.nodes.find, nodes)}.values())
        return NodeRepair(when="now", instances=tuple(instances), lines=tuple(self._riding(instances)))

    def outcome(self, verb: Verb) -> str:
        """What becomes of a node's name, address and disks."""
        return LOSES[verb].format(node="a new instance with a new name and address runs the lifecycle script")

    def carry_out(self, repair: NodeRepair, *, verb: Verb) -> str:
        """Call HyperPod's API."""
        return act_now(self.target, repair.instances, verb=verb)

    def _riding(self, instances: list[Instance]) -> list[str]:
        """Which Ray pods sit on the nodes; unknown where Kubernetes does not answer."""
        seen = gather.snapshot(self.target, only=("Kubernetes",))
        if not seen.saw("Kubernetes"):
            return [f"which pods sit there is unknown: {seen.unseen[0].why}"]
        lines = []
        for instance in instances:
            pods = [f"{pod.name} ({pod.role})" for pod in seen.pods if pod.node == names.node_name(instance.id)]
            lines.append(f"{instance.id} carries {', '.join(pods) if pods else 'no Ray pods'}")
        return lines

    def drill(self, node: str, *, action: str, yes: bool) -> int:
        """Rehearse a fault: tell the service that one worker node is to be replaced (or rebooted), as its agent would.

        Sets the label `node-health-status` on the Kubernetes node. Never the head's node, only accelerated nodes, and
        only where node recovery is on.
        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-manual.html
        """
        cluster = hyperpod.require_cluster(self.target)
        if cluster.node_recovery != "Automatic":
            raise OpsError(
                f"node recovery: {cluster.node_recovery}",
                expected="Automatic: otherwise nothing repairs the node",
                fix="set hyperpod.node_recovery: Automatic and deploy",
            )
        seen = self.nodes.look()
        _require_kubernetes(seen)
        heads = {pod.node for pod in seen.pods if pod.role == "head"}
        workers = [
            instance
            for instance in seen.instances
            if instance.status == "Running"
            and names.node_name(instance.id) not in heads
            and (group := seen.group(instance.group)) is not None
            and group.accelerated
            and any(node.name == names.node_name(instance.id) and node.ready for node in seen.nodes)
        ]
        if node:
            wanted = self.nodes.find(node)
            if names.node_name(wanted.id) in heads:
                raise OpsError(
                    f"node {wanted.id} carries the Ray head",
                    expected="a node of the workers",
                    fix=f"hyperpod-ray nodes {self.target.name}",
                    code=BAD_USE,
                )
            if wanted.id not in {candidate.id for candidate in workers}:
                raise OpsError(
                    f"node: {wanted.id}",
                    expected="a running, ready, accelerated worker node",
                    fix=f"hyperpod-ray nodes {self.target.name}",
                    code=BAD_USE,
                )
            chosen = wanted
        else:
            if not workers:
                raise OpsError(
                    "no node for a drill",
                    expected="a running, ready, accelerated worker node",
                    fix=f"hyperpod-ray nodes {self.target.name}",
                )
            carrying = {pod.node for pod in seen.pods if pod.role == "worker"}
            # a node that carries a worker makes the better drill; the first by name, so that two runs agree
            chosen = sorted(
                workers, key=lambda candidate: (names.node_name(candidate.id) not in carrying, candidate.id)
            )[0]
        status = {"replace": names.REPLACE, "reboot": names.REBOOT}[action]
        output.log(f"drill on {chosen.id} ({chosen.group}): label {names.HEALTH_LABEL}={status}")
        for line in self._riding([chosen]):
            output.log(f"  {line}")
        output.log(
            "  a running job loses this worker and resumes from its last checkpoint"
            + ("; the node's disks are destroyed" if action == "replace" else "")
        )
        output.confirm(f"Inject the fault on '{self.target.name}'?", yes=yes)
        path = f"/api/v1/nodes/{names.node_name(chosen.id)}"
        self.target.kubernetes.patch(path, {"metadata": {"labels": {names.HEALTH_LABEL: status}}})
        output.write_line(chosen.id)
        output.log(
            f"watch it: hyperpod-ray status {self.target.name}; "
            f"hyperpod-ray nodes events {self.target.name} --node {chosen.id}"
        )
        return OK

    def free(self, node: str, *, yes: bool) -> int:
        """Free the pods of a node that is gone for good while its Kubernetes object stays, by the out-of-service taint.

        Without it the pods stay Terminating and are never replaced. On a node that still runs, two
        copies of a pod would run: so it is refused unless Kubernetes has not heard of the node.
        """
        self.target.aws.require_account()
        name = names.node_name(names.instance_id(node))
        seen = self.nodes.look()
        _require_kubernetes(seen)
        found = next((node for node in seen.nodes if node.name == name), None)
        if found is None:
            raise OpsError(
                f"node: '{name}' is not in Kubernetes",
                expected="the name of a node",
                fix=f"hyperpod-ray nodes {self.target.name}",
                code=BAD_USE,
            )
        if found.ready:
            raise OpsError(
                f"node {name} answers Kubernetes",
                expected="a lost node: freed pods of a live one run twice",
                fix=f"hyperpod-ray nodes reboot {self.target.name} {names.instance_id(name)}",
                code=BAD_USE,
            )
        pods = [f"{pod.name} ({pod.role})" for pod in seen.pods if pod.node == name]
        output.log(
            f"free {name}: not ready since {output.clock(found.since)}; it has {', '.join(pods) or 'no Ray pods'}"
        )
        instance = next((candidate for candidate in seen.instances if names.node_name(candidate.id) == name), None)
        output.log(
            f"  HyperPod says {instance.status if instance else 'it is gone'}; be sure that it does not run any more"
        )
        output.confirm(f"Free the pods of {name}?", yes=yes)
        path = f"/api/v1/nodes/{name}"
        current = self.target.kubernetes.request("GET", path)
        taints = [
            taint for taint in current.get("spec", {}).get("taints") or [] if taint["key"] != names.OUT_OF_SERVICE
        ]
        taints.append({"key": names.OUT_OF_SERVICE, "value": names.OUT_OF_SERVICE_VALUE, "effect": "NoExecute"})
        # the version guards against a taint that the node controller sets in between
        version = current["metadata"]["resourceVersion"]
        self.target.kubernetes.patch(path, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
        output.write_line(name)
        output.log(
            f"its pods go within a minute; should the node come back: kubectl taint node {name} {names.OUT_OF_SERVICE}-"
        )
        return OK


def _require_kubernetes(seen: Snapshot) -> None:
    """An error where Kubernetes did not answer."""
    for source in seen.unseen:
        if source.source in ("Kubernetes", NODES):
            raise OpsError.outcome(source.why, fix=source.next or "run the command again")
