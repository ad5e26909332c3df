"""The light installation: two wheels and what `requirements/light.txt` pins, against a running environment.

No index is asked. The pinned distributions come from this interpreter, whose versions must be the pinned ones; of the
checkout, nothing can be reached. `benchmarks/light_install.py` installs with pip, as the README writes it.
"""

from __future__ import annotations

import http.client
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ops.ray_head import Head
from tests.ops.world import ROOT, World
from tests.support.result import Result

pytestmark = [pytest.mark.emulator, pytest.mark.rehearsal, pytest.mark.slow]

LARGEST_MB = 150
PINS = dict(
    re.findall(r"^([a-z0-9-]+)==(\S+)$", (ROOT / "requirements/light.txt").read_text(encoding="utf-8"), re.MULTILINE)
)
OURS = ("hyperpod-ray", "hyperpod-ray-rules")
HEAD = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}


class Light:
    """A virtual environment with the light installation, and a folder of a person's own."""

    def __init__(self, home: Path, work: Path) -> None:
        self.home, self.work = home, work

    def run(self, *words: str, world: World | None = None, **more: str) -> Result:
        done = subprocess.run(
            [str(self.home / "bin" / "hyperpod-ray"), *words],
            env=self.environ(world, **more), cwd=self.work, capture_output=True, text=True, timeout=900, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert "internal error" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def environ(self, world: World | None, **more: str) -> dict[str, str]:
        variables = world.environ(HYPERPOD_RAY_ENVIRONMENTS=str(world.folder)) if world else dict(os.environ)
        variables.pop("PYTHONPATH", None)
        return {**variables, "HOME": str(self.work), "PYTHONNOUSERSITE": "1", **more}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Light:
    home, wheels, work = (tmp_path_factory.mktemp(name) for name in ("light", "wheels", "work"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    for source in (ROOT, ROOT / "hyperpod_ray_rules"):
        subprocess.run(command, cwd=source, check=True, capture_output=True)
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    (site,) = (home / "lib").glob("python*/site-packages")
    for name, version in PINS.items():
        distribution = importlib.metadata.distribution(name)
        assert distribution.version == version, f"{name}: requirements.txt and requirements/light.txt differ"
        root = Path(str(distribution.locate_file(""))).resolve()
        for file in distribution.files or []:
            source = Path(str(distribution.locate_file(file))).resolve()
            if source.is_relative_to(root) and source.exists() and "__pycache__" not in source.parts:
                target = site / source.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", *map(str, wheels.glob("*.whl"))], check=True)
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
    return Light(home, work)


@pytest.fixture
def bridged(world: World, ray: Head) -> Iterator[World]:
    """The world, with a real Ray behind port 8265 of its head."""
    world.request("POST", "/rehearsal/bridges", {**HEAD, "to": ray.url.removeprefix("http://")})
    yield world
    world.request("DELETE", "/rehearsal/bridges")


def test_it_is_small_and_holds_what_is_pinned(light: Light) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name.lower().replace('_', '-') for d in m.distributions()))"
    listed = subprocess.run(
        [str(light.home / "bin" / "python"), "-c", code], env=light.environ(None), capture_output=True, text=True,
        check=True,
    ).stdout.split()  # fmt: skip
    assert listed == sorted([*PINS, *OURS])
    size = sum(path.lstat().st_size for path in light.home.rglob("*") if path.is_file() and not path.is_symlink())
    assert size <= LARGEST_MB * 1e6, size


def test_the_pages_print_the_same_command() -> None:
    command = "pip install --constraint requirements/light.txt ./hyperpod_ray_rules ."
    for page in ("README.md", "docs/from-your-laptop.md", "docs/embedded-aws.md", "requirements/light.txt"):
        assert command in (ROOT / page).read_text(encoding="utf-8"), page


def test_files_are_checked_and_planned_without_an_account(light: Light, world: World) -> None:
    checked = light.run("env", "check", "demo", world=world)
    assert (checked.code, checked.out.splitlines()[0].split()[:2]) == (0, ["ok", "demo"]), checked.err
    assert light.run("--help").code == 0
    assert light.run("cost", "demo", "--offline", world=world).code == 0
    assert light.run("completion", "bash").code == 0


def test_the_environment_is_looked_at(light: Light, world: World) -> None:
    status = light.run("status", "demo", "-o", "json", world=world)
    own = world.ops("status", "demo", "-o", "json")
    assert (status.code, status.json["verdict"]) == (own.code, own.json["verdict"]), status.err
    assert not [part for part in status.json["unseen"] if "Kubernetes" in part["source"]]
    nodes = light.run("nodes", "demo", "-o", "json", world=world)
    assert nodes.code == 0, nodes.err
    assert nodes.json["nodes"] == world.ops("nodes", "demo", "-o", "json").json["nodes"]
    waited = light.run("wait", "demo", "--for", "cluster", "--timeout", "300", world=world)
    assert waited.code == 0, waited.err
    cost = light.run("cost", "demo", "--so-far", "-o", "json", world=world)
    assert cost.code == 0, cost.err
    assert set(cost.json) == set(world.ops("cost", "demo", "--so-far", "-o", "json").json)
    shown = light.run("teardown", "demo", "--dry-run", "-o", "json", world=world)
    assert shown.code == 0, shown.err
    assert shown.json["items"] == world.ops("teardown", "demo", "--dry-run", "-o", "json").json["items"]


def test_a_job_is_submitted_followed_and_listed(light: Light, bridged: World) -> None:
    (light.work / "job").mkdir()
    (light.work / "job" / "train.py").write_text(
        "import time\nfor at in range(3):\n    print('step', at, flush=True)\n"
    )
    words = ("--working-dir", str(light.work / "job"), "--submission-id", "light", "--", "python", "train.py")
    submitted = light.run("submit", "demo", *words, world=bridged)
    assert submitted.code == 0, submitted.out + submitted.err
    assert "step 2" in submitted.out
    assert "SUCCEEDED" in submitted.err
    runs = light.run("runs", "list", "demo", "-o", "json", world=bridged).json["runs"]
    assert [run["state"] for run in runs if run["id"] == "light"] == ["SUCCEEDED"]
    logs = light.run("runs", "logs", "demo", "light", "--follow", world=bridged)
    assert (logs.code, logs.out.count("step 2")) == (0, 1), logs.err


def test_the_dashboard_is_forwarded(light: Light, bridged: World, ray: Head) -> None:
    process = subprocess.Popen(
        [str(light.home / "bin" / "hyperpod-ray"), "connect", "demo", "--port", "0"],
        env=light.environ(bridged, PYTHONUNBUFFERED="1"), cwd=light.work, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=600)
        connection.request("GET", "/api/version", headers={"Authorization": f"Bearer {ray.token}"})
        assert json.load(connection.getresponse())["ray_version"]
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err


def test_a_kubeconfig_of_the_aws_cli_signs_in(light: Light, world: World) -> None:
    """A plugin on PATH prints the credential, as `aws eks get-token` does."""
    import yaml

    config = yaml.safe_load(Path(world.running.kubeconfig).read_text())
    (user,) = config["users"]
    credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1"}
    if "token" in user["user"]:
        said = json.dumps({**credential, "status": {"token": user["user"]["token"]}})
        tools = light.work / "tools"
        tools.mkdir()
        (tools / "aws").write_text(f"#!/bin/sh\necho '{said}'\n")
        (tools / "aws").chmod(0o755)
        plugin = {"apiVersion": credential["apiVersion"], "command": "aws", "args": ["eks", "get-token"]}
        user["user"] = {"exec": plugin}
        more = {"PATH": f"{tools}:{os.environ['PATH']}"}
    else:
        more = {}
    assert "exec" in user["user"]
    (light.work / "kubeconfig").write_text(yaml.safe_dump(config))
    nodes = light.run("nodes", "demo", "-o", "json", world=world, KUBECONFIG=str(light.work / "kubeconfig"), **more)
    assert nodes.code == 0, nodes.err


@pytest.mark.parametrize(("words", "part"), [(("local", "status"), "local"), (("manifests", "demo"), "deploy")])
def test_what_needs_more_says_what(light: Light, world: World, words: tuple[str, ...], part: str) -> None:
    refused = light.run(*words, world=world)
    assert (refused.code, f"this command needs the part [{part}] of" in refused.err) == (2, True), refused.err
