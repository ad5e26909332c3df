"""Home folders on FSx for OpenZFS: what an environment on Slurm becomes with them, new and existing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import botocore.validate
import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from tests.core.environment_files import GONE, changed
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.test_variants import VARIANTS
from tests.support.assemblies import synthesized

NFS = {(protocol, port) for protocol in ("tcp", "udp") for port in ((111, 111), (2049, 2049), (20001, 20003))}
"""https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/limit-access-security-groups.html"""

KEPT = ("RetainExceptOnCreate", "Retain")


@pytest.fixture(scope="module")
def created() -> Assembly:
    return synthesize("slurm-homes", folder=FOLDER / "examples")


@pytest.fixture(scope="module")
def existing() -> Assembly:
    return synthesize("slurm-options", folder=VARIANTS)


def open_zfs(assembly: Assembly) -> dict[str, Any]:
    (resource,) = (
        resource
        for resource in assembly.of_type("AWS::FSx::FileSystem").values()
        if resource["Properties"]["FileSystemType"] == "OPENZFS"
    )
    return dict(resource)


def test_the_file_system_is_what_the_api_takes(created: Assembly) -> None:
    """botocore's model judges each member of the configuration; CloudFormation keeps `Options` for the deletion."""
    properties = open_zfs(created)["Properties"]
    configuration = {**properties["OpenZFSConfiguration"]}
    assert configuration.pop("Options") == ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"]
    assert configuration["DeploymentType"] == "SINGLE_AZ_HA_2"
    assert (properties["StorageCapacity"], configuration["ThroughputCapacity"]) == (1024, 320)
    model: Any = botocore.session.get_session().get_service_model("fsx")
    shape = model.shape_for("CreateFileSystemOpenZFSConfiguration")
    assert not botocore.validate.ParamValidator().validate(configuration, shape).has_errors()
    assert configuration.keys() <= shape.members.keys()
    (export,) = configuration["RootVolumeConfiguration"]["NfsExports"]
    (clients,) = export["ClientConfigurations"]
    assert "no_root_squash" in clients["Options"], "root of a node makes the home folders"
    assert configuration["AutomaticBackupRetentionDays"] == 7


