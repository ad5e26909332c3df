"""The real `cdk` command line through a whole life: bootstrap, deploy, diff, scale, failure, destroy, nothing left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulator import CDK, Emulator, running

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
APP = Path(__file__).parent / "app"
DEPLOY = ("small/*", "--require-approval", "never", "--progress", "events")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator nobody else uses: the last test asks what is left in it."""
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `npm ci`")
    with running(tmp_path_factory.mktemp("cdk")) as emulator:
        yield emulator


def synthesize(emulator: Emulator, out: Path, *, gpus: int) -> Path:
    """Run the app once, without the command line: its output is what every command below is given."""
    environment = {
        **emulator.environment(),
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps({**json.loads((APP / "cdk.json").read_text())["context"], "gpus": gpus}),
        "CDK_VALIDATION": "false",
    }
    subprocess.run([sys.executable, "app.py"], cwd=APP, env=environment, check=True, capture_output=True)
    return out


def test_a_whole_life(alone: Emulator, tmp_path: Path) -> None:
    two = synthesize(alone, tmp_path / "two", gpus=2)
    three = synthesize(alone, tmp_path / "three", gpus=3)
    sagemaker = alone.boto("sagemaker")
    cloudformation = alone.boto("cloudformation")

    def cdk(*arguments: str, app: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return alone.cdk(*arguments, "--app", str(app), cwd=tmp_path, check=check)

    def counts() -> list[int]:
        names = [c["ClusterName"] for c in sagemaker.list_clusters()["ClusterSummaries"]]
        described = [sagemaker.describe_cluster(ClusterName=name) for name in names]
        assert all(c["ClusterStatus"] == "InService" for c in described)
        return [group["CurrentCount"] for c in described for group in c["InstanceGroups"]]

    cdk("bootstrap", f"aws://{alone.running.account}/{alone.running.region}", app=two)

    # a create that fails is rolled back and reported, and the next deploy succeeds
    alone.control.set_fault(operation="AWS::FSx::FileSystem.create", code="ServiceLimitExceeded", message="no storage")
    failed = cdk("deploy", *DEPLOY, app=two, check=False)
    assert failed.returncode == 1
    assert "no storage" in failed.stdout + failed.stderr
    assert counts() == []
    cdk("deploy", *DEPLOY, app=two)
    assert counts() == [2]
    assert cdk("diff", "small/*", "--fail", app=two).returncode == 0

    # the manifest went through CDK's own kubectl handler to the Kubernetes API
    namespaces = subprocess.run(
        ["kubectl", "--kubeconfig", alone.running.kubeconfig, "get", "namespace", "ray", "-o", "name"],
        env={**alone.environment(), "PATH": _layer()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert namespaces.stdout.strip() == "namespace/ray", namespaces.stderr

    assert cdk("diff", "small/*", "--fail", app=three, check=False).returncode == 1
    cdk("deploy", *DEPLOY, app=three)
    assert counts() == [3]

    cdk("destroy", "small/*", "--force", app=three)
    assert counts() == []
    stacks = cloudformation.list_stacks(StackStatusFilter=["CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_FAILED"])
    assert [s["StackName"] for s in stacks["StackSummaries"]] == ["CDKToolkit"]
    left = [r for r in alone.control.inventory() if r["stack"] != "CDKToolkit" and not r.get("made_by_service")]
    assert left == []


def _layer() -> str:
    from hyperpod_ray_sandbox.aws import paths

    return str(paths.KUBECTL_LAYER / "kubectl")
