"""`local deploy` without an embedded AWS: what it does beside what, and what it says when a part fails."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name
from botocore.validate import ParamValidator

from hyperpod_ray.charts import store
from hyperpod_ray.cli import local_deploy
from hyperpod_ray.core import EnvironmentFileError, stand_ins
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.aws import commands, process
from tests.support.emulator import ROOT, until

INVALID = """
import json, os
import aws_cdk as cdk
from hyperpod_ray.stacks.app import feature_flags, use_pinned_node
context = {**feature_flags(__import__("pathlib").Path(".")), **json.loads(os.environ["CDK_CONTEXT_JSON"])}
app = cdk.App(context=context)
stage = cdk.Stage(app, context["env"])
stack = cdk.Stack(stage, "A")
cdk.CfnResource(stack, "B", type="AWS::S3::Bucket", properties={"Foo": "1"})
app.synth()
"""


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> local_deploy.Cdk:
    monkeypatch.setattr(local_deploy, "project_folder", lambda: tmp_path)
    monkeypatch.setattr(local_deploy, "program", lambda _: tmp_path / "cdk")
    return local_deploy.Cdk("e", environments=tmp_path, variables={}, work=tmp_path)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)


def test_the_bootstrap_runs_beside_the_synthesis(cdk: local_deploy.Cdk, tmp_path: Path) -> None:
    """It ends only after the synthesis has begun, and the other way round."""
    script(tmp_path / "cdk", "touch begun; until test -e synthesized; do sleep 0.05; done; echo bootstrapped")
    (tmp_path / "app.py").write_text(
        "import os, time\nwhile not os.path.exists('begun'): time.sleep(0.05)\nopen('synthesized', 'w').close()\n"
    )
    with cdk.bootstrapping("aws://1/r"):
        cdk.synthesize()


def test_a_bootstrap_that_fails_shows_its_words(
    cdk: local_deploy.Cdk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "cdk", "echo 'no such role'; exit 7")
    with pytest.raises(OpsError, match="cdk bootstrap failed: exit code 7"), cdk.bootstrapping("aws://1/r"):
        pass
    assert "no such role" in capfd.readouterr().err


def test_a_synthesis_that_fails_ends_the_bootstrap(cdk: local_deploy.Cdk, tmp_path: Path) -> None:
    script(tmp_path / "cdk", "exec sleep 100000")
    (tmp_path / "app.py").write_text("raise SystemExit(2)\n")
    with pytest.raises(OpsError, match="cdk synth failed: exit code 2"), cdk.bootstrapping("aws://1/r"):
        cdk.synthesize()


HOLDER = """
import pathlib, sys, time
from hyperpod_ray.cli import local_deploy
state = pathlib.Path(sys.argv[1])
local_deploy.project_folder = lambda: state
local_deploy.program = lambda project: state / "cdk"
with local_deploy._alone("e", state) as lock:
    cdk = local_deploy.Cdk("e", environments=state, variables={}, work=state, lock=lock)
    cdk.run("deploy")
