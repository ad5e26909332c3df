"""Binds claims to volumes that exist, and releases volumes whose claim went: the persistent-volume controller's part.

Making what a claim asks for is `provisioner.py`.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import set_status
from hyperpod_ray_sandbox.kubernetes.selectors import matches

Json = dict[str, Any]

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


class Volumes:
    """Matches PersistentVolumeClaims and PersistentVolumes."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self) -> None:
        """One pass."""
        volumes = self.api.all("v1", "PersistentVolume")
        for claim in self.api.all("v1", "PersistentVolumeClaim"):
            phase = (claim.get("status") or {}).get("phase")
            if phase == "Pending" and not claim["metadata"].get("deletionTimestamp"):
                fitting = next((v for v in volumes if self._fits(claim, v)), None)
                if fitting:
                    self._bind(claim, fitting)
                    volumes = self.api.all("v1", "PersistentVolume")
            elif (
                phase == "Bound"
                and self.api.find("v1", "PersistentVolume", "", claim["spec"].get("volumeName", "")) is None
            ):
                set_status(self.api, claim, lambda s: s.update(phase="Lost"))
        for volume in self.api.all("v1", "PersistentVolume"):
            self._phase(volume)

    def _fits(self, claim: Json, volume: Json) -> bool:  # noqa: PLR0911
        spec, request = volume["spec"], claim["spec"]
        reference = spec.get("claimRef") or {}
        meta = claim["metadata"]
        if volume["metadata"].get("deletionTimestamp"):
            return False
        if reference and (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
            return False
        # the uid too: a claim that was deleted and made again under its name is another one
        if reference.get("uid") and reference["uid"] != meta["uid"]:
            return False
        if request.get("volumeName") and request["volumeName"] != volume["metadata"]["name"]:
            return False
        # no class matches a volume without one only:
        # https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1
        if (request.get("storageClassName") or "") != (spec.get("storageClassName") or ""):
            return False
        if not set(request["accessModes"]) <= set(spec["accessModes"]):
            return False
        if request.get("selector") and not matches(request["selector"], volume["metadata"].get("labels") or {}):
            return False
        return number(spec["capacity"]["storage"]) >= number(request["resources"]["requests"]["storage"])

    def _bind(self, claim: Json, volume: Json) -> None:
        meta = claim["metadata"]

        def take(current: Json) -> None:
            current["spec"]["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            }

        def point(current: Json) -> None:
            current["spec"]["volumeName"] = volume["metadata"]["name"]
            current["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

        def bound(status: Json) -> None:
            status.update(phase="Bound", accessModes=volume["spec"]["accessModes"], capacity=volume["spec"]["capacity"])

        self.api.modify(volume, take)
        set_status(self.api, volume, lambda s: s.update(phase="Bound"))
        self.api.modify(claim, point)
        set_status(self.api, claim, bound)

    def _phase(self, volume: Json) -> None:
        reference = volume["spec"].get("claimRef")
        phase = (volume.get("status") or {}).get("phase")
        if not reference or not reference.get("uid"):
            if phase != "Available":
                set_status(self.api, volume, lambda s: s.update(phase="Available"))
            return
        claim = self.api.find("v1", "PersistentVolumeClaim", reference["namespace"], reference["name"])
        # Released and not Available: the data of the claim that is gone are still on it
        if (claim is None or claim["metadata"]["uid"] != reference["uid"]) and phase not in ("Released", "Failed"):
            set_status(self.api, volume, lambda s: s.update(phase="Released"))
