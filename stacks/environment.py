"""One environment: a CDK Stage with its stacks, in the order of their creation."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from constructs import Construct
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray.constructs.functions import use_proxy
from hyperpod_ray.constructs.kubernetes import HelmRelease, Manifests
from hyperpod_ray.constructs.logs import own_function_logs
from hyperpod_ray.constructs.roles import harden_roles
from hyperpod_ray.core import names, outbound
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.orchestrators import ORCHESTRATORS
from hyperpod_ray.core.plan_names import ray_namespaces
from hyperpod_ray.k8s.helm import HelmRelease as Release
from hyperpod_ray.k8s.manifest import Manifest
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import chart_folder
from hyperpod_ray.stacks.parts import Parts


class EnvironmentStage(Parts):
    """`cdk deploy "NAME/*"`: the stacks of `hyperpod_ray.core.plan_names.stacks`, in the order of their creation.

    Your own stacks go into it too: `MyStack(stage, "Company", vpc=stage.vpc)`. Deploy, status, review and teardown
    count every stack of the Stage.

    Args:
        plan: The environment.
        project: Folder of the project.
    """

    def __init__(self, scope: Construct, *, plan: CommonPlan, project: Path) -> None:
        super().__init__(scope, plan=plan, project=project)
        settings = plan.settings
        importlib.import_module(ORCHESTRATORS[settings.orchestrator].stacks).build(self, plan)
        proxy = outbound.variables(plan)
        for stack in self.node.children:
            if isinstance(stack, EnvironmentStack):
                own_function_logs(stack)
                harden_roles(stack)
                use_proxy(stack, proxy)
        for key, value in {**settings.tags, names.ENVIRONMENT_TAG: plan.name}.items():
            cdk.Tags.of(self).add(key, value)

    # --- what your own stacks need -----------------------------------------------------------------------------------

    @property
    def vpc(self) -> ec2.IVpc:
        """The VPC of the nodes."""
        return self.network.network.vpc

    @property
    def node_subnets(self) -> dict[str, ec2.ISubnet]:
        """The nodes' private subnets, by availability zone ID."""
        return self.network.network.node_subnets

    @property
    def node_security_group(self) -> ec2.ISecurityGroup:
        """Security group of the nodes."""
        return self.network.network.node_security_group

    @property
    def node_role(self) -> iam.IRole:
        """The role of the nodes."""
        return self.nodes.execution.role

    @property
    def lifecycle_bucket(self) -> s3.IBucket | None:
        """Bucket of the nodes' lifecycle scripts; None on Slurm without a script."""
        return self.nodes.scripts.bucket if self.nodes.scripts else None

    @property
    def repository(self) -> ecr.IRepository | None:
        """Repository of the training image; None where the file names an image."""
        return self.image.image.repository if self.image else None

    @property
    def cluster_arn(self) -> str:
        """ARN of the HyperPod cluster."""
        return self.hyperpod.hyperpod.cluster.attr_cluster_arn

    @property
    def eks_cluster(self) -> eks.ICluster | None:
        """The EKS cluster; None on Slurm."""
        return self.control.eks.cluster if self.control else None

    @property
    def namespaces(self) -> list[str]:
        """Kubernetes namespaces of Ray, the environment's own first; none on Slurm."""
        return ray_namespaces(self.plan)

    @property
    def alarm_topic(self) -> sns.ITopic:
        """The topic that mails health events and alarms: your own alarms may publish to it."""
        return self.watching.health.topic

    def add_manifests(self, scope: Construct, construct_id: str, objects: Sequence[Mapping[str, Any]]) -> Manifests:
        """Apply Kubernetes objects of your own, in the order given, from a stack of yours.

        Args:
            scope: Your stack in this Stage, so that the environment's own stacks stay as they are.
            construct_id: Id of the construct.
            objects: Kubernetes objects as cdk8s or YAML give them, each with `kind` and `metadata.name`.

        Raises:
            ValueError: without a control plane, or for an object without a name.
        """
        if self.control is None or self.platform is None:
            raise ValueError(f"add_manifests: '{self.plan.name}' has no control plane. Expected an environment on EKS")
        manifests: list[Manifest] = []
        for manifest in objects:
            name = (manifest.get("metadata") or {}).get("name")
            if not manifest.get("kind") or not name:
                raise ValueError(
                    f"add_manifests: {dict(manifest)!r:.80}. Expected an object with kind and metadata.name"
                )
            before = (manifests[-1].name,) if manifests else ()
            manifests.append(Manifest(name=f"{manifest['kind']}-{name}", objects=[dict(manifest)], after=before))
        cdk.Stack.of(scope).add_stack_dependency(self.platform, reason="namespaces, drivers and operators come first")
        return Manifests(scope, construct_id, cluster=self.control.eks.cluster, manifests=manifests)

    def add_chart(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lock: str,
        key: str,
        namespace: str,
        values: Mapping[str, Any] | None = None,
    ) -> HelmRelease:
        """Install a Helm chart of your own, from a stack of yours. `hyperpod-ray charts fetch --lock LOCK` fetches it.

        Args:
            scope: Your stack in this Stage.
            construct_id: Id of the construct.
            lock: Lock file in your project, written as `charts.lock.yaml` is.
            key: Name of the chart in the lock file; also the name of the release.
            namespace: Kubernetes namespace; Helm makes it where there is none.
            values: Values of the chart. Default: those of the chart itself.

        Raises:
            ValueError: without a control plane.
            ChartError: the lock file is wrong, or a chart differs from its digest.
        """
        if self.control is None or self.platform is None:
            raise ValueError(f"add_chart: '{self.plan.name}' has no control plane. Expected an environment on EKS")
        locks = Lock.read(self.project / lock, project=self.project)
        if key not in locks.charts:
            raise ChartError(
                f"{lock}: charts.{key}: missing",
                expected=f"one of {', '.join(sorted(locks.charts))}",
                fix="correct the name, or add the chart to the lock",
            )
        release = Release(
            name=key,
            locked=locks.charts[key],
            namespace=namespace,
            values=dict(values or {}),
            create_namespace=True,
        )
        cdk.Stack.of(scope).add_stack_dependency(self.platform, reason="namespaces, drivers and operators come first")
        return HelmRelease(
            scope, construct_id, cluster=self.control.eks.cluster, release=release, chart=chart_folder(release)
        )

    def add_dashboard_row(self, *widgets: cloudwatch.IWidget) -> None:
        """Put widgets below those of the environment's dashboard, beside each other. Name resources as text.

        Raises:
            ValueError: a widget refers to a resource of your own stack, on which the dashboard's must not depend.
        """
        stack = self.watching
        written = stack.resolve([widget.to_json() for widget in widgets])
        own = self._own_resources()
        for logical_id in _referred(written):
            if logical_id in own:
                raise ValueError(
                    f"add_dashboard_row: a widget refers to {own[logical_id]}. Expected names as text: stack "
                    f"{stack.artifact_id} must not depend on yours. Fix: name it, or make a dashboard in your own stack"
                )
        stack.dashboard.add_row(widgets)

    def _own_resources(self) -> dict[str, str]:
        """Paths of the resources of the user's own stacks, by their logical ids."""
        stacks = [child for child in self.node.children if isinstance(child, cdk.Stack)]
        return {
            str(stack.resolve(element.logical_id)): element.node.path
            for stack in stacks if not isinstance(stack, EnvironmentStack)
            for element in stack.node.find_all() if isinstance(element, cdk.CfnElement)
        }  # fmt: skip


def _referred(written: Any) -> Iterator[str]:
    """Logical ids that a resolved value refers to."""
    if isinstance(written, Mapping):
        if "Ref" in written:
            yield str(written["Ref"])
        elif "Fn::GetAtt" in written:
            yield str(written["Fn::GetAtt"][0])
        for child in written.values():
            yield from _referred(child)
    elif isinstance(written, Sequence) and not isinstance(written, str):
        for child in written:
            yield from _referred(child)