def test_home_folders_stay_with_their_key_and_their_network(created: Assembly) -> None:
    resource = open_zfs(created)
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == KEPT
    template = created.templates["slurm-homes-Storage"]["Resources"]
    key = template[resource["Properties"]["KmsKeyId"]["Fn::GetAtt"][0]]
    assert (key["Type"], key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("AWS::KMS::Key", *KEPT)
    (vpc,) = created.of_type("AWS::EC2::VPC").values()
    assert (vpc["DeletionPolicy"], vpc["UpdateReplacePolicy"]) == KEPT


def mounts(assembly: Assembly) -> list[dict[str, Any]]:
    """What each group mounts by NFS."""
    groups = assembly.one("AWS::SageMaker::Cluster")["InstanceGroups"]
    configs = [config for group in groups for config in group["InstanceStorageConfigs"]]
    listed = [config["FsxOpenZfsConfig"] for config in configs if "FsxOpenZfsConfig" in config]
    assert len(listed) == len(groups)
    return listed


def test_every_group_mounts_it_beside_home(created: Assembly, existing: Assembly) -> None:
    """At /home it would hide the folder of the AMI's user, with its keys."""
    assert {mount["MountPath"] for mount in mounts(created)} == {"/homes"}
    assert all("Fn::ImportValue" in mount["DnsName"] for mount in mounts(created))
    assert {mount["DnsName"] for mount in mounts(existing)} == {"fs-0abcdef0123456789.fsx.us-west-2.amazonaws.com"}


def ingress(assembly: Assembly, words: str) -> set[tuple[str, tuple[int, int]]]:
    rules = [row["Properties"] for row in assembly.of_type("AWS::EC2::SecurityGroupIngress").values()]
    return {(row["IpProtocol"], (row["FromPort"], row["ToPort"])) for row in rules if row.get("Description") == words}


def test_nodes_reach_it_by_nfs(created: Assembly, existing: Assembly) -> None:
    assert ingress(created, "NFS from the nodes") == NFS
    assert ingress(existing, "NFS from the nodes") == set()
    (nodes,) = (
        row["Properties"]
        for row in existing.of_type("AWS::EC2::SecurityGroup").values()
        if row["Properties"]["GroupDescription"] == "HyperPod nodes"
    )
    out = [row for row in nodes["SecurityGroupEgress"] if row["Description"] == "NFS to the existing home folders"]
    assert {(row["IpProtocol"], (row["FromPort"], row["ToPort"])) for row in out} == NFS
    assert "0.0.0.0/0" not in {row["CidrIp"] if isinstance(row["CidrIp"], str) else "" for row in out}


@pytest.mark.parametrize("direction", ["SecurityGroupEgress", "SecurityGroupIngress"])
def test_nodes_and_a_lustre_that_exists_exchange_lustre(existing: Assembly, direction: str) -> None:
    """Its security group is another's: without rules of the nodes' own, none of them could mount it."""
    (nodes,) = (
        row["Properties"]
        for row in existing.of_type("AWS::EC2::SecurityGroup").values()
        if row["Properties"]["GroupDescription"] == "HyperPod nodes"
    )
    ports = {
        (row["FromPort"], row["ToPort"]) for row in nodes[direction] if "existing file system" in row["Description"]
    }
    assert ports == {(988, 988), (1018, 1023)}


def uploaded(folder: Path) -> dict[str, str]:
    """Names and texts of the files that the scripts' bucket gets."""
    files = {}
    for path in folder.rglob("asset.*/*"):
        if path.is_file() and path.name in ("with_homes.sh", "homes-path", "after-homes", "then-run", "with_proxy.sh"):
            files[path.name] = path.read_text(encoding="utf-8")
    return files


@pytest.mark.parametrize(
    ("more", "first", "files"),
    [
        ({}, "with_homes.sh", {"after-homes": "\n", "homes-path": "/homes\n"}),
        (
            {"hyperpod/on_init_complete": "lifecycle/on_create.sh"},
            "with_homes.sh",
            {"after-homes": "on_create.sh\n", "homes-path": "/homes\n"},
        ),
        ({"homes": GONE, "hyperpod/on_init_complete": "lifecycle/on_create.sh"}, "on_create.sh", {}),
        (
            {"network/proxy": {"url": "http://proxy.example.com:3128"}},
            "with_proxy.sh",
            {"then-run": "with_homes.sh\n", "after-homes": "\n"},
        ),
    ],
)
def test_scripts_run_one_after_the_other(more: dict[str, Any], first: str, files: dict[str, str]) -> None:
    data = yaml.safe_load((FOLDER / "examples" / "slurm-homes.yaml").read_text(encoding="utf-8"))
    text = yaml.safe_dump(changed(more, of=data), sort_keys=False)
    folder = synthesized(
        "slurm-homes", text, path=Path("environments/slurm-homes.yaml"), validation=False, uploads=True
    )
    template = json.loads(next(folder.rglob("*HyperPod*.template.json")).read_text(encoding="utf-8"))
    (cluster,) = (row for row in template["Resources"].values() if row["Type"] == "AWS::SageMaker::Cluster")
    scripts = [group["LifeCycleConfig"] for group in cluster["Properties"]["InstanceGroups"]]
    assert {script["OnInitComplete"] for script in scripts} == {first}
    there = uploaded(folder)
    assert {name: there[name] for name in files} == files
    assert ("with_homes.sh" in there) == ("homes" not in more)


def test_a_full_one_alarms(created: Assembly, existing: Assembly) -> None:
    (alarm,) = (
        row["Properties"]
        for row in created.of_type("AWS::CloudWatch::Alarm").values()
        if row["Properties"]["AlarmName"].endswith("HomesNearlyFull")
    )
    assert (alarm["MetricName"], alarm["Namespace"]) == ("UsedStorageCapacity", "AWS/FSx")
    assert alarm["Threshold"] == pytest.approx(0.9 * 1024 * 1024**3)
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    names = [row["Properties"]["AlarmName"] for row in existing.of_type("AWS::CloudWatch::Alarm").values()]
    assert not [name for name in names if name.endswith("HomesNearlyFull")], "yours is watched by you"
