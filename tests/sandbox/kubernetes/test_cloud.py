"""The recording API beside the embedded AWS: nodes follow HyperPod, claims make file systems, both go in the right
order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support import roles

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parents[3]
HEALTH = "sagemaker.amazonaws.com/node-health-status"


class World:
    """The embedded AWS, its Kubernetes API, and clients for both."""

    def __init__(self, state: Path, cluster: Any) -> None:
        import boto3

        self.state = state
        self.cluster = cluster
        self.local("up", "--seconds-per-state", "0.5")
        cluster.state = state / "kubernetes"
        cluster.server = json.loads((cluster.state / "server.json").read_text())
        record = json.loads((state / "state.json").read_text())
        self.port = record["port"]
        self.session: Any = boto3.Session("000000000001", record["secret"], region_name="us-west-2")

    def local(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "hyperpod_ray.cli", "local", *arguments, "--state", str(self.state)]
        done = subprocess.run(
            command, cwd=PROJECT, capture_output=True, text=True, timeout=900, env=dict(os.environ), check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def aws(self, service: str) -> Any:
        return self.session.client(service, endpoint_url=f"http://127.0.0.1:{self.port}")


@pytest.fixture
def world(tools: None, tmp_path: Path, make_cluster: Any) -> Iterator[World]:
    made = World(tmp_path / "aws", make_cluster(tmp_path))
    yield made
    made.local("down")


def furnish(world: World) -> dict[str, str]:
    """VPC, roles, EKS with the CSI add-on, and a HyperPod cluster of one CPU and one GPU group."""
    ec2, iam, eks, sagemaker = (world.aws(s) for s in ("ec2", "iam", "eks", "sagemaker"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    zones = ("us-west-2a", "us-west-2b")
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=z)["Subnet"]["SubnetId"]
        for i, z in enumerate(zones)
    ]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    roles.way_out(ec2, vpc, subnets[1])
    role = roles.node_role(iam)
    made = eks.create_cluster(
        name="ray", roleArn=roles.cluster_role(iam),
        resourcesVpcConfig={"subnetIds": subnets, "securityGroupIds": [group]},
        accessConfig={"authenticationMode": "API"},
    )["cluster"]  # fmt: skip
    world.cluster.until(lambda: eks.describe_cluster(name="ray")["cluster"]["status"] == "ACTIVE", "EKS active")
    issuer = eks.describe_cluster(name="ray")["cluster"]["identity"]["oidc"]["issuer"]
    driver = roles.driver_role(iam, issuer)
    eks.create_addon(clusterName="ray", addonName="aws-fsx-csi-driver", serviceAccountRoleArn=driver)
    world.aws("s3").create_bucket(
        Bucket="sagemaker-lifecycle", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    world.aws("s3").put_object(Bucket="sagemaker-lifecycle", Key="on_create.sh", Body=b"#!/bin/sh\n")
    common = {
        "ExecutionRole": role,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-lifecycle", "OnCreate": "on_create.sh"},
    }
    sagemaker.create_cluster(
        ClusterName="ray", Orchestrator={"Eks": {"ClusterArn": made["arn"]}}, NodeRecovery="Automatic",
        VpcConfig={"SecurityGroupIds": [group], "Subnets": subnets},
        InstanceGroups=[
            {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1, **common},
            {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.8xlarge", "InstanceCount": 1, **common},
        ],
    )  # fmt: skip
    return {"subnet": subnets[0], "group": group}


def systems(fsx: Any) -> list[Any] | None:
    """All file systems; None where one went while they were listed (the emulator answers FileSystemNotFound then)."""
    try:
        return list(fsx.describe_file_systems()["FileSystems"])
    except fsx.exceptions.FileSystemNotFound:
        return None


def _rebooted(cluster: Any, ready: Callable[[], list[Any]]) -> None:
    """A reboot that is over before the next look is over all the same, and the node is the one it was."""
    name = ready()[0]["metadata"]["name"]
    cluster.kubectl("label", "node", name, f"{HEALTH}=UnschedulablePendingReboot", "--overwrite")
    cluster.until(lambda: [n["metadata"]["labels"][HEALTH] for n in ready()] == ["Schedulable"], "schedulable again")
    assert [n["metadata"]["name"] for n in ready()] == [name]


def test_nodes_and_file_systems(world: World) -> None:
    place = furnish(world)
    cluster, fsx, sagemaker = world.cluster, world.aws("fsx"), world.aws("sagemaker")
    label = "sagemaker.amazonaws.com/instance-group-name"

    def ready(group: str) -> list[Any]:
        return [
            n for n in cluster.get("nodes", "-l", f"{label}={group}")["items"]
            if any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", []))
        ]  # fmt: skip

    cluster.until(lambda: ready("head") and ready("gpu"), "both nodes ready")
    first = ready("gpu")[0]
    known = {n["InstanceId"] for n in sagemaker.list_cluster_nodes(ClusterName="ray")["ClusterNodeSummaries"]}
    assert first["metadata"]["name"].removeprefix("hyperpod-") in known
    assert first["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ml.g5.8xlarge"
    assert first["metadata"]["labels"]["topology.kubernetes.io/zone"].startswith("us-west-2")
    assert first["metadata"]["labels"][HEALTH] == "Schedulable"
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "1"

    # a claim makes a file system, with the class's parameters and the driver's tag
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fsx"}, "provisioner": "fsx.csi.aws.com",  # noqa: E501
            "parameters": {"subnetId": place["subnet"], "securityGroupIds": place["group"], "deploymentType": "PERSISTENT_2",  # noqa: E501
                           "perUnitStorageThroughput": "250", "storageType": "SSD", "fileSystemTypeVersion": "2.15",
                           "extraTags": "project=ray", "notAParameter": "ignored"}}  # fmt: skip
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
             "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "fsx", "resources": {"requests": {"storage": "1300Gi"}}}}  # fmt: skip  # noqa: E501
    cluster.apply(kind, claim)
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=600s")
    system = fsx.describe_file_systems()["FileSystems"][0]
    tags = {t["Key"]: t["Value"] for t in system["Tags"]}
    bound = cluster.get("pvc", "data")
    assert tags == {"CSIVolumeName": f"pvc-{bound['metadata']['uid']}", "project": "ray"}
    assert system["StorageCapacity"] == 2400
    assert system["LustreConfiguration"]["PerUnitStorageThroughput"] == 250
    volume = cluster.get("pv", bound["spec"]["volumeName"])
    assert volume["spec"]["csi"]["volumeHandle"] == system["FileSystemId"]

    # a node that fails is replaced by the service: the old object goes, a new one comes
    world.local("fail-node", first["metadata"]["name"].removeprefix("hyperpod-"))
    cluster.until(
        lambda: [n for n in ready("gpu") if n["metadata"]["name"] != first["metadata"]["name"]], "a replacement"
    )
    cluster.until(lambda: len(cluster.get("nodes", "-l", f"{label}=gpu")["items"]) == 1, "the old node's object gone")
    # so is one that is labelled by hand
    second = ready("gpu")[0]["metadata"]["name"]
    cluster.kubectl("label", "node", second, f"{HEALTH}=UnschedulablePendingReplacement", "--overwrite")
    cluster.until(lambda: [n for n in ready("gpu") if n["metadata"]["name"] != second], "replaced on request")
    cluster.until(lambda: len(cluster.get("nodes", "-l", f"{label}=gpu")["items"]) == 1, "the old node's object gone")

    _rebooted(cluster, lambda: ready("gpu"))

    # the claim goes: the file system goes, then the volume
    cluster.kubectl("delete", "pvc", "data")
    cluster.until(lambda: systems(fsx) == [], "the file system deleted")
    cluster.until(lambda: cluster.get("pv")["items"] == [], "the volume gone")

    # a driver that went first leaves an orphan
    cluster.apply(claim)
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=600s")
    world.aws("eks").delete_addon(clusterName="ray", addonName="aws-fsx-csi-driver")

    def addon_gone() -> bool:
        try:
            world.aws("eks").describe_addon(clusterName="ray", addonName="aws-fsx-csi-driver")
        except ClientError:
            return True
        return False

    cluster.until(addon_gone, "the add-on gone")
    cluster.kubectl("delete", "pvc", "data")
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Released", "pv", "--all", "--timeout=600s")
    sagemaker.delete_cluster(ClusterName="ray")
    cluster.until(lambda: cluster.get("nodes")["items"] == [], "no nodes left")
    world.aws("eks").delete_cluster(name="ray")
    cluster.until(lambda: cluster.get("pv,sc")["items"] == [], "the objects gone with their control plane")
    assert len(fsx.describe_file_systems()["FileSystems"]) == 1  # the orphan
