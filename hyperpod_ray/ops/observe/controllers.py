"""Every controller and daemon that an environment deploys, and how much of it runs.

A DaemonSet's `desiredNumberScheduled` and a Deployment's `spec.replicas` say what should run; `readyReplicas` and
`numberReady` say what does. The API server omits a count of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hyperpod_ray.core import names
from hyperpod_ray.core.model import InstanceTypeSpec
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops.observe.snapshot import (
    Controller,
)
from hyperpod_ray.ops.reach.clients import Json, Kubernetes
from hyperpod_ray.ops.reach.ray_pods import Pod


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A workload that a chart or an add-on brings.

    Args:
        name: For messages.
        purpose: What does not work without it.
        namespace: Where it runs.
        kind: Deployment or DaemonSet.
        stem: The object's name, or its end: sub-charts put their release's name before it.
        serves: Whether it serves an instance type. None: nodes of every type.
        recovers: Whether pods of Ray's are not replaced without it.
    """

    name: str
    purpose: str
    namespace: str
    kind: str
    stem: str
    serves: Callable[[InstanceTypeSpec], bool] | None = None
    recovers: bool = False

    def types(self, plan: Plan) -> tuple[str, ...]:
        """Instance types of the environment that it serves; none where it serves all."""
        groups = plan.settings.hyperpod.instance_groups
        types = sorted({name for group in groups for name in group.types if plan.known(name)})
        return tuple(
            instance_type for instance_type in types if self.serves and self.serves(plan.type_spec(instance_type))
        )


PLUGINS: tuple[tuple[str, str, str, Callable[[InstanceTypeSpec], bool]], ...] = (
    ("NVIDIA", "nvidia-device-plugin", names.GPU_RESOURCE, lambda spec: spec.accelerator == "nvidia"),
    ("Neuron", "neuron-device-plugin-daemonset", names.NEURON_RESOURCE, lambda spec: spec.accelerator == "neuron"),
    ("EFA", "aws-efa-k8s-device-plugin", names.EFA_RESOURCE, lambda spec: bool(spec.efa)),
)
EXPECTED = (
    Expected(
        name="KubeRay operator",
        purpose="no pod of a RayCluster is created or replaced",
        namespace=names.OPERATOR_NAMESPACE,
        kind="Deployment",
        stem=names.OPERATOR_CHART,
        recovers=True,
    ),
    Expected(
        name="CoreDNS",
        purpose="workers do not find the head",
        namespace=names.KUBE_SYSTEM,
        kind="Deployment",
        stem="coredns",
        recovers=True,
    ),
    Expected(
        name="FSx CSI driver's controller",
        purpose="no file system is created for a claim, and none is attached",
        namespace=names.KUBE_SYSTEM,
        kind="Deployment",
        stem="fsx-csi-controller",
    ),
    Expected(
        name="FSx CSI driver's node daemon",
        purpose=f"a pod that moves to another node cannot mount {names.MOUNT_PATH}",
        namespace=names.KUBE_SYSTEM,
        kind="DaemonSet",
        stem="fsx-csi-node",
        recovers=True,
    ),
    Expected(
        name="EBS CSI driver's controller",
        purpose="a head that moves to another node waits for the volume with its state",
        namespace=names.KUBE_SYSTEM,
        kind="Deployment",
        stem="ebs-csi-controller",
    ),
    Expected(
        name="EBS CSI driver's node daemon",
        purpose="a head that moves to another node cannot mount its state",
        namespace=names.KUBE_SYSTEM,
        kind="DaemonSet",
        stem="ebs-csi-node",
    ),
    Expected(
        name="HyperPod's health-monitoring agent",
        purpose="no faulty node is found, so none is replaced",
        namespace=names.HYPERPOD_NAMESPACE,
        kind="DaemonSet",
        stem="health-monitoring-agent",
        serves=lambda spec: spec.accelerators > 0,
    ),
    *(
        Expected(
            name=f"{brand} device plugin",
            purpose=f"nodes announce no {resource}, so no new worker is placed",
            namespace=names.KUBE_SYSTEM,
            kind="DaemonSet",
            stem=stem,
            serves=serves,
            recovers=True,
        )
        for brand, stem, resource, serves in PLUGINS
    ),
    Expected(
        name="node guard",
        purpose="the pods of a silent node whose object stays are not replaced",
        namespace=names.GUARD,
        kind="Deployment",
        stem=names.GUARD,
    ),
)
"""Names: the charts of charts.lock.yaml, EKS's add-ons (`coredns`, the CSI drivers), and `k8s/guard.py`."""
PATHS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}


def expected(plan: Plan) -> list[Expected]:
    """What an environment deploys."""
    absent = set() if plan.settings.hyperpod.node_guard is not None else {names.GUARD}
    absent |= set() if plan.head_volume_gib is not None else {"ebs-csi-controller", "ebs-csi-node"}
    return [
        workload
        for workload in EXPECTED
        if workload.stem not in absent and (workload.serves is None or workload.types(plan))
    ]


def listing(kubernetes: Kubernetes, namespace: str, kind: str) -> list[Json]:
    """The workloads of a kind in a namespace."""
    return kubernetes.items(f"/apis/apps/v1/namespaces/{namespace}/{PATHS[kind]}")


def found(workload: Expected, listed: Sequence[Json], *, plan: Plan) -> tuple[Controller, str]:
    """How much of a workload runs, from the objects of its kind in its namespace; and the selector of its pods."""
    matching = [obj for obj in listed if _is(workload, obj["metadata"]["name"])]
    controller = Controller(
        name=workload.name,
        purpose=workload.purpose,
        namespace=workload.namespace,
        kind=workload.kind,
        workload=workload.stem,
        present=bool(matching),
        recovers=workload.recovers,
        types=workload.types(plan),
    )
    if not matching:
        return controller, ""
    (obj, *_) = sorted(matching, key=lambda obj: len(obj["metadata"]["name"]))
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if workload.kind == "DaemonSet":
        desired, ready = status.get("desiredNumberScheduled") or 0, status.get("numberReady") or 0
    else:
        desired, ready = spec.get("replicas", 1), status.get("readyReplicas") or 0
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return replace(controller, workload=obj["metadata"]["name"], wanted=int(desired or 0), ready=int(ready)), selector


def with_pods(controller: Controller, pods: Sequence[Pod]) -> Controller:
    """A controller of which pods are not ready, with what those say."""
    unready = [pod for pod in pods if not pod.ready and not pod.deleting_since]
    if not unready:
        return controller
    earliest = min(unready, key=lambda pod: (pod.ready_since is None, pod.ready_since, pod.name))
    return replace(
        controller,
        since=earliest.ready_since or earliest.created,
        why=": ".join(filter(None, [earliest.reason, earliest.message])),
        nodes=tuple(sorted({pod.node for pod in unready if pod.node})),
    )


def _is(workload: Expected, name: str) -> bool:
    return name == workload.stem or name.endswith(f"-{workload.stem}")