"""


def holder(state: Path, cdk: str) -> subprocess.Popen[bytes]:
    """A command that holds the lock while its stand-in for cdk runs."""
    script(state / "cdk", f"touch runs; {cdk}")
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(state)], cwd=ROOT)
    until((state / "runs").exists)
    return process


def test_of_two_deploys_at_once_the_second_is_refused_and_names_the_first(tmp_path: Path) -> None:
    first = holder(tmp_path, "exec sleep 100000")
    try:
        said = f"another command deploys or destroys 'e': process {first.pid}"
        with pytest.raises(OpsError, match=said), local_deploy._alone("e", tmp_path):
            pass
        with local_deploy._alone("other", tmp_path):
            pass
    finally:
        first.send_signal(signal.SIGINT)
        first.wait()


def test_ctrl_c_says_what_continues_and_shows_no_traceback(tmp_path: Path) -> None:
    """A terminal sends it to the whole group. The app would answer with a traceback."""
    (tmp_path / "app.py").write_text("import time\nopen('runs', 'w').close()\ntime.sleep(100000)\n")
    script = HOLDER.replace('cdk.run("deploy")', "cdk.synthesize()")
    catch = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", catch + script, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until((tmp_path / "runs").exists)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert "OpsError: interrupted: stacks of 'e' that are in progress continue" in said
    assert "KeyboardInterrupt" not in said


def test_a_disk_that_is_nearly_full_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=6 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OpsError, match="a: 6 MB free on its disk"):
        local_deploy.deploy("dev", folder=ROOT / "environments", state=tmp_path / "a")
    assert list((tmp_path / "a").iterdir()) == []


def test_a_deploy_waits_for_the_cdk_of_one_that_was_killed(tmp_path: Path) -> None:
    killed = holder(tmp_path, "until test -e enough; do sleep 0.05; done; touch ended")
    killed.kill()
    killed.wait()
    threading.Timer(0.5, (tmp_path / "enough").touch).start()
    with local_deploy._alone("e", tmp_path):
        assert (tmp_path / "ended").exists()


@pytest.mark.slow
def test_an_invalid_template_is_refused_before_anything_is_deployed(
    cdk: local_deploy.Cdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The app writes its report, and the CDK's own command line reads it."""
    (tmp_path / "cdk.json").write_text((ROOT / "cdk.json").read_text())
    (tmp_path / "app.py").write_text(INVALID)
    cdk = local_deploy.Cdk("e", environments=tmp_path, variables={"PYTHONPATH": str(ROOT)}, work=tmp_path)
    cdk.synthesize()
    report = json.loads((tmp_path / "cdk.out" / "validation-report.json").read_text())
    assert report["pluginReports"][0]["conclusion"] == "failure"
    monkeypatch.setattr(cdk, "_program", ROOT / "node_modules" / ".bin" / "cdk")
    capfd.readouterr()
    with pytest.raises(OpsError, match="cdk deploy failed"):
        cdk.run("deploy", "--require-approval", "never")
    text = "".join(capfd.readouterr())
    assert "'Foo' was unexpected" in text
    assert "Traceback" not in text


# --- both verbs, without processes -----------------------------------------------------------------------------------

EXAMPLES = ROOT / "environments" / "examples"
NAME = "data-in-s3"
BUCKETS = ["research-checkpoints", "research-datasets"]


