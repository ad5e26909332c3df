"""An environment that exists: made through the APIs of the embedded AWS, so that its answers are real.

Not `cdk deploy`: that takes minutes and is tried by the story's test. What is made here is what a deploy leaves: seven
stacks by name, network, EKS cluster with the driver's add-on, HyperPod cluster, KubeRay by its stand-in chart, and the
manifests of `k8s`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, load
from hyperpod_ray_sandbox.aws import process
from tests.support import kubectl, roles
from tests.support.result import Result

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "000000000001"
Json = dict[str, Any]


def environment_text(
    *, count: int = 3, mode: str = "static", protected: bool = False, recovery: str = "Automatic"
) -> str:
    """An environment file: a head group of two CPU nodes, and workers with one spare."""
    retained = "retain" if protected else "delete"
    return f"""
account: "{ACCOUNT}"
region: us-west-2
protected: {str(protected).lower()}
network: {{availability_zone_ids: [usw2-az1, usw2-az2]}}
hyperpod:
  cluster_name: ray-ops
  node_recovery: {recovery}
  instance_groups:
    - {{name: head, type: ml.m5.2xlarge, count: 2}}
    - {{name: workers, type: ml.g5.8xlarge, count: {count}}}
storage: {{mode: {mode}, on_destroy: {retained}}}
image: {{on_destroy: {retained}}}
ray:
  head: {{instance_group: head, cpu: 2, memory_gib: 8}}
  workers:
    - {{name: gpu, instance_group: workers, replicas: 2}}
