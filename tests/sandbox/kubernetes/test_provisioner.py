"""What the provisioners of all CSI drivers have in common, by a driver of a test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.provisioner import Provisioner, volume_name
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]


class Discs(Provisioner):
    """Makes a volume at once."""

    async def existing(self, aws: Any) -> list[Json]:
        return []

    async def provision(self, aws: Any, claim: Json, storage_class: Json, existing: list[Json]) -> None:
        self.add_volume(claim, storage_class, gib=8, csi={"volumeHandle": "disc-1"})


@pytest.fixture
def api(tmp_path: Path) -> Api:
    api = Api(Store(tmp_path / "objects.sqlite"))
    for driver in ("discs.example.com", "others.example.com"):
        name = driver.partition(".")[0]
        storage_class = {"metadata": {"name": name}, "provisioner": driver, "reclaimPolicy": "Retain"}
        api.create(api.kind("storage.k8s.io/v1", "StorageClass"), "", storage_class)
        size = {"requests": {"storage": "8Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": size}
        api.create(api.kind("v1", "PersistentVolumeClaim"), "default", {"metadata": {"name": name}, "spec": spec})
    return api


def poll(api: Api, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    discs = Discs(api, None, driver="discs.example.com", addon="discs", service_account="discs")  # type: ignore[arg-type]

    async def driver_missing(*_: Any) -> str:
        return missing

    monkeypatch.setattr(discs, "_driver_missing", driver_missing)
    asyncio.run(discs.poll(None, "eks"))  # type: ignore[arg-type]


def test_a_claim_of_its_class_gets_a_volume_and_no_other_claim_does(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    poll(api, "", monkeypatch)
    claim = api.find("v1", "PersistentVolumeClaim", "default", "discs")
    assert claim is not None
    (volume,) = api.all("v1", "PersistentVolume")
    assert volume["metadata"]["name"] == volume_name(claim) == f"pvc-{claim['metadata']['uid']}"
    assert volume["spec"]["claimRef"]["name"] == "discs"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["csi"] == {"driver": "discs.example.com", "volumeHandle": "disc-1"}


def test_without_its_driver_the_claim_says_once_what_it_waits_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        poll(api, "the add-on 'discs' does not exist", monkeypatch)
    assert api.all("v1", "PersistentVolume") == []
    (event,) = [event for event in api.all("v1", "Event") if event["reason"] == "ExternalProvisioning"]
    assert event["involvedObject"]["name"] == "discs"
    assert event["message"].endswith("the add-on 'discs' does not exist")
