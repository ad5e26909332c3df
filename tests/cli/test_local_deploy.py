"""`local deploy` without an embedded AWS: what it does beside what, and what it says when a part fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hyperpod_ray.cli import local_deploy
from hyperpod_ray.ops.errors import OpsError
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