"""


@dataclass
class World:
    """A running embedded AWS with (or without) an environment in it."""

    running: process.Running
    state: Path
    folder: Path
    name: str = "demo"
    made: Json = field(default_factory=dict)
    stopped: bool = False

    def stop(self) -> None:
        """End it; a second call does nothing. A world that nobody uses any more takes a processor from the others."""
        if not self.stopped:
            process.stop(self.running, self.state)
            self.stopped = True

    # --- running commands ------------------------------------------------------------------------------------------

    def environ(self, **more: str) -> dict[str, str]:
        base = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AWS_", "KUBECONFIG", "OPS_", "NO_COLOR"))
        }
        return {
            **base,
            **self.running.client.environment(),
            "HYPERPOD_RAY_ENVIRONMENTS": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "140",
            **more,
        }

    def ops(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        """Run `ops` in this process: the same `main`, streams that are no terminals, an environment of its own."""
        from hyperpod_ray.cli.main import main

        out, err = io.StringIO(), io.StringIO()
        before = dict(os.environ)
        stdin = sys.stdin
        os.environ.clear()
        os.environ.update(env or self.environ())
        sys.stdin = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(list(arguments))
        finally:
            sys.stdin = stdin
            os.environ.clear()
            os.environ.update(before)
        return Result(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        """Run `hyperpod-ray …` as a process of its own."""
        command = [sys.executable, "-m", "hyperpod_ray.cli", *arguments]
        done = subprocess.run(
            command, env=env or self.environ(), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def write(self, text: str) -> Plan:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{self.name}.yaml").write_text(text)
        return self.plan

    @property
    def plan(self) -> Plan:
        return load(self.name, folder=self.folder).plan

    # --- AWS -------------------------------------------------------------------------------------------------------

    def client(self, service: str) -> Any:
        import boto3

        url = self.running.client.endpoint
        make: Any = boto3.client
        return make(
            service,
            region_name=self.running.region,
            endpoint_url=url,
            aws_access_key_id=self.running.account,
            aws_secret_access_key=self.running.secret,
        )

    def create(self, *, stacks: bool = True) -> None:
        """Everything a deploy leaves, through the services' own APIs."""
        plan = self.plan
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/18", AvailabilityZone="us-west-2a")["Subnet"][
            "SubnetId"
        ]
        second = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.64.0/18", AvailabilityZone="us-west-2b")["Subnet"][
            "SubnetId"
        ]
        group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        roles.way_out(ec2, vpc, second)
        role = roles.node_role(self.client("iam"))
        eks = self.client("eks")
        cluster = eks.create_cluster(
            name=plan.eks_cluster_name,
            roleArn=roles.cluster_role(self.client("iam")),
            version="1.34",
            resourcesVpcConfig={"subnetIds": [subnet, second], "securityGroupIds": [group]},
        )["cluster"]
        self.until(
            lambda: eks.describe_cluster(name=plan.eks_cluster_name)["cluster"]["status"] == "ACTIVE", "the EKS cluster"
        )
        issuer = eks.describe_cluster(name=plan.eks_cluster_name)["cluster"]["identity"]["oidc"]["issuer"]
        driver = roles.driver_role(self.client("iam"), issuer)
        eks.create_addon(
            clusterName=plan.eks_cluster_name, addonName="aws-fsx-csi-driver", serviceAccountRoleArn=driver
        )
        eks.create_addon(clusterName=plan.eks_cluster_name, addonName="coredns")
        self.client("sagemaker").create_cluster(**self._hyperpod(plan, role, subnet, group, cluster["arn"]))
        self.made = {"vpc": vpc, "subnet": subnet, "group": group, "role": role}
        if plan.settings.storage.kind == "static":
            fsx = self.client("fsx").create_file_system(
                FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet], SecurityGroupIds=[group],
                LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
                Tags=[{"Key": "hyperpod-ray:environment", "Value": self.name}],
            )["FileSystem"]  # fmt: skip
            self.made["file_system"] = fsx["FileSystemId"]
            self.made["mount_name"] = fsx["LustreConfiguration"]["MountName"]
        if stacks:
            self.make_stacks()
        self.until(lambda: self.status() == "InService", "the HyperPod cluster")

    def make_stacks(self) -> None:
        """The environment's stacks by name, each with one small resource."""
        from hyperpod_ray.core.plan_names import stack_names

        template = {
            "Resources": {"Marker": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}}
        }
        cloudformation = self.client("cloudformation")
        for stack in stack_names(self.plan):
            tags = [{"Key": "hyperpod-ray:environment", "Value": self.name}]
            cloudformation.create_stack(
                StackName=stack,
                TemplateBody=json.dumps(template),
                Tags=tags,
                EnableTerminationProtection=self.plan.settings.protected,
            )
        self.until(
            lambda: all(s["StackStatus"] == "CREATE_COMPLETE" for s in cloudformation.describe_stacks()["Stacks"]),
            "the stacks",
        )

    @staticmethod
    def _hyperpod(plan: Plan, role: str, subnet: str, group: str, eks_arn: str) -> Json:
        hyperpod = plan.settings.hyperpod
        return {
            "ClusterName": hyperpod.cluster_name,
            "NodeRecovery": hyperpod.node_recovery,
            "NodeProvisioningMode": "Continuous",
            "Orchestrator": {"Eks": {"ClusterArn": eks_arn}},
            "VpcConfig": {"Subnets": [subnet], "SecurityGroupIds": [group]},
            "Tags": [{"Key": "hyperpod-ray:environment", "Value": plan.name}],
            "InstanceGroups": [
                {
                    "InstanceGroupName": group.name,
                    "InstanceType": group.type,
                    "InstanceCount": group.count,
                    "ExecutionRole": role,
                    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-demo/", "OnCreate": "on_create.sh"},
                    **(
                        {"OnStartDeepHealthChecks": plan.deep_health_checks(group)}
                        if plan.deep_health_checks(group)
                        else {}
                    ),
                }
                for group in hyperpod.instance_groups
            ],
        }

    def status(self) -> str:
        return str(
            self.client("sagemaker").describe_cluster(ClusterName=self.plan.settings.hyperpod.cluster_name)[
                "ClusterStatus"
            ]
        )

    def instances(self, group: str = "") -> list[Json]:
        listed = self.client("sagemaker").list_cluster_nodes(ClusterName=self.plan.settings.hyperpod.cluster_name)
        return [node for node in listed["ClusterNodeSummaries"] if not group or node["InstanceGroupName"] == group]

    def running_workers(self) -> list[str]:
        return [
            node["InstanceId"] for node in self.instances("workers") if node["InstanceStatus"]["Status"] == "Running"
        ]

    def settle(self) -> None:
        """Until every group has its nodes and Ray its pods."""
        self.until(
            lambda: (
                len([n for n in self.instances() if n["InstanceStatus"]["Status"] == "Running"])
                >= sum(g.count for g in self.plan.settings.hyperpod.instance_groups)
            ),
            "all nodes",
        )
        last: list[Result] = []
        looks = itertools.count(1)

        def healthy() -> bool:
            # the command costs as much as twenty of these looks: it runs when they agree, and every tenth time
            if not self._runs() and next(looks) % 10:
                return False
            last[:] = [self.ops("status", self.name)]
            return last[0].code == 0

        try:
            self.until(healthy, "Healthy")
        except AssertionError:
            raise AssertionError(f"never Healthy: {last[0].out}") from None

    def _runs(self) -> bool:
        """Whether every node answers and all of Ray's pods run, by the objects alone."""
        conditions = [
            condition
            for node in self.get("/api/v1/nodes")["items"]
            for condition in node["status"].get("conditions", [])
        ]
        pods = self.get("/api/v1/namespaces/ray/pods")["items"]
        return all(condition["status"] == "True" for condition in conditions if condition["type"] == "Ready") and all(
            pod["status"].get("phase") in ("Running", "Succeeded") and not pod["metadata"].get("deletionTimestamp")
            for pod in pods
        )

    # --- Kubernetes ------------------------------------------------------------------------------------------------

    @property
    def bindings(self) -> k8s.Bindings:
        """What the stacks would know of the account."""
        return k8s.Bindings(
            image_uri="777788889999.dkr.ecr.us-west-2.amazonaws.com/ray-training:0123456789abcdef",
            image_content="0123456789abcdef",
            node_subnet_id=self.made.get("subnet", ""),
            file_system_security_group_id=self.made.get("group", ""),
            file_system_id=self.made.get("file_system", ""),
            file_system_dns_name=f"{self.made.get('file_system', '')}.fsx.us-west-2.amazonaws.com",
            file_system_mount_name=self.made.get("mount_name", ""),
        )

    def install(self) -> None:
        """KubeRay (its stand-in chart, by the real helm) and the manifests of `k8s`."""
        plan = self.plan
        self.until(lambda: len(self.get("/api/v1/nodes")["items"]) >= 3, "the nodes in Kubernetes")
        bindings = self.bindings
        for manifest in (*k8s.namespace_manifests(plan), *k8s.platform_manifests(plan, bindings)):
            self.apply(manifest.objects)
        for release, namespace in (("hyperpod-dependencies", "kube-system"), ("kuberay-operator",) * 2):
            chart = ROOT / "hyperpod_ray_sandbox" / "charts" / release
            words = ["install", release, str(chart), "--namespace", namespace, "--set", "global.region=us-west-2"]
            environment = {**self.environ(), "KUBECONFIG": self.running.kubeconfig}
            done = kubectl.run("helm", words, environment=environment)
            assert done.returncode == 0, done.stderr
        for manifest in k8s.guard_manifests(plan, bindings):
            self.apply(manifest.objects)
        objects = k8s.ray_manifests(plan, bindings)
        if not bindings.file_system_id:  # Ray's claim creates it; the volume-owner Job's volume names it
            self.apply(objects[0].objects)
            self.until(lambda: bool(self.get("/api/v1/persistentvolumes")["items"]), "the claim's volume")
            (volume,) = self.get("/api/v1/persistentvolumes")["items"]
            csi = volume["spec"]["csi"]
            known = replace(
                bindings,
                file_system_id=csi["volumeHandle"],
                file_system_dns_name=csi["volumeAttributes"]["dnsname"],
                file_system_mount_name=csi["volumeAttributes"]["mountname"],
            )
            objects = k8s.ray_manifests(plan, known)
        for manifest in objects:
            self.apply(manifest.objects)

    def apply(self, objects: list[Json]) -> None:
        text = yaml.safe_dump_all(objects)
        environment = {**self.environ(), "KUBECONFIG": self.running.kubeconfig}
        done = kubectl.run("kubectl", ["apply", "-f", "-"], environment=environment, stdin=text)
        assert done.returncode == 0, done.stderr

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", user: str = ""
    ) -> Json:
        """A request as the administrator, or as a user whom they impersonate."""
        import ssl

        config = yaml.safe_load(Path(self.running.kubeconfig).read_text())
        cluster, own = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        request = urllib.request.Request(  # noqa: S310
            cluster["server"] + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {own['token']}",
                "Content-Type": content_type,
                **({"Impersonate-User": user} if user else {}),
            },
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=600) as answer:
            decoded: Json = json.load(answer)
            return decoded

    def get(self, path: str) -> Json:
        try:
            return self.request("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {"items": []}
            raise

    def node_mode(self, node: str, mode: str) -> None:
        """Hooks of the local Kubernetes API: `unreachable`, `gone`, `restore`."""
        self.request("POST", f"/rehearsal/nodes/{node}", {"mode": mode})

    # --- time ------------------------------------------------------------------------------------------------------

    @staticmethod
    def until(condition: Callable[[], bool], what: str, *, seconds: float = 600) -> None:
        end, pause = time.monotonic() + seconds, 0.3
        while not condition():
            assert time.monotonic() < end, f"{what} did not come within {seconds:.0f} s"
            time.sleep(pause)
            pause = min(1.0, pause * 1.1)  # what is waited for needs the processor too
