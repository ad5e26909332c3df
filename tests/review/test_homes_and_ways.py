"""Home folders, the API server's ranges and network policies: rules that `make test` meets in no scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.changes import compare
from hyperpod_ray.review.effects import storage
from hyperpod_ray.review.findings import Effect, Findings
from hyperpod_ray.review.security.network import within
from tests.review.small import Json, compared, of, read

# --- OpenZFS ----------------------------------------------------------------------------------------------------------


def homes(size: int = 128, throughput: int = 160, form: str = "SINGLE_AZ_HA_2", **more: Any) -> Json:
    own = {"ThroughputCapacity": throughput, "DeploymentType": form, "AutomaticBackupRetentionDays": 7, **more}
    return of("FSx::FileSystem", FileSystemType="OPENZFS", StorageCapacity=size, SubnetIds=["a"],
              OpenZFSConfiguration=own)  # fmt: skip


@pytest.mark.parametrize(
    ("after", "effect", "code", "words"),
    [
        # https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/managing-storage-capacity.html
        (homes(size=256), Effect.SAFE, "homes-grown", "In place and without a pause."),
        (homes(size=64), Effect.REJECTED, "homes-shrunk", "the service refuses"),
        (homes(size=130), Effect.REJECTED, "homes-shrunk", "grows by a tenth or more"),
        # https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/managing-throughput-capacity.html
        (homes(throughput=320), Effect.INTERRUPTS, "homes-throughput", "the standby server takes over"),
        (homes(AutomaticBackupRetentionDays=0), None, "", ""),
    ],
)
def test_home_folders_change(after: Json, effect: Effect | None, code: str, words: str, tmp_path: Path) -> None:
    rows = compared(tmp_path, {"Homes": homes()}, {"Homes": after}).rows
    assert rows, "no change goes without a row"
    if effect is None:
        assert rows[0].effect > Effect.SAFE, "backups that end are no harmless change"
    else:
        assert [(row.effect, row.code, words in row.consequence) for row in rows] == [(effect, code, True)]


@pytest.mark.parametrize("form", ["LUSTRE", "OPENZFS"])
@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (30, 7, Effect.LOSES_DATA),
        (7, 0, Effect.LOSES_DATA),
        (7, 6, Effect.LOSES_DATA),
        (7, 30, Effect.SAFE),
        (0, 7, Effect.SAFE),
    ],
)
def test_backups_that_are_kept_for_fewer_days_are_deleted(
    form: str, before: int, after: int, effect: Effect, tmp_path: Path
) -> None:
    """When their retention is over: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html ."""
    own = "OpenZFSConfiguration" if form == "OPENZFS" else "LustreConfiguration"
    sides = []
    for name, days in (("base", before), ("head", after)):
        settings = {own: {"AutomaticBackupRetentionDays": days}}
        file_system = of("FSx::FileSystem", FileSystemType=form, SubnetIds=["a"], **settings)
        sides.append(read(tmp_path / name, Item=file_system))
    findings = Findings()
    storage.find(compare(*sides), findings)
    assert [(row.code, row.effect) for row in findings.rows] == [("backups", effect)]


def test_a_file_system_without_a_standby_is_away_for_minutes(tmp_path: Path) -> None:
    sides = ({"Homes": homes(form="SINGLE_AZ_2", throughput=mbs)} for mbs in (160, 320))
    (row,) = compared(tmp_path, *sides).rows
    assert row.change == "ThroughputCapacity 160 → 320 MB/s"
    assert row.unavailable.endswith(", for a few minutes")
    assert "unavailable for a few minutes" in row.consequence


# --- the API server ---------------------------------------------------------------------------------------------------


def cluster(*ranges: str, public: bool = True) -> Json:
    config = {"EndpointPublicAccess": public, "EndpointPrivateAccess": True, "PublicAccessCidrs": list(ranges)}
    return of("EKS::Cluster", Version="1.35", ResourcesVpcConfig=config)


UNSAID = of("EKS::Cluster", Version="1.35", ResourcesVpcConfig={"EndpointPrivateAccess": True})
WIDE, NARROW, OTHER = "20.0.0.0/16", "20.0.1.0/24", "40.0.0.0/24"


@pytest.mark.parametrize(
    ("before", "after", "direction", "detail"),
    [
        (cluster(NARROW), cluster(WIDE), "broadened", f"public to {NARROW} → {WIDE}"),
        (cluster(WIDE), cluster(NARROW), "narrowed", f"public to {WIDE} → {NARROW}"),
        (cluster(WIDE), cluster(NARROW, OTHER), "broadened", f"public to {WIDE} → {NARROW}, {OTHER}"),
        (cluster(WIDE), cluster(public=False), "narrowed", f"public to {WIDE} → nobody outside the VPC"),
        (cluster(public=False), cluster(OTHER), "broadened", f"public to nobody outside the VPC → {OTHER}"),
        # EKS's default: https://docs.aws.amazon.com/eks/latest/APIReference/API_VpcConfigRequest.html
        (cluster(public=False), UNSAID, "broadened", "public to nobody outside the VPC → 0.0.0.0/0"),
    ],
)
def test_who_reaches_the_api_server(before: Json, after: Json, direction: str, detail: str, tmp_path: Path) -> None:
    remarks = compared(tmp_path, {"Eks": before}, {"Eks": after}).remarks
    assert [(remark.direction, remark.detail) for remark in remarks if remark.what == "API server endpoint"] == [
        (direction, detail)
    ]


@pytest.mark.parametrize(
    ("peer", "other", "inside"),
    [
        ("10.0.0.0/24", "10.0.0.0/16", True), ("10.0.0.0/16", "10.0.0.0/24", False), ("::/64", "::/0", True),
        ("::/0", "::/64", False), ("10.0.0.0/24", "::/0", False), ("sg-1", "sg-1", True), ("sg-1", "sg-2", False),
        ("sg-1", "10.0.0.0/8", False),
    ],
)  # fmt: skip
def test_a_peer_within_another(peer: str, other: str, inside: bool) -> None:
    assert within(peer, other) is inside


# --- network policies -------------------------------------------------------------------------------------------------


def applied(**spec: Any) -> dict[str, Json]:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
              "metadata": {"name": "ray", "namespace": "ray"}, "spec": spec}  # fmt: skip
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource",
                "Properties": {"Manifest": json.dumps([policy]), "ClusterName": "c"}}  # fmt: skip
    return {"Manifest": manifest}


BOTH = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
PEER = {"ports": [{"port": 8265}], "from": [{"podSelector": {}}]}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BOTH, {**BOTH, "policyTypes": ["Ingress"]}, {("broadened", "no longer limits egress")}),
        (BOTH, {**BOTH, "podSelector": {"matchLabels": {"a": "b"}}}, {("changed", "selects other pods")}),
        ({**BOTH, "ingress": [PEER]}, BOTH, {("narrowed", "")}),
        (BOTH, {**BOTH, "ingress": [PEER]}, {("broadened", "")}),
    ],
    ids=["direction", "pods", "closed", "opened"],
)
def test_what_a_network_policy_lets_through(
    before: Any, after: Any, said: set[tuple[str, str]], tmp_path: Path
) -> None:
    remarks = compared(tmp_path, applied(**before), applied(**after)).remarks
    assert {remark.direction for remark in remarks} == {direction for direction, _ in said}, remarks
    assert all(any(words in remark.detail for remark in remarks) for _, words in said), remarks
