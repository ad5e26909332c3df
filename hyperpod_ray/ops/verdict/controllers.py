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
ADDONS = {"coredns": "coredns", "fsx-csi-controller": names.CSI_ADDON, "fsx-csi-node": names.CSI_ADDON}
"""Workload of an EKS add-on → the add-on."""
REPLICAS = 2


def controllers(seen: Snapshot) -> Iterator[Finding]:
    """Controllers that are absent, scaled to zero, or not ready."""
    for controller in seen.controllers:
        found = _judged(seen, controller)
        if found is not None:
            yield found


def down(seen: Snapshot) -> list[Controller]:
    """Controllers without which no pod of Ray's is created again, and of which none runs."""
    return [item for item in seen.controllers if item.recovers and _is_down(seen, item)]


def without_recovery(seen: Snapshot, finding: Finding) -> Finding:
    """A finding that says Recovering, where the controller that would recover it is down: it needs action."""
    if finding.kind != "recovering" or finding.recovery != "pods":
        return finding
    gone = down(seen)
    if not gone:
        return finding
    names_ = " and ".join(_said(item) for item in gone)
    return replace(
        finding,
        kind="action-required",
        what=f"{finding.what}; it does not recover: {names_}",
        expected_by=None,
        next=_next(seen, gone[0]),
    )


def _said(controller: Controller) -> str:
    if not controller.present:
        return f"{_named(controller)} is gone"
    if controller.wanted:
        return f"{_named(controller)} does not run"
    return f"{_named(controller)} " + ("is scaled to zero" if controller.kind == "Deployment" else "runs on no node")


def _named(controller: Controller) -> str:
    own = controller.name == "CoreDNS" or controller.name.startswith("HyperPod's")
    return controller.name if own else f"the {controller.name}"


def _is_down(seen: Snapshot, controller: Controller) -> bool:
    if controller.present and controller.wanted == 0 and controller.kind == "DaemonSet":
        return _unserved(seen, controller)
    if not controller.present:
        return not _being_deployed(seen)
    return controller.ready == 0 and (controller.wanted == 0 or not _young(seen, controller))


def _being_deployed(seen: Snapshot) -> bool:
    """Whether stacks are under way, incomplete or broken: those say that things are missing."""
    return any(
        not stack.status or stack.status.endswith("_IN_PROGRESS") or stack.status in DEAD_STACK for stack in seen.stacks
    )


def _young(seen: Snapshot, controller: Controller) -> bool:
    return controller.since is not None and seen.at - controller.since < START_GRACE


def _unserved(seen: Snapshot, controller: Controller) -> bool:
    """Whether nodes of a kind that a DaemonSet serves are there, and it runs on none of them."""
    ready = {names.instance_id(node.name) for node in seen.nodes if node.ready and not _fresh(seen, node.name)}
    return any(
        instance.id in ready and (not controller.types or instance.type in controller.types)
        for instance in seen.instances
    )


def _fresh(seen: Snapshot, name: str) -> bool:
    """Whether a node joined a moment ago, so that its daemons still start."""
    created = next((node.created for node in seen.nodes if node.name == name), None)
    return created is not None and seen.at - created < JOIN_GRACE


def _judged(seen: Snapshot, controller: Controller) -> Finding | None:
    if _is_down(seen, controller):
        return Finding(
            kind="action-required",
            what=f"{_said(controller)}: {controller.purpose}",
            why=controller.why,
            since=controller.since,
            next=_next(seen, controller),
            subject=controller.workload,
        )
    lacking = controller.wanted - controller.ready
    if not controller.present or lacking <= 0:
        return None
    what = f"{_named(controller)} runs with {controller.ready} of {controller.wanted} pods"
    excused = [node for node in controller.nodes if not seen.answers(node) or _fresh(seen, node)]
    alone = controller.kind == "Deployment" and not controller.ready  # nothing of it is anywhere else
    if controller.nodes and len(excused) == len(controller.nodes) and not alone:
        return None  # the nodes have findings of their own
    describe = f"kubectl -n {controller.namespace} describe {controller.kind.lower()} {controller.workload}"
    if _young(seen, controller):
        return Finding(
            kind="recovering",
            what=f"{what}; the others start",
            why=controller.why,
            since=controller.since,
            expected_by=(controller.since or seen.at) + START_GRACE,
            subject=controller.workload,
        )
    if controller.kind == "Deployment" and controller.ready:
        return Finding(
            kind="note",
            what=f"{what}: with one more lost, {controller.purpose}",
            why=controller.why,
            since=controller.since,
            next=describe,
            subject=controller.workload,
        )
    where = ", ".join(names.instance_id(node) for node in controller.nodes if node not in excused)
    return Finding(
        kind="action-required",
        what=what + (f"; not on {where}" if where else "") + f": {controller.purpose}",
        why=controller.why,
        since=controller.since,
        next=describe,
        subject=controller.workload,
    )


def _next(seen: Snapshot, controller: Controller) -> str:
    namespace, workload = controller.namespace, controller.workload
    if not controller.present and workload in ADDONS:
        cluster = f"--cluster-name {seen.eks_cluster} --addon-name {ADDONS[workload]}"
        return f"aws eks update-addon {cluster} --resolve-conflicts OVERWRITE"
    if not controller.present and workload == names.GUARD:
        return deploy(seen)
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
