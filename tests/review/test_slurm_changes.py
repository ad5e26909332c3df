"""What a change of a cluster on Slurm does to its jobs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.small import resources, write
from tests.service_rules.cases import slurm_request

Json = dict[str, Any]
DATABASE = {"Endpoint": "db.example.com", "SecretArn": "arn:aws:secretsmanager:us-west-2:1:secret:x-AbCdEf"}


def reviewed(tmp_path: Path, change: Callable[[Json], None], *, base: Callable[[Json], None] | None = None) -> Any:
    before = slurm_request()
    if base:
        base(before)
    after = copy.deepcopy(before)
    change(after)
    sides = [
        write(tmp_path / name, {"HyperPod": resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": side})})
        for name, side in (("base", before), ("head", after))
    ]
    (environment,) = review(*sides).environments
    return environment


def row(made: EnvironmentReview, code: str) -> Any:
    (found,) = [row for row in made.rows if row.code == code]
    return found


def partition(request: Json) -> None:
    request["InstanceGroups"][2]["SlurmConfig"]["PartitionNames"] = ["other"]


def role(request: Json) -> None:
    request["InstanceGroups"][1]["SlurmConfig"] = {"NodeType": "Compute", "PartitionNames": ["train"]}


def controller_type(request: Json) -> None:
    request["InstanceGroups"][0]["InstanceType"] = "ml.m5.8xlarge"


def controller_gone(request: Json) -> None:
    request["InstanceGroups"][0]["InstanceGroupName"] = "head"


def overwrite(request: Json) -> None:
    request["Orchestrator"]["Slurm"]["SlurmConfigStrategy"] = "Overwrite"


def merge(request: Json) -> None:
    request["Orchestrator"]["Slurm"]["SlurmConfigStrategy"] = "Merge"


def database(request: Json) -> None:
    request["Orchestrator"]["Slurm"]["AccountingDatabase"] = dict(DATABASE)


@pytest.mark.parametrize(
    ("change", "code", "effect"),
    [
        (partition, "slurm-partition", Effect.INTERRUPTS),
        (role, "slurm-role", Effect.INTERRUPTS),
        (controller_type, "slurm-controller", Effect.LOSES_DATA),
        (controller_gone, "slurm-controller", Effect.LOSES_DATA),
        (overwrite, "slurm-config-strategy", Effect.INTERRUPTS),
        (merge, "slurm-config-strategy", Effect.SAFE),
        (database, "slurm-accounting", Effect.INTERRUPTS),
    ],
)
def test_what_it_does_to_jobs(tmp_path: Path, change: Callable[[Json], None], code: str, effect: Effect) -> None:
    found = row(reviewed(tmp_path, change), code)
    assert found.effect is effect
    assert found.consequence.endswith(".")
    assert found.source.startswith("https://")
    assert bool(found.unavailable) == (effect is not Effect.SAFE)


def test_with_a_database_of_its_own_only_the_queue_goes(tmp_path: Path) -> None:
    found = row(reviewed(tmp_path, controller_type, base=database), "slurm-controller")
    assert (found.effect, found.lost) == (Effect.LOSES_NODES, ())


def test_the_database_that_the_old_controller_had_counts(tmp_path: Path) -> None:
    def both(request: Json) -> None:
        controller_type(request)
        database(request)

    found = row(reviewed(tmp_path, both), "slurm-controller")
    assert (found.effect, found.lost) == (Effect.LOSES_DATA, (("accounting database", 1),))


def test_another_type_of_login_is_no_other_controller(tmp_path: Path) -> None:
    def login(request: Json) -> None:
        request["InstanceGroups"][1]["InstanceType"] = "ml.m5.4xlarge"

    made = reviewed(tmp_path, login)
    assert [row.code for row in made.rows if row.code.startswith("slurm")] == []
    assert made.rows


def test_another_orchestrator_is_another_cluster(tmp_path: Path) -> None:
    def eks(request: Json) -> None:
        request["Orchestrator"] = {"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:1:cluster/a"}}
        for group in request["InstanceGroups"]:
            del group["SlurmConfig"]

    made = reviewed(tmp_path, eks)
    assert [row.code for row in made.rows if row.code.startswith("slurm")] == []
    assert made.effect is Effect.REJECTED, "a cluster of that name exists"


def mounts(dns: Any = None, **more: str) -> Callable[[Json], None]:
    def change(request: Json) -> None:
        for group in request["InstanceGroups"]:
            old = group["InstanceStorageConfigs"][0]["FsxLustreConfig"]
            group["InstanceStorageConfigs"] = [
                {"FsxLustreConfig": {**old, **({"DnsName": dns} if dns else {}), **more}}
            ]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (mounts("fs-99999999.fsx.us-west-2.amazonaws.com"), "fs-0123456789abcdef0 at /fsx → fs-99999999 at /fsx"),
        (mounts({"Fn::ImportValue": "a"}), "fs-0123456789abcdef0 at /fsx → the stack's file system at /fsx"),
        (mounts(MountPath="/data"), "fs-0123456789abcdef0 at /fsx → fs-0123456789abcdef0 at /data"),
        (lambda request: [one.pop("InstanceStorageConfigs") for one in request["InstanceGroups"]], "→ nothing"),
    ],
)
def test_another_file_system_is_one_row(tmp_path: Path, change: Callable[[Json], None], words: str) -> None:
    made = reviewed(tmp_path, change)
    (found,) = made.rows
    assert (found.code, found.effect, found.what) == (
        "slurm-file-system",
        Effect.INTERRUPTS,
        "groups controller, login, workers",
    )
    assert words in found.change


def test_another_volume_beside_the_mount_is_reported_as_on_eks(tmp_path: Path) -> None:
    def volume(request: Json) -> None:
        configs = request["InstanceGroups"][2]["InstanceStorageConfigs"]
        request["InstanceGroups"][2]["InstanceStorageConfigs"] = [
            {"EbsVolumeConfig": {"VolumeSizeInGB": 500}},
            *configs,
        ]

    assert [row.code for row in reviewed(tmp_path, volume).rows] == ["group-undocumented"]


def other_name(request: Json) -> None:
    request["ClusterName"] = "other"


def other_network(request: Json) -> None:
    request["VpcConfig"] = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-9"]}


def test_a_cluster_that_is_replaced_takes_the_queue_along(tmp_path: Path) -> None:
    found = row(reviewed(tmp_path, other_name), "slurm-controller")
    assert (found.effect, found.change) == (Effect.LOSES_DATA, "replaced with the cluster")
    kept = row(reviewed(tmp_path / "kept", other_name, base=database), "slurm-controller")
    assert kept.effect is Effect.LOSES_NODES
    refused = reviewed(tmp_path / "refused", other_network)
    assert (refused.effect, [one.code for one in refused.rows]) == (Effect.REJECTED, ["custom-name"])


def test_a_partition_goes_with_its_last_group(tmp_path: Path) -> None:
    def two(request: Json) -> None:
        request["InstanceGroups"].append({**request["InstanceGroups"][2], "InstanceGroupName": "more"})

    def without(request: Json) -> None:
        del request["InstanceGroups"][2]

    assert row(reviewed(tmp_path, without), "slurm-partition-gone").what == "partition train"
    made = reviewed(tmp_path / "two", without, base=two)
    assert [one.code for one in made.rows] == ["group-removed"]


def group(index: int, **members: Any) -> Callable[[Json], None]:
    return lambda request: request["InstanceGroups"][index].update(members)


SUBNET = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-2"]}


@pytest.mark.parametrize(
    ("change", "code", "effect"),
    [
        (group(2, InstanceCount=2), "count-down", Effect.LOSES_NODES),
        (group(2, InstanceType="ml.p5e.48xlarge"), "group-type", Effect.LOSES_NODES),
        (group(2, InstanceGroupName="others"), "group-renamed", Effect.LOSES_NODES),
        (group(2, OverrideVpcConfig=SUBNET), "group-immutable", Effect.REJECTED),
        (group(2, CapacityRequirements={"Spot": {}}), "group-immutable", Effect.REJECTED),
        (group(2, ExecutionRole="arn:aws:iam::111122223333:role/jobs"), "group-undocumented", Effect.INTERRUPTS),
        (group(2, AutoPatchConfig={"PatchingStrategy": "WhenIdle"}), "patches", Effect.WEAKENS),
        (group(2, OnStartDeepHealthChecks=["InstanceStress"]), "deep-checks-off", Effect.WEAKENS),
        (lambda request: request.update(NodeRecovery="None"), "node-recovery-off", Effect.WEAKENS),
        (lambda request: request.pop("NodeProvisioningMode"), "provisioning-mode", Effect.REJECTED),
    ],
)
def test_what_both_orchestrators_have_is_judged_alike(
    tmp_path: Path, change: Callable[[Json], None], code: str, effect: Effect
) -> None:
    made = reviewed(tmp_path, change)
    assert [(one.code, one.effect) for one in made.rows] == [(code, effect)]
    assert "pod" not in made.rows[0].consequence


def test_another_role_names_the_ways_that_work(tmp_path: Path) -> None:
    """Nobody documents whether the role of an existing group can change: the row names what works in any case."""
    (found,) = reviewed(tmp_path, group(2, ExecutionRole="arn:aws:iam::111122223333:role/jobs")).rows
    assert "set accounting_database.separate_role: false, or leave the group's access" in found.consequence
    assert "give the group another name" in found.consequence


def test_more_nodes_touch_no_job(tmp_path: Path) -> None:
    def more(request: Json) -> None:
        request["InstanceGroups"][2]["InstanceCount"] = 6

    made = reviewed(tmp_path, more)
    assert [row.code for row in made.rows] == ["count-up"]
    assert made.effect is Effect.SAFE
