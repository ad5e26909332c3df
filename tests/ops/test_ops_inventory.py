"""What a teardown sees of an account and of Kubernetes, in the shapes of the services, and what becomes of each."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.ops.change import inventory, teardown
from hyperpod_ray.ops.change.inventory import Inventory, Item
from hyperpod_ray.ops.errors import ApiError, OpsError
from hyperpod_ray.ops.observe.snapshot import Claim, FileSystem, Stack
from hyperpod_ray.ops.output import Format
from tests.ops.ops_inventory_helpers import Json, listings, of, refusal, service, stack, volume
from tests.ops.world import ROOT, environment_text
from tests.support.service_models import values_of

EXAMPLES = ROOT / "environments" / "examples"
RAY = "/apis/ray.io/v1/namespaces/ray"
TAG = {"Key": names.ENVIRONMENT_TAG, "Value": "demo"}
ENI_1, ENI_2 = "eni-0123456789abcdef1", "eni-0123456789abcdef2"
OTHERS = {"Key": names.ENVIRONMENT_TAG, "Value": "demo-2"}


def file_system(number: int, lifecycle: str = "AVAILABLE", tags: Any = (TAG,), **more: Any) -> Json:
    tagged = {"Tags": list(tags)} if tags else {}
    usual = {"FileSystemId": f"fs-{number:017x}", "Lifecycle": lifecycle, "StorageCapacity": 1200}
    return {**usual, **tagged, **more}


def claim(name: str, storage_class: str = "", phase: str = "Bound") -> Json:
    spec = {"volumeName": f"pv-{name}", **({"storageClassName": storage_class} if storage_class else {})}
    meta = {"name": name, "namespace": "ray", "creationTimestamp": "2026-11-21T00:00:00Z"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def rows(holdings: Inventory) -> list[tuple[str, str, str]]:
    return [(resource.kind, resource.id, resource.fate) for resource in holdings.items]


def ray_cluster(name: str = "ray") -> Json:
    group = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    return {
        "metadata": {"name": name, "namespace": "ray", "creationTimestamp": "2026-11-21T00:00:00Z"},
        "spec": {"workerGroupSpecs": [group]},
        "status": {"state": "ready"},
    }


# --- the whole -------------------------------------------------------------------------------------------------------


def test_an_environment_is_stacks_ray_claims_and_what_services_made() -> None:
    target, account, api = of(describe_file_systems={"FileSystems": [file_system(1), file_system(2, tags=[OTHERS])]})
    api.listings |= {
        f"{RAY}/rayclusters": [ray_cluster()],
        f"{RAY}/rayjobs": [{"metadata": {"name": "first"}}],
        "/api/v1/namespaces/ray/persistentvolumeclaims": [claim("fsx")],
        "/api/v1/services": [service("front", "LoadBalancer"), service("back", "ClusterIP")],
    }
    account.stacks["demo-Eks"]["EnableTerminationProtection"] = True
    holdings = inventory.take(target)
    assert rows(holdings) == [
        ("stack", "demo-Network", "destroyed"),
        ("stack", "demo-Eks", "destroyed"),
        ("RayCluster", "ray/ray", "destroyed"),
        ("RayJob", "ray/first", "destroyed"),
        ("claim", "ray/fsx", "destroyed"),
        ("file system", f"fs-{1:017x}", "destroyed"),
        # what the controller of load balancers made is known to no stack and holds the VPC
        ("load balancer", "web/front", "blocks"),
    ]
    assert [resource.note for resource in holdings.items] == [
        "CREATE_COMPLETE", "CREATE_COMPLETE, protected", "deleted first, so that it lets go of its volume",
        "deleted first", "its volume's data is not touched", "1200 GiB, AVAILABLE; the data is lost",
        "kubectl -n web delete service front",
    ]  # fmt: skip
    assert (holdings.kubernetes, holdings.unseen, holdings.empty) == (True, (), False)
    assert account.asked[0] == ("get_caller_identity", {}), "nothing of another account is looked at"


def settings(**named: Any) -> Any:
    """An environment whose plan has what is named, and nothing else."""
    usual = dict.fromkeys(("existing_file_system", "existing_homes", "new_file_system", "new_homes"))
    return SimpleNamespace(name="demo", plan=SimpleNamespace(**usual | named))


DELETED, RETAINED = SimpleNamespace(on_destroy="delete"), SimpleNamespace(on_destroy="retain")
FATES: dict[str, tuple[Any, Json, str, str]] = {
    "yours": (
        settings(existing_file_system=SimpleNamespace(file_system_id="fs-1"), new_file_system=DELETED), {}, "kept",
        "yours: not created by this environment",
    ),
    "home folders of yours": (
        settings(existing_homes="fs-1", new_homes=DELETED), {"homes": True}, "kept",
        "yours: not created by this environment",
    ),
    "another is yours": (
        settings(existing_file_system=SimpleNamespace(file_system_id="fs-2"), new_file_system=DELETED), {}, "destroyed",
        "1200 GiB, AVAILABLE; the data is lost",
    ),
    "retained": (
        settings(new_file_system=RETAINED, new_homes=DELETED), {}, "kept",
        "storage.on_destroy: retain; 1200 GiB still cost money",
    ),
    "retained, without a size": (
        settings(new_file_system=RETAINED), {"elastic": True}, "kept",
        "storage.on_destroy: retain; its throughput and data still cost money",
    ),
    "home folders are retained": (
        settings(new_file_system=DELETED, new_homes=RETAINED), {"homes": True}, "kept",
        "homes.on_destroy: retain; 1200 GiB still cost money",
    ),
    "home folders go": (
        settings(new_file_system=RETAINED, new_homes=DELETED), {"homes": True}, "destroyed",
        "1200 GiB, AVAILABLE; home folders are lost, but for a last backup, which costs",
    ),
    "of a claim": (
        settings(new_file_system=DELETED), {"made_by_claim": True}, "blocks",
        "created by a claim: deleted and waited for, before its driver goes",
    ),
    "of a claim, and retained": (
        settings(new_file_system=RETAINED), {"made_by_claim": True}, "kept",
        "storage.on_destroy: retain; 1200 GiB still cost money",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FATES)
def test_what_becomes_of_a_file_system(case: str) -> None:
    target, more, fate, note = FATES[case]
    usual: Json = {"id": "fs-1", "lifecycle": "AVAILABLE", "capacity_gib": 1200}
    item = inventory._file_system_item(target, FileSystem(**usual | more))
    assert item == Item(kind="file system", id="fs-1", fate=fate, note=note)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("protected", "item_kind", "fate", "note"),
    [
        (True, "log group", "kept",
         "kept with a protected environment, or created again by EKS; --delete-logs deletes it"),
        (False, "late log group", "destroyed", "created again by EKS after its stack went"),
    ],
)  # fmt: skip
def test_a_log_group_that_came_again_goes_but_with_protection(
    protected: bool, item_kind: str, fate: str, note: str
) -> None:
    target = settings(settings=SimpleNamespace(protected=protected))
    late = inventory._late_group(target, "/aws/eks/demo/cluster", "EKS")
    assert late == Item(kind=item_kind, id="/aws/eks/demo/cluster", fate=fate, note=note)  # type: ignore[arg-type]


def test_nothing_is_left_where_only_what_is_kept_is_there() -> None:
    absent = refusal("ResourceNotFoundException")
    target, account, _ = of(describe_cluster=absent)
    account.stacks = {"demo-Network": stack("demo-Network", "DELETE_COMPLETE"), "other-Network": stack("other-Network")}
    holdings = inventory.take(target)
    assert rows(holdings) == []
    assert (holdings.empty, holdings.kubernetes) == (True, False)
    group = {"logGroups": [{"logGroupName": "/aws/sagemaker/Clusters/ray-ops/abc"}]}
    target, account, _ = of(describe_cluster=absent, describe_log_groups=group)
    account.stacks = {}
    holdings = inventory.take(target)
    assert {fate for _, _, fate in rows(holdings)} <= {"kept", "destroyed"}


@pytest.mark.parametrize(
    ("cluster", "there"),
    [
        ({"endpoint": "https://e", "status": "ACTIVE"}, True),
        ({"endpoint": "https://e", "status": "UPDATING"}, True),
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html
        ({"endpoint": "https://e", "status": "DELETING"}, False),
        ({"status": "CREATING"}, False),
    ],
)
def test_kubernetes_is_asked_where_the_cluster_answers(cluster: Json, there: bool) -> None:
    target, _, api = of(describe_cluster={"cluster": cluster})
    api.listings[f"{RAY}/rayclusters"] = [ray_cluster()]
    holdings = inventory.take(target)
    assert holdings.kubernetes is there
    assert bool(holdings.ray_clusters) is there


def test_a_source_that_may_not_be_looked_at_is_named_and_stops_a_teardown() -> None:
    target, _, api = of(describe_log_groups=refusal("AccessDeniedException", "not authorized"))
    api.listings[f"{RAY}/rayclusters"] = ApiError(status=403, body=json.dumps({"message": "rayclusters is forbidden"}))
    holdings = inventory.take(target)
    kubernetes, other = holdings.unseen
    assert kubernetes.startswith("Kubernetes: ")
    assert "rayclusters is forbidden" in kubernetes
    assert not other.startswith("Kubernetes")
    assert holdings.kubernetes is False
    with pytest.raises(OpsError, match="the EKS cluster does not answer: the Kubernetes API refuses") as refused:
        inventory.refuse_unseen(holdings, environment="demo")
    assert "orphaned" in refused.value.expected
    assert refused.value.fix == "restore access, then hyperpod-ray teardown demo"
    inventory.refuse_unseen(replace(holdings, unseen=(other,)), environment="demo")
    target, _, api = of()
    api.listings["/api/v1/services"] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        inventory.take(target)
    target, _, _ = of(describe_vpcs=ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        inventory.take(target)


def test_the_vpc_is_looked_through_by_its_tag() -> None:
    interfaces = [{"NetworkInterfaceId": ENI_1, "Status": "available", "Description": "left by a function"}]
    target, account, _ = of(
        describe_vpcs={"Vpcs": [{"VpcId": "vpc-1"}, {"VpcId": "vpc-2"}]},
        describe_network_interfaces=lambda asked: {
            "NetworkInterfaces": interfaces if asked["Filters"][0]["Values"] == ["vpc-2"] else []
        },
    )
    holdings = inventory.take(target)
    assert ("network interface", ENI_1, "blocks") in rows(holdings)
    assert account.arguments("describe_vpcs") == [
        {"Filters": [{"Name": f"tag:{names.ENVIRONMENT_TAG}", "Values": ["demo"]}]}
    ]
    filters = [{"Filters": [{"Name": "vpc-id", "Values": [vpc]}]} for vpc in ("vpc-1", "vpc-2")]
    for operation in ("describe_network_interfaces", "describe_vpc_endpoints", "describe_security_groups"):
        assert account.arguments(operation) == filters


def test_interfaces_of_a_file_system_that_is_kept_do_not_block() -> None:
    text = environment_text().replace("on_destroy: delete}\nimage", "on_destroy: retain}\nimage")
    kept = file_system(1, NetworkInterfaceIds=[ENI_1])
    interfaces = [
        {"NetworkInterfaceId": name, "Status": "in-use", "Description": "Created for FSx filesystem"}
        for name in (ENI_1, ENI_2)
    ]
    target, _, _ = of(
        text,
        describe_file_systems={"FileSystems": [kept]},
        describe_vpcs={"Vpcs": [{"VpcId": "vpc-1"}, {"VpcId": "vpc-2"}]},
        describe_network_interfaces=lambda asked: {
            "NetworkInterfaces": interfaces[: 2 if asked["Filters"][0]["Values"] == ["vpc-1"] else 0]
            or [{**interfaces[1], "NetworkInterfaceId": "eni-3"}]
        },
    )
    holdings = inventory.take(target)
    assert ("VPC", "vpc-2", "kept") not in rows(holdings), "one of an earlier deployment, without the file system"
    assert ("network interface", ENI_2, "blocks") in rows(holdings)
    assert ("VPC", "vpc-1", "kept") in rows(holdings)
    assert ("network interface", ENI_1, "blocks") not in rows(holdings)
    assert ("file system", f"fs-{1:017x}", "kept") in rows(holdings)
    # where the data goes, its interfaces go with it
    target, _, _ = of(describe_vpcs={"Vpcs": [{"VpcId": "vpc-1"}]}, describe_file_systems={"FileSystems": [kept]})
    assert ("VPC", "vpc-1", "kept") not in rows(inventory.take(target))


def test_a_vpc_and_a_file_system_that_are_yours_are_left_alone() -> None:
    text = (EXAMPLES / "existing-file-system.yaml").read_text(encoding="utf-8")
    existing = re.search(r"fs-[0-9a-f]{17}", text)
    assert existing
    yours = {**file_system(1, tags=[]), "FileSystemId": existing[0]}
    target, account, _ = of(text, describe_file_systems={"FileSystems": [yours, file_system(2, tags=[])]})
    holdings = inventory.take(target)
    assert account.arguments("describe_vpcs") == []
    assert [row for row in rows(holdings) if row[0] == "file system"] == [("file system", existing[0], "kept")]
    (note,) = [resource.note for resource in holdings.items if resource.id == existing[0]]
    assert note == "yours: not created by this environment"


# --- what is inside --------------------------------------------------------------------------------------------------


def test_claims_say_what_becomes_of_their_data() -> None:
    dynamic = environment_text(mode="dynamic")
    target, _, _ = of(dynamic)
    storage_class = plan_names.storage_class(target.plan)
    own, other = (
        Claim(name="fsx", namespace="ray", phase="Bound", storage_class=storage_class),
        Claim(name="notes", namespace="ray", phase="Bound", storage_class="gp3"),
    )
    assert inventory._claim_item(target, own).note == "its file system goes with it"
    assert inventory._claim_item(target, other).note == "its volume's data is not touched"
    assert inventory._claim_item(target, other).id == "ray/notes"
    retained, _, _ = of(dynamic.replace("mode: dynamic, on_destroy: delete", "mode: dynamic, on_destroy: retain"))
    assert inventory._claim_item(retained, own).note == "its file system stays"


# --- file systems of claims ------------------------------------------------------------------------------------------

MADE_BY_CLAIM = (TAG, {"Key": names.CLAIM_TAG, "Value": "fsx"})


def test_a_teardown_waits_until_claims_file_systems_are_gone(capsys: pytest.CaptureFixture[str]) -> None:
    claimed = file_system(1, tags=MADE_BY_CLAIM)
    target, account, api = of(
        environment_text(mode="dynamic"),
        describe_file_systems=listings(
            [claimed, file_system(2)], [{**claimed, "Lifecycle": "DELETING"}], [file_system(2)]
        ),
    )
    ours = plan_names.storage_class(target.plan)
    api.listings["/api/v1/persistentvolumes"] = [volume(ours, "fsx.csi.aws.com")]
    assert teardown._wait_for_file_systems(target, poll=0) is True
    assert account.arguments("delete_file_system") == [], "its driver deletes it"
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"waiting for file systems of claims: fs-{1:017x} (AVAILABLE) (usually 3–15 min)",
        f"waiting for file systems of claims: fs-{1:017x} (DELETING)",
        "file systems of claims: gone",
    ]


def test_a_file_system_that_lost_its_driver_is_deleted_once() -> None:
    claimed = file_system(1, tags=MADE_BY_CLAIM)
    creating = file_system(3, "CREATING", tags=MADE_BY_CLAIM)
    target, account, _ = of(
        environment_text(mode="dynamic"),
        describe_file_systems=listings([claimed, creating], [claimed, creating], [creating], []),
    )
    assert teardown._wait_for_file_systems(target, poll=0) is True
    assert account.arguments("delete_file_system") == [{"FileSystemId": f"fs-{1:017x}"}]


@pytest.mark.parametrize("lifecycle", sorted(values_of("fsx", "FileSystemLifecycle")))
def test_an_orphan_is_deleted_in_each_state_in_which_fsx_deletes_it(lifecycle: str) -> None:
    """One that failed or is misconfigured costs as well, and nobody else deletes it."""
    claimed = file_system(1, lifecycle, tags=MADE_BY_CLAIM)
    target, account, _ = of(environment_text(mode="dynamic"), describe_file_systems=listings([claimed], [claimed], []))
    assert teardown._wait_for_file_systems(target, poll=0) is True
    assert bool(account.arguments("delete_file_system")) is (lifecycle not in {"CREATING", "DELETING"})


def test_a_file_system_that_takes_longer_stops_the_teardown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(teardown, "FILE_SYSTEM_SECONDS", 0)
    made = file_system(1, "DELETING", tags=MADE_BY_CLAIM)
    target, account, _ = of(environment_text(mode="dynamic"), describe_file_systems={"FileSystems": [made]})
    assert teardown._wait_for_file_systems(target, poll=0) is False
    assert "nothing else was destroyed. next: hyperpod-ray teardown demo" in capsys.readouterr().err
    assert account.arguments("delete_file_system") == []


# --- what is said ----------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_becomes_of_everything_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    target, account, api = of(describe_log_groups=refusal("AccessDeniedException", "not authorized"))
    assert teardown.run(target, form=Format.json, yes=True, word="", dry_run=True, delete_logs=True) == 0
    written = capsys.readouterr()
    data = json.loads(written.out)
    assert (data["kind"], data["environment"], data["empty"]) == ("teardown", "demo", False)
    assert [resource["id"] for resource in data["items"]] == ["demo-Network", "demo-Eks"]
    assert len(data["unseen"]) == 1
    assert written.err == ""
    assert teardown.run(target, form=Format.table, yes=True, word="", dry_run=True, delete_logs=True) == 0
    written = capsys.readouterr()
    assert "demo-Network" in written.out
    assert "could not be looked at: " in written.err
    assert api.deleted == []
    assert not [name for name, _ in account.asked if name.startswith(("delete", "update"))]


def test_ctrl_c_says_what_goes_on_in_aws() -> None:
    target, account, _ = of(describe_file_systems={"FileSystems": [file_system(1, "DELETING"), file_system(2)]})
    account.stacks["demo-Eks"] = stack("demo-Eks", "DELETE_IN_PROGRESS")
    failure = teardown._interrupted(target)
    assert f"FSx continues to delete fs-{1:017x}" in failure.message
    assert f"fs-{2:017x}" not in failure.message
    assert "demo-Eks" in failure.message
    assert "nothing else is deleted" in failure.message
    assert failure.fix.endswith("hyperpod-ray teardown demo")
    assert failure.code == 130


def test_kept_data_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    kept = (Item(kind="file system", id="fs-1", fate="kept"),)
    text = environment_text().replace("on_destroy: delete}\nimage", "on_destroy: retain}\nimage")
    for words, said in ((text, True), ("", False)):
        target, _, _ = of(words)
        holdings = Inventory(
            stacks=(Stack(name="s"),), ray_clusters=(), jobs=(), claims=(), file_systems=(), items=kept, unseen=(),
            kubernetes=False,
        )  # fmt: skip
        teardown.show(target, holdings, stderr=True)
        written = capsys.readouterr()
        assert ("data is kept: storage.on_destroy is retain" in written.err) is said
        assert ("fs-1" in written.err, written.out) == (True, "")
        teardown.show(target, replace(holdings, items=()), stderr=True)
        assert capsys.readouterr().err == ""


# --- volumes of heads ------------------------------------------------------------------------------------------------


def ebs_volume(state: str = "in-use") -> Json:
    return {"VolumeId": "vol-0123456789abcdef0", "State": state, "Size": 8}


def test_a_heads_volume_goes_before_its_driver() -> None:
    target, account, api = of(describe_volumes={"Volumes": [ebs_volume()]})
    api.listings["/api/v1/namespaces/ray/persistentvolumeclaims"] = [claim("ray-gcs-pvc", "ray-demo-ray-head")]
    holdings = inventory.take(target)
    assert ("EBS volume", "vol-0123456789abcdef0", "blocks") in rows(holdings)
    (asked,) = account.arguments("describe_volumes")
    assert asked["Filters"] == [
        {"Name": "tag:hyperpod-ray:environment", "Values": ["demo"]},
        {"Name": "tag-key", "Values": ["CSIVolumeName"]},
    ]
    (note,) = [item.note for item in holdings.items if item.id == "ray/ray-gcs-pvc"]
    assert note == "a head's state: its volume goes with it"


def volumes_seen(*looks: list[Json]) -> Any:
    """What EC2 lists, look by look; the last for ever."""
    remaining = list(looks)
    return lambda _: {"Volumes": remaining.pop(0) if len(remaining) > 1 else remaining[0]}


def test_a_teardown_waits_for_a_volume_that_the_driver_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    looks = volumes_seen([ebs_volume()], [ebs_volume("available")], [])
    target, account, api = of(describe_volumes=looks)
    api.listings["/api/v1/persistentvolumes"] = [volume(plan_names.store_class(target.plan), names.EBS_CSI_DRIVER)]
    assert teardown._wait_for_volumes(target, poll=0)
    assert account.arguments("delete_volume") == []
    assert "waiting for volumes of heads: vol-0123456789abcdef0 (in-use)" in capsys.readouterr().err


@pytest.mark.parametrize("lost", ["the claim", "the driver", "the cluster"])
def test_a_teardown_deletes_an_orphan_itself(lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    """RayCluster, add-on or cluster went first: nobody in Kubernetes will ever delete it."""
    looks = volumes_seen([ebs_volume()], [ebs_volume("available")], [])
    target, account, api = of(describe_volumes=looks)
    if lost != "the claim":
        api.listings["/api/v1/persistentvolumes"] = [volume(plan_names.store_class(target.plan), names.EBS_CSI_DRIVER)]
        operation = "describe_addon" if lost == "the driver" else "describe_cluster"
        account.answers[operation] = refusal("ResourceNotFoundException")
    assert teardown._wait_for_volumes(target, poll=0)
    assert account.arguments("delete_volume") == [{"VolumeId": "vol-0123456789abcdef0"}]
    assert "deleting it directly" in capsys.readouterr().err


def test_an_orphan_is_deleted_once_its_node_has_let_go() -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteVolume.html: it must be `available`."""
    states = [*["in-use"] * 3, *["available"] * 9]
    refused = refusal("VolumeInUse")

    def look(_: Json) -> Json:
        return {"Volumes": [ebs_volume(states.pop(0))] if states else []}

    def delete(request: Json) -> Json:
        assert request == {"VolumeId": "vol-0123456789abcdef0"}
        if "in-use" in states:
            raise refused
        deleted.append(len(states))
        states.clear()
        return {}

    deleted: list[int] = []

    target, _, _ = of(describe_volumes=look, delete_volume=delete)
    assert teardown._wait_for_volumes(target, poll=0)
    assert deleted == [8], "at the first look that lists it as available"


def test_a_volume_that_stays_stops_the_teardown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(teardown, "VOLUME_SECONDS", 0)
    target, account, _ = of(describe_volumes={"Volumes": [ebs_volume()]})
    assert not teardown._wait_for_volumes(target, poll=0)
    assert account.arguments("delete_volume") == [], "a node still has it"
    assert "nothing else was destroyed" in capsys.readouterr().err
