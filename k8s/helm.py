"""The Helm releases, declared once and used by both renderings: the deploy and `make manifests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray.charts.lock import Lock, LockedChart
from hyperpod_ray.charts.store import locate, unpack
from hyperpod_ray.core import names, needs, project
from hyperpod_ray.core.model import InstanceGroup
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import ray_namespaces
from hyperpod_ray.k8s.operator import feature_gates
from hyperpod_ray.k8s.pods import group_tolerations, node_affinity, node_loss_tolerations, node_selector


@dataclass(frozen=True, kw_only=True)
class HelmRelease:
    """A chart of the lock file, installed under a name with values.

    Args:
        name: of the release.
        locked: the chart, its version, source and digest.
        namespace: where it goes.
        values: on top of the chart's own.
        wait: until what it created is ready. Never before there are nodes.
        timeout_minutes: Helm's own limit; at most 12, because the function that runs it is killed after 15
            and leaves the release in `pending-upgrade`.
        create_namespace: make the namespace if it is not there.
    """

    name: str
    locked: LockedChart
    namespace: str
    values: dict[str, Any] = field(default_factory=dict)
    wait: bool = False
    timeout_minutes: int = 10
    create_namespace: bool = False

    @property
    def chart(self) -> str:
        """Name in `Chart.yaml`."""
        return self.locked.chart

    @property
    def version(self) -> str:
        """Version in `Chart.yaml`."""
        return self.locked.version

    @property
    def source(self) -> str:
        """Where the chart comes from, for people."""
        return self.locked.source.describe()

    @property
    def archive(self) -> Path:
        """The packaged chart, verified against the lock. ChartMissingError says what to run when it is not there."""
        return locate(self.locked)

    @property
    def folder(self) -> Path:
        """The same, unpacked and verified: what a CDK chart asset needs (the kubectl handler only unzips)."""
        return unpack(self.locked)


def lock_of(plan: Plan) -> Lock:
    """The lock file of the environment (`helm.lock_file`, relative to the project)."""
    return Lock.read(project.file(plan.project, plan.settings.helm.lock_file), project=plan.project)


def hyperpod_dependencies(plan: Plan) -> HelmRelease:
    """What HyperPod needs in EKS before its cluster is created: health agent, deep health check, device plugins.

    Goes to kube-system without waiting, as there are no nodes yet. Operators this project does not use are not part of
    the packaged chart (`without` in the lock file). The device plugins run on this
    environment's instance types, also when the chart's own list does not know them yet, and tolerate its taints.
    https://github.com/aws/sagemaker-hyperpod-cli/tree/main/helm_chart
    """
    locked = lock_of(plan).chart(names.DEPENDENCIES_CHART, version=plan.settings.helm.hyperpod_dependencies)
    groups = plan.settings.hyperpod.instance_groups
    nvidia = [group for group in groups if plan.type_spec(group.type).accelerator == "nvidia"]
    efa = [group for group in groups if plan.type_spec(group.type).efa]
    values: dict[str, Any] = {
        # image registry of the agent; without it the chart guesses, at last us-east-1
        "global": {"region": plan.settings.region},
        "health-monitoring-agent": {"enabled": True, "region": plan.settings.region},
        "deep-health-check": {"enabled": True},
        "hyperpod-patching": {"enabled": True},
        # the service's permissions to restart PyTorchJobs: of no use to Ray, but AWS lists them as required
        "job-auto-restart": {"enabled": True},
        "nvidia-device-plugin": {"devicePlugin": {"enabled": needs.enabled(plan, "nvidia-device-plugin")}},
        "neuron-device-plugin": {"devicePlugin": {"enabled": needs.enabled(plan, "neuron-device-plugin")}},
        "aws-efa-k8s-device-plugin": {"devicePlugin": {"enabled": needs.enabled(plan, "aws-efa-k8s-device-plugin")}},
    }
    if nvidia:
        values["nvidia-device-plugin"] |= {
            "affinity": {"nodeAffinity": _on_types(nvidia)},
            "tolerations": [
                *_device_tolerations(plan, nvidia),
                {"key": names.GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
            ],
        }
    if efa:
        values["aws-efa-k8s-device-plugin"] |= {
            "supportedInstanceLabels": {"values": _types(efa)},
            "tolerations": [
                {"key": "CriticalAddonsOnly", "operator": "Exists"},
                {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
                *_device_tolerations(plan, efa),
            ],
        }
    _point_at_pulled(values, plan, names.DEPENDENCIES_CHART)
    return HelmRelease(name=names.DEPENDENCIES_CHART, locked=locked, namespace=names.KUBE_SYSTEM, values=values)


def kuberay_operator(plan: Plan) -> HelmRelease:
    """The KubeRay operator and its CRDs, on the head's CPU group (left alone it may land on a GPU node).

    Watches the Ray namespaces and has its permissions there only. Two replicas with leader election where the group has
    two nodes or more: CPU nodes are not replaced automatically. Waits until it is ready, as RayClusters come next.
    https://github.com/ray-project/kuberay/tree/master/helm-chart/kuberay-operator
    """
    group = plan.group(plan.settings.ray.head.instance_group)
    values: dict[str, Any] = {
        "nodeSelector": node_selector(group.name),
        "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
        "tolerations": [
            *node_loss_tolerations(plan.settings.ray.node_loss_seconds),
            *group_tolerations(plan, group.name),
        ],
        "replicas": min(2, max(1, group.count)),
        "leaderElectionEnabled": True,
        "singleNamespaceInstall": True,
        "watchNamespace": ray_namespaces(plan),
        # the chart's own list is replaced as a whole
        "featureGates": [{"name": name, "enabled": on} for name, on in feature_gates(plan).items()],
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            # the chart's limit of 100m makes start-up and large reconciles crawl
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
        "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    _point_at_pulled(values, plan, names.OPERATOR_CHART)
    return HelmRelease(
        name=names.OPERATOR_CHART,
        locked=lock_of(plan).chart(names.OPERATOR_CHART, version=plan.settings.helm.kuberay_operator),
        namespace=names.OPERATOR_NAMESPACE,
        values=values,
        wait=True,
    )


def helm_releases(plan: Plan) -> list[HelmRelease]:
    """Both releases, in the order of a deploy; the HyperPod cluster and its nodes come between them."""
    return [hyperpod_dependencies(plan), kuberay_operator(plan)]


def _point_at_pulled(values: dict[str, Any], plan: Plan, chart: str) -> None:
    """Set the image values of a chart where nodes pull something else than the chart names."""
    for need in needs.images(plan):
        if need.chart == chart:
            for path, value in need.values().items():
                node = values
                *above, leaf = path.split(".")
                for step in above:
                    node = node.setdefault(step, {})
                node[leaf] = value


def _types(groups: list[InstanceGroup]) -> list[str]:
    return sorted({name for group in groups for name in group.types})


def _on_types(groups: list[InstanceGroup]) -> dict[str, Any]:
    expression = {"key": names.INSTANCE_TYPE_LABEL, "operator": "In", "values": _types(groups)}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    }


def _device_tolerations(plan: Plan, groups: list[InstanceGroup]) -> list[dict[str, Any]]:
    """Nodes under deep health checks need their devices announced too; then each group's own taints, once."""
    tolerations: list[dict[str, Any]] = [
        {
            "key": names.HEALTH_LABEL,
            "operator": "Equal",
            "value": "Unschedulable",
            "effect": "NoSchedule",
        }
    ]
    for group in groups:
        tolerations += [
            toleration
            for toleration in group_tolerations(plan, group.name)
            if toleration not in tolerations and toleration["key"] != names.GPU_RESOURCE
        ]
    return tolerations
