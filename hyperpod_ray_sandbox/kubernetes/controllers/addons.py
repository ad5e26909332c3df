"""Workloads of EKS add-ons: what `coredns` and the CSI drivers of FSx and EBS run, under the names that EKS gives them.

Made once when the embedded EKS has the add-on, and deleted with it. In between they belong to whoever scales or deletes
them, as in EKS, which looks at them again only when the add-on is updated. Their pods do nothing; their images are
pulled by the rules of every image. Sources: the deployment of CoreDNS in EKS's guide (k8s-app `kube-dns`), and
charts/*/templates of kubernetes-sigs/aws-fsx-csi-driver and aws-ebs-csi-driver.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_rules import data, names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]
log = logging.getLogger(__name__)
_TOLERATES_ALL = [{"operator": "Exists"}]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One object of an add-on.

    Args:
        kind: Deployment or DaemonSet.
        name: Of the object, and the value of its label `app`.
        repository: Of its image.
        section: Key of the add-on's configuration whose `nodeSelector` and `tolerations` are its own; empty: the top.
    """

    kind: str
    name: str
    repository: str
    section: str = ""


WORKLOADS: dict[str, tuple[Workload, ...]] = {
    "coredns": (Workload(kind="Deployment", name="coredns", repository="eks/coredns"),),
    names.CSI_ADDON: (
        Workload(
            kind="Deployment", name="fsx-csi-controller", repository="eks/aws-fsx-csi-driver", section="controller"
        ),
        Workload(kind="DaemonSet", name="fsx-csi-node", repository="eks/aws-fsx-csi-driver", section="node"),
    ),
    names.EBS_CSI_ADDON: (
        Workload(
            kind="Deployment", name="ebs-csi-controller", repository="eks/aws-ebs-csi-driver", section="controller"
        ),
        Workload(kind="DaemonSet", name="ebs-csi-node", repository="eks/aws-ebs-csi-driver", section="node"),
    ),
}
REPLICAS = 2


class Addons:
    """Keeps the workloads of the add-ons that the embedded EKS has."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def poll(self, aws: Aws, cluster: str, *, mark: str) -> set[str]:
        """Create what a new add-on brings, delete what one that is gone has left; `mark` tells two clusters apart.

        Returns:
            The add-ons that the cluster has.
        """
        present = set(await aws.pages("eks", "list_addons", "addons", clusterName=cluster))
        for addon, workloads in WORKLOADS.items():
            key = f"addon/{addon}/{mark}"
            noted = self._api.store.note(key)
            if addon in present and not noted:
                description = (await aws.call("eks", "describe_addon", clusterName=cluster, addonName=addon))["addon"]
                for workload in workloads:
                    self._create(workload, json.loads(description.get("configurationValues") or "{}"), aws.region)
                self._api.store.note(key, str(description["addonArn"]))
            elif noted and addon not in present:
                for workload in workloads:
                    self._delete(workload)
                self._api.store.note(key, "")
        return present

    def _create(self, workload: Workload, configuration: Json, region: str) -> None:
        resource = self._api.kind("apps/v1", workload.kind)
        if self._api.find("apps/v1", workload.kind, names.KUBE_SYSTEM, workload.name) is None:
            self._api.create(resource, names.KUBE_SYSTEM, manifest(workload, configuration, region))

    def _delete(self, workload: Workload) -> None:
        try:
            self._api.delete(self._api.kind("apps/v1", workload.kind), names.KUBE_SYSTEM, workload.name)
        except ApiError as error:
            if error.code != 404:
                raise


def manifest(workload: Workload, configuration: Json, region: str) -> Json:
    """The object of a workload, placed as the add-on's configuration says."""
    settings = configuration.get(workload.section, {}) if workload.section else configuration
    labels = {"app": workload.name} | ({"k8s-app": "kube-dns"} if workload.name == "coredns" else {})
    pod: Json = {
        "containers": [
            {
                "name": workload.name,
                "image": f"{registry(region)}/{workload.repository}:stand-in",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }
        ],
    }
    if settings.get("nodeSelector"):
        pod["nodeSelector"] = settings["nodeSelector"]
    tolerations = settings.get("tolerations") or (_TOLERATES_ALL if workload.kind == "DaemonSet" else [])
    if tolerations:
        pod["tolerations"] = tolerations
    spec: Json = {
        "selector": {"matchLabels": {"app": workload.name}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if workload.kind == "Deployment":
        spec["replicas"] = REPLICAS
    return {
        "apiVersion": "apps/v1",
        "kind": workload.kind,
        "metadata": {"name": workload.name, "namespace": names.KUBE_SYSTEM, "labels": labels},
        "spec": spec,
    }


def registry(region: str) -> str:
    """EKS's registry of add-on images in a Region."""
    registries = data.read("eks_images.yaml")["eks_registries"]
    account = registries["others"].get(region, registries["default"])
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}"