class S3:
    """Buckets and their objects; botocore's model judges each request."""

    def __init__(self, buckets: dict[str, list[str]]) -> None:
        self.buckets = buckets
        self.model: Any = botocore.session.get_session().get_service_model("s3")

    def _judged(self, operation: str, arguments: dict[str, Any]) -> None:
        name = next(each for each in self.model.operation_names if xform_name(each) == operation)
        shape = self.model.operation_model(name).input_shape
        report = ParamValidator().validate(arguments, shape)
        assert not report.has_errors(), report.generate_report()

    def list_buckets(self) -> dict[str, Any]:
        return {"Buckets": [{"Name": name} for name in self.buckets]}

    def create_bucket(self, **arguments: Any) -> None:
        self._judged("create_bucket", arguments)
        assert arguments["Bucket"] not in self.buckets, "BucketAlreadyOwnedByYou"
        place = arguments.get("CreateBucketConfiguration", {}).get("LocationConstraint", "us-east-1")
        self.buckets[arguments["Bucket"]] = [f"in {place}"]

    def get_paginator(self, operation: str) -> Any:
        def paginate(**arguments: Any) -> Iterator[dict[str, Any]]:
            self._judged(operation, arguments)
            for key in list(self.buckets[arguments["Bucket"]]):
                yield {"Contents": [{"Key": key}]}
            yield {}

        return SimpleNamespace(paginate=paginate)

    def delete_object(self, **arguments: Any) -> None:
        self._judged("delete_object", arguments)
        self.buckets[arguments["Bucket"]].remove(arguments["Key"])

    def delete_bucket(self, **arguments: Any) -> None:
        self._judged("delete_bucket", arguments)
        assert self.buckets.pop(arguments["Bucket"]) == [], "BucketNotEmpty"


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An embedded AWS that answers at once, and processes that only note how they are started."""
    client = SimpleNamespace(
        environment=lambda: {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
        endpoint="http://127.0.0.1:4566",
        secret="s",
    )
    parts = SimpleNamespace(
        running=SimpleNamespace(account="111122223333", region="us-west-2", client=client), there=True, inventory=[],
        steps=list[Any](), s3=S3({"of-others": ["a"]}), code=0, state=tmp_path / "state",
    )  # fmt: skip
    client.inventory = lambda: parts.inventory
    (tmp_path / "cdk.json").write_text("{}")
    script(tmp_path / "cdk", "exit 1")
    monkeypatch.setattr(local_deploy, "project_folder", lambda: tmp_path)
    monkeypatch.setattr(local_deploy, "program", lambda _: tmp_path / "cdk")
    monkeypatch.setattr(local_deploy, "_s3", lambda _: parts.s3)
    monkeypatch.setattr(process, "find", lambda _: parts.running if parts.there else None)
    monkeypatch.setattr(commands, "found", lambda _: parts.running)
    monkeypatch.setattr(leash, "hold", lambda: parts.steps.append("hold"))
    monkeypatch.setattr(store, "fetch", lambda chart: parts.steps.append("chart"))

    def up(*, state: Path, account: str, region: str) -> Any:
        parts.steps.append(("up", account, region))
        return parts.running

    def inventory(*, state: Path, ignore_stack: tuple[str, ...], ignore_service_made: bool) -> list[dict[str, Any]]:
        assert ignore_service_made
        return [each for each in parts.inventory if each["stack"] not in ignore_stack]

    @contextlib.contextmanager
    def bootstrapping(_: Any, target: str) -> Iterator[None]:
        parts.steps.append(("bootstrap", target))
        yield

    def run(
        words: list[str], *, cwd: Path, env: dict[str, str], check: bool, pass_fds: tuple[int, ...], **_: Any
    ) -> Any:
        assert len(pass_fds) == 1, "the lock"
        assert env["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566", "not an account of somebody's"
        assert (cwd, check) == (tmp_path, False)
        shown = [word.replace(str(tmp_path), "<here>") for word in map(str, words)]
        parts.steps.append((*shown[1:], *([env["CDK_OUTDIR"]] if shown[1] == "app.py" else [])))
        return SimpleNamespace(returncode=parts.code)

    monkeypatch.setattr(commands, "up", up)
    monkeypatch.setattr(commands, "inventory", inventory)
    monkeypatch.setattr(local_deploy.Cdk, "bootstrapping", bootstrapping)
    monkeypatch.setattr(subprocess, "run", run)
    return parts


def test_a_local_deploy_has_its_steps_in_their_order(embedded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state) == 0
    work = embedded.state / "rehearsed" / NAME
    steps = [step for step in embedded.steps if step != "chart"]
    assert steps == [
        ("up", "111122223333", "us-west-2"), "hold", ("bootstrap", "aws://111122223333/us-west-2"),
        ("app.py", str(work / "cdk.out")),
        ("deploy", "--app", f"<here>/state/rehearsed/{NAME}/cdk.out", f"{NAME}/*", "--require-approval", "never",
         "--concurrency", "3", "--progress", "events"),
    ]  # fmt: skip
    assert embedded.steps.count("chart") > 1
    assert embedded.s3.buckets == {"of-others": ["a"], **{name: ["in us-west-2"] for name in BUCKETS}}
    said = capsys.readouterr().err.splitlines()
    _, notes = stand_ins.rehearsed(yaml.safe_load((EXAMPLES / f"{NAME}.yaml").read_text()))
    buckets = [f"s3://{bucket}: a new, empty bucket" for bucket in BUCKETS]
    assert notes, "what the rehearsed file has instead is said"
    assert [line for line in said if line.startswith("stand-in: ")] == [f"stand-in: {n}" for n in (*notes, *buckets)]
    assert said[-2:] == [
        f"'{NAME}' is deployed to the embedded AWS on http://127.0.0.1:4566",
        f'next: eval "$(hyperpod-ray local env --state {embedded.state})"; hyperpod-ray status {NAME}',
    ]
    assert local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state) == 0, "a second time creates no bucket"
    assert (work / "buckets.txt").read_text().split() == BUCKETS


def test_one_embedded_aws_is_bootstrapped_once(embedded: Any) -> None:
    bootstrap = ("bootstrap", "aws://111122223333/us-west-2")

    def deployed() -> int:
        embedded.steps.clear()
        assert local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state) == 0
        return int(embedded.steps.count(bootstrap))

    assert deployed() == 1
    embedded.inventory = [{"type": "AWS::CloudFormation::Stack", "id": "CDKToolkit", "stack": ""}]
    assert deployed() == 0
    embedded.running.client.secret = "of another start"
    assert (deployed(), deployed()) == (1, 0)
    (embedded.state.parent / "package.json").write_text('{"devDependencies": {"aws-cdk": "9"}}')
    assert deployed() == 1, "a newer CLI may need more"
    embedded.inventory = []
    assert deployed() == 1, "somebody deleted the stack"


def test_a_bucket_in_us_east_1_names_no_region(embedded: Any) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html: us-east-1 is no LocationConstraint."""
    embedded.running.region = "us-east-1"
    work = embedded.state / "environments" / "x.yaml"
    work.parent.mkdir(parents=True)
    work.write_bytes((EXAMPLES / f"{NAME}.yaml").read_bytes())
    local_deploy._create_buckets(work, embedded.running)
    assert embedded.s3.buckets["research-datasets"] == ["in us-east-1"]


