"""`aws eks update-kubeconfig` and kubectl, as a person uses both with EKS: the real AWS CLI against the sandbox."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox.aws import paths
from tests.support import kubectl, roles
from tests.support.emulator import Emulator, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
ARN = "arn:aws:eks:us-west-2:000000000001:cluster/ray"


def eks_cluster(emulator: Emulator) -> dict[str, Any]:
    """An active cluster; whoever creates it is its administrator."""
    eks, ec2 = emulator.boto("eks"), emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for number, zone in enumerate(("us-west-2a", "us-west-2b"))
    ]
    eks.create_cluster(
        name="ray", roleArn=roles.cluster_role(emulator.boto("iam")), resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API"},
    )  # fmt: skip
    until(lambda: eks.describe_cluster(name="ray")["cluster"]["status"] == "ACTIVE")
    description: dict[str, Any] = eks.describe_cluster(name="ray")["cluster"]
    return description


def test_a_kubeconfig_of_the_aws_cli_reaches_the_cluster(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    with running(tmp_path / "aws") as emulator:
        cluster = eks_cluster(emulator)
        environment = {
            **emulator.control.environment(),
            "PATH": f"{paths.VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(config),
        }
        subprocess.run(["aws", "eks", "update-kubeconfig", "--name", "ray"], env=environment, check=True)

        written = yaml.safe_load(config.read_text())
        assert written["current-context"] == cluster["arn"] == ARN
        server = written["clusters"][0]["cluster"]
        assert server == {
            "certificate-authority-data": cluster["certificateAuthority"]["data"],
            "server": cluster["endpoint"],
        }
        assert b"BEGIN CERTIFICATE" in base64.b64decode(server["certificate-authority-data"])
        plugin = written["users"][0]["user"]["exec"]
        assert [plugin["command"], *plugin["args"]] == [
            "aws", "--region", "us-west-2", "eks", "get-token", "--cluster-name", "ray", "--output", "json",
        ]  # fmt: skip

        kubectl.output("create", "namespace", "training", environment=environment)
        listed = json.loads(kubectl.output("get", "namespaces", "-o", "json", environment=environment))
        assert "training" in {namespace["metadata"]["name"] for namespace in listed["items"]}
        who = json.loads(kubectl.output("auth", "whoami", "-o", "json", environment=environment))
        assert "system:masters" in who["status"]["userInfo"]["groups"]

        stranger = {**environment, "AWS_SECRET_ACCESS_KEY": "another"}
        refused = kubectl.run("kubectl", ["get", "namespaces"], environment=stranger)
        assert refused.returncode != 0
        assert "Unauthorized" in refused.stderr or "provide credentials" in refused.stderr, refused.stderr
