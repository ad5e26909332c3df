"""What a teardown sees of an account and of Kubernetes, in the shapes of the services, and what becomes of each."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import inventory, teardown
from hyperpod_ray.ops.change.inventory import Inventory, Item
from hyperpod_ray.ops.errors import ApiError, OpsError
from hyperpod_ray.ops.observe.snapshot import Claim, RayCluster, Stack
from hyperpod_ray.ops.orchestrators.eks.workloads import EksWorkloads
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.snapshots import ago
from tests.ops.world import ROOT, environment_text
from tests.support.answers import operation_model

Json = dict[str, Any]
EXAMPLES = ROOT / "environments" / "examples"
RAY = "/apis/ray.io/v1/namespaces/ray"
TAG = {"Key": names.ENVIRONMENT_TAG, "Value": "demo"}
ENI_1, ENI_2 = "eni-0123456789abcdef1", "eni-0123456789abcdef2"
OTHERS = {"Key": names.ENVIRONMENT_TAG, "Value": "demo-2"}


def refusal(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


def stack(name: str, status: str = "CREATE_COMPLETE", **more: Any) -> Json:
    return {"StackName": name, "StackStatus": status, "CreationTime": ago(600), **more}


def file_system(number: int, lifecycle: str = "AVAILABLE", tags: Any = (TAG,), **more: Any) -> Json:
    tagged = {"Tags": list(tags)} if tags else {}
    usual = {"FileSystemId": f"fs-{number:017x}", "Lifecycle": lifecycle, "StorageCapacity": 1200}
    return {**usual, **tagged, **more}


class Aws:
    """An account; calls and answers have the shapes of botocore's models. What is not listed is empty."""

    def __init__(self, **answers: Any) -> None:
        self.stacks = {"demo-Network": stack("demo-Network"), "demo-Eks": stack("demo-Eks")}
        self.answers: Json = {
            "describe_cluster": {"cluster": {"endpoint": "https://e", "status": "ACTIVE"}},
            "describe_file_systems": {"FileSystems": []},
            "describe_addon": {"addon": {"addonName": names.CSI_ADDON}},
            "describe_log_groups": {"logGroups": []},
            "list_images": refusal("RepositoryNotFoundException"),
            "describe_vpcs": {"Vpcs": []},
            "describe_network_interfaces": {"NetworkInterfaces": []},
            "describe_vpc_endpoints": {"VpcEndpoints": []},
            "describe_security_groups": {"SecurityGroups": []},
            "delete_file_system": {},
            "delete_log_group": {},
            "describe_stack_events": {"StackEvents": []},
            **answers,
        }
        self.asked: list[tuple[str, Json]] = []

    def require_account(self) -> str:
        self.asked.append(("get_caller_identity", {}))
        return "arn"

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        model = operation_model(service, operation)
        validate_parameters(arguments, model.input_shape)
        self.asked.append((operation, arguments))
        answer = self._stacks(arguments) if operation == "describe_stacks" else self.answers[operation]
        if callable(answer):
            answer = answer(arguments)
        if isinstance(answer, Exception):
            raise answer
        if model.output_shape is not None:
            validate_parameters(answer, model.output_shape)
        return cast("Json", answer)

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        listed: list[Json] = self.call(service, operation, **arguments)[key]
        return listed

    def _stacks(self, arguments: Json) -> Json:
        if "StackName" not in arguments:
            return {"Stacks": list(self.stacks.values())}
        if arguments["StackName"] not in self.stacks:
            raise refusal("ValidationError", f"Stack with id {arguments['StackName']} does not exist")
        return {"Stacks": [self.stacks[arguments["StackName"]]]}

    def arguments(self, operation: str) -> list[Json]:
        return [arguments for name, arguments in self.asked if name == operation]


def claim(name: str, storage_class: str = "", phase: str = "Bound") -> Json:
    spec = {"volumeName": f"pv-{name}", **({"storageClassName": storage_class} if storage_class else {})}
    meta = {"name": name, "namespace": "ray", "creationTimestamp": "2026-11-21T00:00:00Z"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def service(name: str, form: str) -> Json:
    return {"metadata": {"name": name, "namespace": "web"}, "spec": {"type": form}}


class Api:
    """Kubernetes: listings by path, and what is deleted. A listing may refuse."""

    def __init__(self, **listings: Any) -> None:
        self.listings: dict[str, Any] = {}
        self.deleted: list[tuple[str, str]] = []
        self.absent: set[str] = set()

    def items(self, path: str, *, labels: str = "", fields: str = "") -> list[Json]:
        listed = self.listings.get(path, [])
        if isinstance(listed, Exception):
            raise listed
        return cast("list[Json]", listed)

    def delete(self, path: str, *, propagation: str = "Foreground") -> bool:
        self.deleted.append((path, propagation))
        return path not in self.absent


def of(text: str = "", **answers: Any) -> tuple[Target, Aws, Api]:
    target = Target(parse(text or environment_text(), name="demo", path=Path("demo.yaml")))
    account, api = Aws(**answers), Api()
    target.aws = account  # type: ignore[assignment]
    target.__dict__["kubernetes"] = api
    return target, account, api


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
    notes = {resource.id: resource.note for resource in holdings.items}
    assert notes["demo-Network"] == "CREATE_COMPLETE"
    assert notes["demo-Eks"] == "CREATE_COMPLETE, protected"
    assert notes["web/front"] == "kubectl -n web delete service front"
    assert (holdings.kubernetes, holdings.unseen, holdings.empty) == (True, (), False)
    assert account.asked[0] == ("get_caller_identity", {}), "nothing of another account is looked at"


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
        describe_vpcs={"Vpcs": [{"VpcId": "vpc-1"}]},
        describe_network_interfaces={"NetworkInterfaces": interfaces},
    )
    holdings = inventory.take(target)
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


