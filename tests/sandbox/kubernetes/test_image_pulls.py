"""What a cluster shows of images that its nodes cannot get: nodes without a network, pods in ErrImagePull."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.kubernetes.test_follower import hyperpod
from tests.support import roles
from tests.support.emulator import running, until

pytestmark = pytest.mark.emulator
IMAGE = "000000000001.dkr.ecr.us-west-2.amazonaws.com/late:1"


@pytest.mark.slow
def test_nodes_and_pods_wait_for_images(tools: None, tmp_path: Path, make_cluster: Any) -> None:
    with running(tmp_path / "aws") as emulator:
        cluster = make_cluster(tmp_path)
        cluster.server = {"kubeconfig": emulator.running.kubeconfig}
        hyperpod(emulator, count=1)

        def condition() -> Any:
            items = cluster.get("nodes")["items"]
            found = [c for n in items for c in n["status"].get("conditions", []) if c["type"] == "Ready"]
            return found[0] if found else None

        shown = until(condition)
        assert (shown["status"], shown["reason"]) == ("False", "KubeletNotReady")
        assert "cni plugin not initialized: failed to pull and unpack image" in shown["message"]
        (node,) = cluster.get("nodes")["items"]
        assert {t["key"] for t in node["spec"]["taints"]} >= {"node.kubernetes.io/not-ready"}

        ec2 = emulator.boto("ec2")
        subnets = ec2.describe_subnets()["Subnets"]
        last = next(s for s in subnets if s["CidrBlock"] == "10.0.1.0/24")
        roles.way_out(ec2, last["VpcId"], last["SubnetId"])
        until(lambda: condition()["status"] == "True")

        spec = {"containers": [{"name": "c", "image": IMAGE}]}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                       "spec": spec})  # fmt: skip

        def waiting(reason: str) -> Any:
            statuses = cluster.get("pod", "p")["status"].get("containerStatuses") or [{}]
            found = statuses[0].get("state", {}).get("waiting", {})
            return found.get("reason") == reason and found

        backed_off = until(lambda: waiting("ImagePullBackOff"))
        assert backed_off["message"].endswith(f"{IMAGE}: not found")
        assert cluster.get("pod", "p")["status"]["phase"] == "Pending"
        reasons = {e["message"] for e in cluster.get("events")["items"] if e["involvedObject"].get("name") == "p"}
        assert {"Error: ErrImagePull", f'Back-off pulling image "{IMAGE}"'} <= reasons
        failed = cluster.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=1s", ok=False)
        assert failed.returncode == 1

        ecr = emulator.boto("ecr")
        ecr.create_repository(repositoryName="late")
        ecr.put_image(repositoryName="late", imageTag="1", imageManifest=json.dumps({"schemaVersion": 2}))
        until(lambda: cluster.get("pod", "p")["status"]["phase"] == "Running")
