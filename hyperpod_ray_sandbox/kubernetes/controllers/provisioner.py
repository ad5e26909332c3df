"""Volumes for claims: what the provisioners of CSI drivers have in common.

Works only while the driver's add-on exists in the embedded EKS, its role exists, and a node is ready to run it:
whatever goes first, what is left over is an orphan, as in real life. A claim of a class with the driver as provisioner
gets what the class describes, then a PersistentVolume, and is bound by `volumes.py`. A released volume with reclaim
policy Delete is deleted; its object goes when that is done.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.aws.client import Client, ControlError
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, node_ready, remove
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import SELECTED_NODE
from hyperpod_ray_sandbox.kubernetes.controllers.volumes import PROVISIONED_BY
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]

GIB = 2**30
_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"


def volume_name(claim: Json) -> str:
    """The name the provisioner gives the volume of a claim."""
    return f"pvc-{claim['metadata']['uid']}"


class Provisioner:
    """Makes and deletes what the volumes of claims are.

    Args:
        api: Of Kubernetes.
        client: Of the embedded AWS's control interface.
        driver: Provisioner of the classes.
        addon: That runs it.
        service_account: Of its controller, as its IAM role must trust it.
    """

    def __init__(self, api: Api, client: Client, *, driver: str, addon: str, service_account: str) -> None:
        self.api = api
        self.driver, self.addon = driver, addon
        self._client = client
        self._subject = f"system:serviceaccount:{names.KUBE_SYSTEM}:{service_account}"
        self._role = self._eks = ""

    async def poll(self, aws: Aws, eks_name: str) -> None:
        """One pass; does nothing at all while the driver could not run."""
        claims, released = self._claims(), self._released()
        if not claims and not released:
            return
        why = await self._driver_missing(aws, eks_name)
        if why:
            for claim, _ in claims:
                if not self._told(claim, why):
                    event(
                        self.api,
                        claim,
                        "Normal",
                        "ExternalProvisioning",
                        f"Waiting for a volume to be created by the external provisioner '{self.driver}': {why}",
                        "persistentvolume-controller",
                    )
            return
        existing = await self.existing(aws)
        for claim, storage_class in claims:
            await self.provision(aws, claim, storage_class, existing)
        for volume in released:
            await self.reclaim(aws, volume, existing)

    # ---- what a driver does in its own way ------------------------------------------------------------------------

    async def existing(self, aws: Aws) -> list[Json]:
        """Everything of its kind that is there."""
        raise NotImplementedError

    async def provision(self, aws: Aws, claim: Json, storage_class: Json, existing: list[Json]) -> None:
        """Make what a claim asks for, and its volume once that is there."""
        raise NotImplementedError

    async def reclaim(self, aws: Aws, volume: Json, existing: list[Json]) -> None:
        """Delete what a released volume was, and its object once that is gone."""
        raise NotImplementedError

    # ---- what they have in common ---------------------------------------------------------------------------------

    def record(self, obj: Json, level: str, reason: str, message: str) -> None:
        """An event of the driver's."""
        event(self.api, obj, level, reason, message, self.driver)

    async def allowed(self, aws: Aws, action: str, resource: str, keys: Json) -> None:
        """Raise AwsError where the driver's role, taken by its service account, may not do something."""
        account = self._role.split(":")[4] if self._role else ""
        try:
            reason = await asyncio.to_thread(
                self._client.web_identity,
                cluster=self._eks,
                subject=self._subject,
                role_arn=self._role,
                action=action,
                resource=f"arn:aws:{action.partition(':')[0]}:{aws.region}:{account}:{resource}",
                keys=keys,
            )
        except ControlError as error:
            raise AwsError("Unreachable", str(error)) from None
        if reason:
            code, _, message = reason.partition(": ")
            raise AwsError(code, message)

    def add_volume(self, claim: Json, storage_class: Json, *, gib: int, csi: Json, **more: Any) -> None:
        """The PersistentVolume of what was made for a claim."""
        name, meta = volume_name(claim), claim["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: self.driver}, "finalizers": [_FINALIZER]},
            "spec": {
                "accessModes": claim["spec"]["accessModes"],
                "capacity": {"storage": f"{gib}Gi"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "mountOptions": storage_class.get("mountOptions") or [],
                "csi": {"driver": self.driver, **csi},
                **more,
            },
        }
        try:
            self.api.create(self.api.kind("v1", "PersistentVolume"), "", body)
        except ApiError as error:
            self.record(claim, "Warning", "ProvisioningFailed", error.message)
            return
        self.record(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def remove_volume(self, volume: Json) -> None:
        """The object of a volume whose storage has gone."""
        remove(self.api, volume)

        def release(current: Json) -> None:
            current["metadata"]["finalizers"] = [
                f for f in current["metadata"].get("finalizers") or [] if f != _FINALIZER
            ]

        self.api.modify(volume, release)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _claims(self) -> list[tuple[Json, Json]]:
        pairs = []
        for claim in self.api.all("v1", "PersistentVolumeClaim"):
            if (claim.get("status") or {}).get("phase") != "Pending" or claim["metadata"].get("deletionTimestamp"):
                continue
            storage_class = self.api.find(
                "storage.k8s.io/v1", "StorageClass", "", claim["spec"].get("storageClassName", "")
            )
            if (
                storage_class
                and storage_class.get("provisioner") == self.driver
                and not claim["spec"].get("volumeName")
                and _due(claim, storage_class)
            ):
                pairs.append((claim, storage_class))
        return pairs

    def _released(self) -> list[Json]:
        return [
            v
            for v in self.api.all("v1", "PersistentVolume")
            if (v.get("status") or {}).get("phase") == "Released"
            and v["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
            and (v["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == self.driver
        ]

    def _told(self, obj: Json, text: str) -> bool:
        return any(
            text in e.get("message", "") and (e.get("involvedObject") or {}).get("uid") == obj["metadata"]["uid"]
            for e in self.api.all("v1", "Event", obj["metadata"].get("namespace", ""))
        )

    async def _driver_missing(self, aws: Aws, eks_name: str) -> str:
        if not any(node_ready(n) for n in self.api.all("v1", "Node")):
            return "no node is ready to run the driver"
        try:
            addon = (await aws.call("eks", "describe_addon", clusterName=eks_name, addonName=self.addon))["addon"]
        except AwsError as error:
            return f"the add-on {self.addon} is not there ({error.code})"
        if addon.get("status") not in ("ACTIVE", "DEGRADED"):
            return f"the add-on {self.addon} is {addon.get('status')}"
        role = str(addon.get("serviceAccountRoleArn") or "")
        self._role, self._eks = role, eks_name
        if role:
            try:
                await aws.call("iam", "get_role", RoleName=role.rpartition("/")[2])
            except AwsError as error:
                return f"the driver's role cannot be assumed ({error.code})"
        return ""


def _due(claim: Json, storage_class: Json) -> bool:
    """Whether a volume is made now: where a class waits for its first consumer, once a pod's node is chosen."""
    waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    return not waits or bool((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE))