@pytest.mark.parametrize(("account", "region"), [("111122223333", "us-east-1"), ("999999999999", "us-west-2")])
def test_an_embedded_aws_of_another_account_or_region_is_left_alone(embedded: Any, account: str, region: str) -> None:
    embedded.running.account, embedded.running.region = account, region
    with pytest.raises(OpsError, match=f"runs as account {account} in {region}") as refused:
        local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state)
    assert refused.value.fix == f"hyperpod-ray local down --state {embedded.state}, then the same command again"
    assert embedded.steps == []


def test_a_local_destroy_takes_what_the_deploy_made_and_names_what_is_left(
    embedded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state)
    (embedded.state / "rehearsed" / NAME / "cdk.out").mkdir()
    embedded.s3.buckets["research-datasets"] += ["b", "c"]
    embedded.steps.clear()
    embedded.inventory = [
        {"type": "AWS::EC2::VPC", "id": "vpc-1", "stack": f"{NAME}-Network"},
        {"type": "AWS::EC2::VPC", "id": "vpc-2", "stack": "other-Network"},
        {"type": "AWS::FSx::FileSystem", "id": "fs-1", "stack": ""},
        {"type": "AWS::S3::Bucket", "id": "assets", "stack": "CDKToolkit"},
        {"type": "AWS::CloudFormation::Stack", "id": "CDKToolkit", "stack": ""},
    ]
    capsys.readouterr()
    assert local_deploy.destroy(NAME, folder=EXAMPLES, state=embedded.state) == 3
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("left: ")] == [
        "left: AWS::EC2::VPC vpc-1", "left: AWS::FSx::FileSystem fs-1",
    ]  # fmt: skip
    assert embedded.steps == [
        "hold",
        ("destroy", "--app", f"<here>/state/rehearsed/{NAME}/cdk.out", f"{NAME}/*", "--force", "--concurrency", "3"),
    ], "an assembly that is there is not synthesized again"
    assert embedded.s3.buckets == {"of-others": ["a"]}, "with what is in them, and no other's"
    embedded.inventory = []
    assert local_deploy.destroy(NAME, folder=EXAMPLES, state=embedded.state) == 0


def test_a_step_that_fails_ends_it(embedded: Any) -> None:
    embedded.code = 7
    with pytest.raises(OpsError, match="cdk synth failed: exit code 7"):
        local_deploy.deploy(NAME, folder=EXAMPLES, state=embedded.state)
    assert embedded.steps[-1][0] == "app.py"


def test_the_embedded_aws_is_asked_for_buckets_with_its_own_keys() -> None:
    client = SimpleNamespace(endpoint="http://127.0.0.1:4566", secret="s")
    made = local_deploy._s3(SimpleNamespace(client=client, region="eu-west-1", account="111122223333"))
    keys = made._request_signer._credentials
    assert (made.meta.endpoint_url, made.meta.region_name) == ("http://127.0.0.1:4566", "eu-west-1")
    assert (keys.access_key, keys.secret_key) == ("111122223333", "s")


@pytest.mark.parametrize("name", ["../../outside", "devv", ""])
def test_a_name_that_is_no_environment_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder would lie beside the sandbox's, or outlive the mistake."""
    state = tmp_path / "sandbox" / "state"
    state.mkdir(parents=True)
    monkeypatch.setattr(commands, "found", lambda _: None)
    for command in (local_deploy.deploy, local_deploy.destroy):
        with pytest.raises(EnvironmentFileError):
            command(name, folder=EXAMPLES, state=state)
    assert [path.name for path in tmp_path.rglob("*")] == ["sandbox", "state"]
