"""`up --kubeconfig`: HyperPod's nodes in a cluster of one's own, here a second instance of our own API without AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws import process
from hyperpod_ray_sandbox.kubernetes import follower
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from tests.support import roles
from tests.support.emulator import running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
HEALTH = "sagemaker.amazonaws.com/node-health-status"


def hyperpod(emulator: Any, *, count: int) -> None:
    eks, sagemaker, ec2 = (emulator.boto(name) for name in ("eks", "sagemaker", "ec2"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet, other = (
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"us-west-2{zone}")["Subnet"][
            "SubnetId"
        ]
        for i, zone in enumerate("ab")
    )
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    role = roles.node_role(emulator.boto("iam"))
    made = eks.create_cluster(
        name="ray", roleArn=roles.cluster_role(emulator.boto("iam")), accessConfig={"authenticationMode": "API"},
        resourcesVpcConfig={"subnetIds": [subnet, other], "securityGroupIds": [group]},
    )["cluster"]  # fmt: skip
    until(lambda: eks.describe_cluster(name="ray")["cluster"]["status"] == "ACTIVE")
    s3 = emulator.boto("s3")
    s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket="sagemaker-scripts", Key="on_create.sh", Body=b"#!/bin/sh\n")
    script = {"SourceS3Uri": "s3://sagemaker-scripts", "OnCreate": "on_create.sh"}
    sagemaker.create_cluster(
        ClusterName="ray", Orchestrator={"Eks": {"ClusterArn": made["arn"]}}, NodeRecovery="Automatic",
        VpcConfig={"SecurityGroupIds": [group], "Subnets": [subnet]},
        InstanceGroups=[{"InstanceGroupName": "gpu", "InstanceType": "ml.g5.8xlarge", "InstanceCount": count,
                         "ExecutionRole": role, "LifeCycleConfig": script}],
    )  # fmt: skip


def test_hyperpods_nodes_are_nodes_of_a_cluster_of_ones_own(empty: Any, tmp_path: Path) -> None:
    own = empty
    kubeconfig = Path(own.server["kubeconfig"])
    state = tmp_path / ("a-long-name-" * 8) / "aws"  # longer than a socket's name may be
    with running(state, kubeconfig=kubeconfig) as emulator:
        assert emulator.running.kubernetes == own.server["url"]
        hyperpod(emulator, count=2)

        def ready() -> list[Any]:
            items = own.get("nodes")["items"]
            return [n for n in items if n["metadata"]["labels"].get(HEALTH) == "Schedulable"
                    and any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", []))]  # fmt: skip # noqa: E501

        first = until(lambda: len(seen := ready()) == 2 and seen)
        listed = emulator.boto("sagemaker").list_cluster_nodes(ClusterName="ray")["ClusterNodeSummaries"]
        assert {n["metadata"]["name"] for n in first} == {f"hyperpod-{i['InstanceId']}" for i in listed}
        for node in first:
            assert node["metadata"]["labels"]["sagemaker.amazonaws.com/instance-group-name"] == "gpu"
            assert node["metadata"]["labels"][HEALTH] == "Schedulable"
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"

        def beat() -> str:
            conditions = own.get("node", first[1]["metadata"]["name"])["status"]["conditions"]
            return str(next(c["lastHeartbeatTime"] for c in conditions if c["type"] == "Ready"))

        before = beat()
        lost = first[0]["metadata"]["name"]
        emulator.control.fail_node(lost.removeprefix("hyperpod-"))
        until(lambda: len(seen := ready()) == 2 and lost not in {n["metadata"]["name"] for n in seen})
        reasons = {e["reason"] for e in own.get("events", "-n", "default")["items"]}
        assert "NodeReady" in reasons
        until(lambda: beat() != before)
        # what is asked for by a label is asked of the service
        asked = ready()[0]["metadata"]["name"]
        own.kubectl("label", "node", asked, f"{HEALTH}=UnschedulablePendingReplacement", "--overwrite")
        until(lambda: len(seen := ready()) == 2 and asked not in {n["metadata"]["name"] for n in seen})
    # `down` takes the instances, and with them their Node objects; the cluster itself stays
    assert own.get("nodes")["items"] == []
    assert own.get("namespace", "default")["status"]["phase"] == "Active"
    assert process.marked(state) == []


class Answers:
    """An API that answers with errors first."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def all(self, version: str, kind: str) -> list[Any]:
        if self.codes:
            raise ApiError(self.codes.pop(0), "x", "x")
        return []


def test_a_server_that_starts_gets_some_time_and_a_refusal_none() -> None:
    starting: Any = Answers(503, 502)
    follower.first_answer(starting, every=0.0)
    assert starting.codes == []
    refusing: Any = Answers(403)
    with pytest.raises(ApiError):
        follower.first_answer(refusing, every=0.0)
    dead: Any = Answers(*[503] * 3)
    with pytest.raises(ApiError):
        follower.first_answer(dead, seconds=-1.0, every=0.0)
