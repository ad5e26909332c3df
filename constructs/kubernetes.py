"""Manifests and Helm releases of `k8s/`, applied by the cluster's kubectl function."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as s3_assets

from constructs import Construct, IDependable
from hyperpod_ray.constructs.refuse import refuse_deployment


class Manifest(Protocol):
    """What this module needs of a manifest: a stable name, its objects, and which manifests come before it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def objects(self) -> list[dict[str, Any]]: ...  # noqa: D102
    @property
    def after(self) -> Sequence[str]: ...  # noqa: D102


class Release(Protocol):
    """What this module needs of a Helm release."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def values(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def wait(self) -> bool: ...  # noqa: D102
    @property
    def timeout_minutes(self) -> int: ...  # noqa: D102
    @property
    def create_namespace(self) -> bool: ...  # noqa: D102
    @property
    def chart(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> str: ...  # noqa: D102


class Manifests(Construct):
    """Kubernetes objects, one `Custom::AWSCDK-EKS-KubernetesResource` per manifest, each after those that it names.

    Built here and not by `cluster.add_manifest`, which would put them into the cluster's stack. On destroy they are
    deleted in reverse; the handler swallows errors of a delete, so what must be gone needs a waiter of its own.

    Args:
        after: What must exist before all of them.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        manifests: Sequence[Manifest],
        after: Sequence[IDependable] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self.resources: dict[str, eks.KubernetesManifest] = {}
        for manifest in manifests:
            # overwrite: a create that was cut off after its side effect must be repeatable
            resource = eks.KubernetesManifest(
                self, manifest.name, cluster=cluster, manifest=manifest.objects, overwrite=True
            )
            before = [*after, *(self.resources[name] for name in manifest.after)]
            if before:
                resource.node.add_dependency(*before)
            self.resources[manifest.name] = resource


class HelmRelease(Construct):
    """A Helm release of a locked chart (`Custom::AWSCDK-EKS-HelmChart`); the chart travels as an asset.

    A chart that was not fetched yet does not stop `cdk synth` or `cdk diff`: the stack then carries a CloudFormation
    rule that refuses any deployment of it, before anything is created, saying what to run.

    Args:
        chart: The unpacked chart with its sub-charts inside (the handler only unzips the asset); None: not fetched.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        release: Release,
        chart: Path | None,
        after: Sequence[IDependable] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        if chart is None:
            refuse_deployment(
                self,
                f"chart {release.chart} {release.version} was not fetched: "
                "run 'hyperpod-ray charts fetch', then deploy again",
            )
        with tempfile.TemporaryDirectory() as placeholder:
            asset = s3_assets.Asset(self, "Chart", path=str(chart or _placeholder(release, Path(placeholder))))
        self.chart = eks.HelmChart(
            self,
            "Release",
            cluster=cluster,
            chart_asset=asset,
            release=release.name,
            namespace=release.namespace,
            create_namespace=release.create_namespace,
            values=dict(release.values),
            wait=release.wait,
            # The function ends after 15 minutes; a release cut off by that hangs in pending-upgrade.
            timeout=Duration.minutes(min(release.timeout_minutes, 12)),
        )
        self.chart.node.add_dependency(*after)


def _placeholder(release: Release, folder: Path) -> Path:
    chart = f"apiVersion: v2\nname: {release.chart}\nversion: {release.version}\ndescription: not fetched\n"
    (folder / "Chart.yaml").write_text(chart, encoding="utf-8")
    return folder