def test_what_is_deleted_in_kubernetes_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    """Workers get their grace period: the RayCluster goes in the background, its pods with it."""
    target, _, api = of()
    workloads = EksWorkloads(target)
    ray = RayCluster(name="ray", namespace="ray", state="ready", desired_workers=2, ready_workers=2)
    workloads.delete([ray], ["team/first"])
    assert api.deleted == [
        ("/apis/ray.io/v1/namespaces/team/rayjobs/first", "Foreground"),
        (f"{RAY}/rayclusters/ray", "Background"),
    ]
    path = "/api/v1/namespaces/ray/persistentvolumeclaims"
    api.absent.add(f"{path}/gone")
    capsys.readouterr()
    workloads.delete_claims([Claim(name=name, namespace="ray", phase="Bound") for name in ("fsx", "gone")])
    assert [deleted for deleted, _ in api.deleted[2:]] == [f"{path}/fsx", f"{path}/gone"]
    assert capsys.readouterr().err.splitlines() == ["deleting claim ray/fsx"]


def test_pods_of_ray_that_are_left_are_named_with_their_nodes() -> None:
    target, _, api = of()
    labels = {"labels": {"ray.io/cluster": "ray"}}
    api.listings["/api/v1/namespaces/ray/pods"] = [
        {"metadata": {"name": "w1", **labels}, "spec": {"nodeName": "hyperpod-i-0123456789abcdef0"}},
        {"metadata": {"name": "w2", **labels}, "spec": {}},
    ]
    assert EksWorkloads(target).left() == ["w1 on i-0123456789abcdef0", "w2"]


def test_jobs_without_kuberay_are_none() -> None:
    """A cluster whose Ray stack is not there yet knows no RayJobs: 404."""
    target, _, api = of()
    api.listings[f"{RAY}/rayjobs"] = ApiError(status=404)
    inside = EksWorkloads(target).inside()
    assert inside is not None
    assert inside.jobs == ()
    api.listings[f"{RAY}/rayjobs"] = ApiError(status=500)
    with pytest.raises(ApiError):
        EksWorkloads(target).inside()
    target, _, _ = of(describe_cluster=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        EksWorkloads(target).inside()


def volume(storage_class: str, driver: str) -> Json:
    return {"metadata": {"name": "pv"}, "spec": {"storageClassName": storage_class, "csi": {"driver": driver}}}


def test_the_driver_deletes_volumes_while_it_is_installed_and_has_one() -> None:
    dynamic = environment_text(mode="dynamic")
    target, account, api = of(dynamic)
    ours = plan_names.storage_class(target.plan)
    path = "/api/v1/persistentvolumes"
    for volumes, deletes in (
        ([volume(ours, "fsx.csi.aws.com")], True),
        ([volume("gp3", "fsx.csi.aws.com")], False),
        ([volume(ours, "ebs.csi.aws.com")], False),
        ([{"metadata": {}, "spec": {"storageClassName": ours, "hostPath": {"path": "/x"}}}], False),
        ([], False),
    ):
        api.listings[path] = volumes
        assert EksWorkloads(target).deletes_volumes() is deletes
    assert account.arguments("describe_addon")[0] == {
        "clusterName": target.plan.eks_cluster_name,
        "addonName": "aws-fsx-csi-driver",
    }
    target, _, api = of(dynamic, describe_addon=refusal("ResourceNotFoundException"))
    api.listings[path] = [volume(ours, "fsx.csi.aws.com")]
    assert EksWorkloads(target).deletes_volumes() is False
    target, _, _ = of(dynamic, describe_addon=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        EksWorkloads(target).deletes_volumes()


# --- file systems of claims ------------------------------------------------------------------------------------------

MADE_BY_CLAIM = (TAG, {"Key": names.CLAIM_TAG, "Value": "fsx"})


def listings(*looks: list[Json]) -> Any:
    """What FSx lists, look by look; the last for ever."""
    remaining = list(looks)
    return lambda _: {"FileSystems": remaining.pop(0) if len(remaining) > 1 else remaining[0]}


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
