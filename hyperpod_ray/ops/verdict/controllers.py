"""Findings about controllers and daemons that the environment deploys; and what cannot recover without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import Controller, Snapshot
from hyperpod_ray.ops.verdict.finding import DEAD_STACK, JOIN_GRACE, Finding, deploy

START_GRACE = timedelta(minutes=5)
"""A pod that is not ready for longer does not just start."""
ADDONS = {
    "coredns": "coredns",
    "fsx-csi-controller": names.CSI_ADDON,
    "fsx-csi-node": names.CSI_ADDON,
    "ebs-csi-controller": names.EBS_CSI_ADDON,
    "ebs-csi-node": names.EBS_CSI_ADDON,
}
"""Workload of an EKS add-on → the add-on."""
REPLICAS = 2


def controllers(snapshot: Snapshot) -> Iterator[Finding]:
    """Controllers that are absent, scaled to zero, or not ready."""
    for controller in snapshot.controllers:
        finding = _judged(snapshot, controller)
        if finding is not None:
            yield finding


def down(snapshot: Snapshot) -> list[Controller]:
    """Controllers without which no pod of Ray's is created again, and of which none runs."""
    return [controller for controller in snapshot.controllers if controller.recovers and _is_down(snapshot, controller)]


def without_recovery(snapshot: Snapshot, finding: Finding) -> Finding:
    """A finding that says Recovering, where the controller that would recover it is down: it needs action."""
    if finding.kind != "recovering" or finding.recovery != "pods":
        return finding
    gone = down(snapshot)
    if not gone:
        return finding
    names_ = " and ".join(_said(controller) for controller in gone)
    return replace(
        finding,
        kind="action-required",
        what=f"{finding.what}; it does not recover: {names_}",
        expected_by=None,
        next=_next(snapshot, gone[0]),
    )


def _said(controller: Controller) -> str:
    if not controller.present:
        return f"{_named(controller)} is gone"
    if controller.wanted:
        return f"{_named(controller)} does not run"
    return f"{_named(controller)} " + ("is scaled to zero" if controller.kind == "Deployment" else "runs on no node")


def _named(controller: Controller) -> str:
    proper_name = controller.name == "CoreDNS" or controller.name.startswith("HyperPod's")
    return controller.name if proper_name else f"the {controller.name}"


def _is_down(snapshot: Snapshot, controller: Controller) -> bool:
    if controller.present and controller.wanted == 0 and controller.kind == "DaemonSet":
        return _unserved(snapshot, controller)
    if not controller.present:
        return not _being_deployed(snapshot)
    return controller.ready == 0 and (controller.wanted == 0 or not _young(snapshot, controller))


def _being_deployed(snapshot: Snapshot) -> bool:
    """Whether stacks are under way, incomplete or broken: those say that things are missing."""
    return any(
        not stack.status or stack.status.endswith("_IN_PROGRESS") or stack.status in DEAD_STACK
        for stack in snapshot.stacks
    )


def _young(snapshot: Snapshot, controller: Controller) -> bool:
    return controller.since is not None and snapshot.at - controller.since < START_GRACE


def _unserved(snapshot: Snapshot, controller: Controller) -> bool:
    """Whether nodes of a kind that a DaemonSet serves are there, and it runs on none of them."""
    ready = {names.instance_id(node.name) for node in snapshot.nodes if node.ready and not _fresh(snapshot, node.name)}
    return any(
        instance.id in ready and (not controller.types or instance.type in controller.types)
        for instance in snapshot.instances
    )


def _fresh(snapshot: Snapshot, name: str) -> bool:
    """Whether a node joined a moment ago, so that its daemons still start."""
    created = next((node.created for node in snapshot.nodes if node.name == name), None)
    return created is not None and snapshot.at - created < JOIN_GRACE


def _judged(snapshot: Snapshot, controller: Controller) -> Finding | None:
    if _is_down(snapshot, controller):
        return Finding(
            kind="action-required",
            what=f"{_said(controller)}: {controller.purpose}",
            why=controller.why,
            since=controller.since,
            next=_next(snapshot, controller),
            subject=controller.workload,
        )
    lacking = controller.wanted - controller.ready
    if not controller.present or lacking <= 0:
        return None
    summary = f"{_named(controller)} runs with {controller.ready} of {controller.wanted} pods"
    excused = [node for node in controller.nodes if not snapshot.answers(node) or _fresh(snapshot, node)]
    alone = controller.kind == "Deployment" and not controller.ready  # nothing of it is anywhere else
    if controller.nodes and len(excused) == len(controller.nodes) and not alone:
        return None  # the nodes have findings of their own
    describe = f"kubectl -n {controller.namespace} describe {controller.kind.lower()} {controller.workload}"
    if _young(snapshot, controller):
        return Finding(
            kind="recovering",
            what=f"{summary}; the others start",
            why=controller.why,
            since=controller.since,
            expected_by=(controller.since or snapshot.at) + START_GRACE,
            subject=controller.workload,
        )
    if controller.kind == "Deployment" and controller.ready:
        return Finding(
            kind="note",
            what=f"{summary}: with one more lost, {controller.purpose}",
            why=controller.why,
            since=controller.since,
            next=describe,
            subject=controller.workload,
        )
    where = ", ".join(names.instance_id(node) for node in controller.nodes if node not in excused)
    return Finding(
        kind="action-required",
        what=summary + (f"; not on {where}" if where else "") + f": {controller.purpose}",
        why=controller.why,
        since=controller.since,
        next=describe,
        subject=controller.workload,
    )


def _next(snapshot: Snapshot, controller: Controller) -> str:
    namespace, workload = controller.namespace, controller.workload
    if not controller.present and workload in ADDONS:
        cluster = f"--cluster-name {snapshot.eks_cluster} --addon-name {ADDONS[workload]}"
        return f"aws eks update-addon {cluster} --resolve-conflicts OVERWRITE"
    if not controller.present and workload == names.GUARD:
        return deploy(snapshot)
    if not controller.present:
        release = names.OPERATOR_CHART if workload == names.OPERATOR_CHART else names.DEPENDENCIES_CHART
        if release == names.OPERATOR_CHART:
            return f"helm -n {namespace} get manifest {release} | kubectl -n {namespace} apply -f -"
        # its objects are of two namespaces, and kubectl refuses those of another one than its own
        label = "app" if namespace == names.HYPERPOD_NAMESPACE else "app.kubernetes.io/name"
        only = f"-l {label}={workload} " if not workload.startswith("neuron") else ""
        return f"helm -n {names.KUBE_SYSTEM} get manifest {release} | kubectl -n {namespace} apply {only}-f -"
    if controller.wanted == 0 and controller.kind == "Deployment":
        return f"kubectl -n {namespace} scale deployment {workload} --replicas={REPLICAS}"
    return f"kubectl -n {namespace} describe {controller.kind.lower()} {workload}"
