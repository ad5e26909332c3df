"""A day of two teams: one trains, borrows, is preempted and resumes, while the other tries all it can from its own pod.

Real: rights, admission, quotas and claims by the API server, the volume-owner Job's own script, users and mount
namespaces of the kernel, the training library. This file stands for the kubelet: it starts a process for a pod, as the
pod's user, which sees what the pod's claims mount and nothing else of the file system.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import job_file, load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.team_files import uid
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.observe import kube, queues
from hyperpod_ray.ops.reach import connect
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.clients import Kubernetes, Target
from hyperpod_ray.ops.reach.kubeconfig import Credential
from tests.k8s.test_k8s_team_folders import hand_over, root
from tests.sandbox.kubernetes.conftest import PROJECT
from tests.sandbox.kubernetes.test_hostile_team import (
    ADMINISTRATOR,
    FORBIDDEN,
    FRIENDLY,
    HOSTILE,
    JOBS,
    LATER,
    MEMBERS,
    World,
    admitted,
    conditions,
    core_path,
    gpus,
    jobs,
    running,
    world,
)
from tests.support.web import web_server

__all__ = ["root", "world"]  # fixtures of other files, made again here

Json = dict[str, Any]
REHEARSAL = PROJECT / ".venv-rehearsal" / "bin" / "python"
TRAINING = PROJECT / "tests" / "sandbox" / "kubernetes" / "pod_training.py"
HOLDS_AT = 7
VIEW = """
root=$1; view=/mnt; user=$2; mounts=$3; shift 3
mount -t tmpfs -o mode=0755 none "$view"
printf '%s\n' "$mounts" | while read -r folder path options; do
  mkdir -p "$view$path"
  mount --bind "$root/$folder" "$view$path"
  [ "$options" = rw ] || mount -o "remount,bind,$options" "$view$path"
done
mount -t tmpfs none "$root"
cd "$view/fsx"
exec setpriv --reuid "$user" --regid "$user" --groups 100 "$@"
"""
"""Arguments: the file system's root, the pod's user, its mounts as lines, and the command. What the pod has at `/` is
below `/mnt` of a mount namespace of its own: nothing of it is there for others."""
FSX = "/mnt/fsx"


def _mounts_are_allowed() -> bool:
    if os.geteuid() != 0 or not REHEARSAL.exists():
        return False
    with contextlib.suppress(FileNotFoundError):
        command = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt && command -v setpriv"]
        return subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0
    return False


pytestmark = [
    pytest.mark.emulator, pytest.mark.slow,
    pytest.mark.skipif(not _mounts_are_allowed(), reason="needs root, mount namespaces and .venv-rehearsal"),
]  # fmt: skip


@dataclass
class Kubelet:
    """Starts processes for pods."""

    world: World
    root: Path
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def mounts(self, pod: Json) -> str:
        """Folder, path and options of each claim that the pod mounts, by what the API server has of it."""
        space, lines = pod["metadata"]["namespace"], []
        claims = {
            volume["name"]: volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in volume
        }
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            if mount["name"] in claims:
                claim = self.world.cluster.get("-n", space, "pvc", claims[mount["name"]])
                volume = self.world.cluster.get("pv", claim["spec"]["volumeName"])["spec"]
                _, _, folder = volume["csi"]["volumeAttributes"]["mountname"].partition("/")
                lines.append(f"{folder} {mount['mountPath']} {'ro' if 'ro' in volume['mountOptions'] else 'rw'}")
        return "\n".join(lines)

    def start(self, pod: Json, *command: str) -> subprocess.Popen[str]:
        """A process as the pod's user, with the pod's view of files."""
        user = pod["spec"]["securityContext"]["runAsUser"]
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-euc", VIEW, "pod", str(self.root), str(user), self.mounts(pod),
             *command],
            env={"PATH": os.environ["PATH"], "HOME": FSX, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"},
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def train(self, pod: Json) -> subprocess.Popen[str]:
        """The job's command."""
        return self.start(pod, str(REHEARSAL), str(TRAINING), f"{FSX}/runs", "first", str(HOLDS_AT))


def member(world: World, space: str) -> Target:
    """The product's own client, as a member of a team."""
    target = Target(load("teams", folder=FOLDER / "examples"))
    headers = {"Authorization": f"Bearer {world.cluster.server['token']}", **MEMBERS[space]}
    api = object.__new__(Kubernetes)
    api.api = ApiServer(
        world.cluster.server["url"], lambda **_: Credential(headers=headers),
        authority=Path(world.cluster.server["ca_file"]).read_text(),
    )  # fmt: skip
    target.__dict__["kubernetes"] = api
    target.aws.require_account = lambda: ""  # type: ignore[method-assign]
    return target


def submit(target: Target, team: str, name: str, workers: int) -> None:
    file = job_file.load(None, {"command": "python main.py", "team": team, "name": name, "workers": str(workers)})
    assert own_cluster.submit(target, file, name=name, wait=False) == 0


def head(world: World, space: str, job: str) -> Json:
    """The head's pod, once the job's cluster runs."""
    world.cluster.until(
        lambda: (
            (world.cluster.get("-n", space, "rayjob", job).get("status") or {}).get("jobDeploymentStatus") == "Running"
        ),
        f"{job} runs",
    )
    (pod,) = (
        pod
        for pod in world.cluster.get("-n", space, "pods", "-l", "ray.io/node-type=head")["items"]
        if pod["metadata"]["labels"]["ray.io/cluster"].startswith(f"{job}-")
    )
    return dict(pod)


@pytest.fixture
def kubelet(world: World, root: Path, tmp_path: Path) -> Iterator[Kubelet]:
    assert hand_over(world.plan, root).returncode == 0
    for team in world.plan.settings.teams:
        runs = root / "teams" / team.name / "runs"
        runs.mkdir()
        os.chown(runs, uid(team), uid(team))
    (root / "shared" / "model.pt").write_text("vision's")
    os.chown(root / "shared" / "model.pt", uid(world.plan.settings.teams[0]), 100)
    stand_in = Kubelet(world, root, tmp_path)
    yield stand_in
    for process in stand_in.processes:
        process.kill()
        process.wait()


ATTACKS = {
    "the other team's folder": "os.listdir(f'{ROOT}/teams/vision')",
    "the file system's root": "assert os.listdir(ROOT)",
    "above its own mount": "os.listdir(f'{FSX}/../teams/vision')",
    "a link to the other team's folder": "os.symlink(f'{ROOT}/teams/vision', f'{FSX}/out'); os.listdir(f'{FSX}/out')",
    "the other pod's files, by its process": "os.listdir(f'/proc/{VICTIM}/root{FSX}/runs')",
    "its folder, by its process": "os.listdir(f'/proc/{VICTIM}/cwd')",
    "its memory": "open(f'/proc/{VICTIM}/mem', 'rb')",
    "its variables": "open(f'/proc/{VICTIM}/environ').read()",
    "its end": "os.kill(VICTIM, 9)",
    "a mount of its own": "subprocess.run(['mount', '-t', 'tmpfs', 'none', FSX], check=True, capture_output=True)",
    "the other team's user": "os.setuid(USER)",
    "the other team's group": "os.setgroups([USER])",
    "a file of its own for the other team": "open(f'{FSX}/mine', 'w'); os.chown(f'{FSX}/mine', USER, USER)",
    "data sets": "open(f'{FSX}/data/poison', 'w')",
    "another's file in shared, written": "open(f'{FSX}/shared/model.pt', 'w')",
    "another's file in shared, removed": "os.unlink(f'{FSX}/shared/model.pt')",
    "another's file in shared, renamed": "os.rename(f'{FSX}/shared/model.pt', f'{FSX}/shared/x')",
    "the place of shared": "os.rename(f'{FSX}/shared', f'{FSX}/moved')",
}  # fmt: skip
PROGRAM = """
import json, os, subprocess, sys
about = json.loads(sys.argv[1])
names = dict(about['names'], os=os, subprocess=subprocess)
for name, attack in about['attacks'].items():
    try:
        exec(attack, dict(names))
    except (OSError, AssertionError, subprocess.CalledProcessError):
        continue
    print(name)
"""


@dataclass
class Day:
    """The story's parts, in the order of the test below."""

    world: World
    kubelet: Kubelet
    friendly: Target
    hostile: Target

    @property
    def run(self) -> Path:
        """The friendly team's run, as root sees it."""
        return self.kubelet.root / "teams" / "vision" / "runs" / "first"

    def events(self, sort: str) -> list[int]:
        """Steps of the run's events of one sort."""
        file = self.run / "events.jsonl"
        events = map(json.loads, file.read_text().splitlines()) if file.exists() else []
        return [event["step"] for event in events if event["kind"] == sort]

    def borrows_and_saves(self) -> tuple[Json, subprocess.Popen[str]]:
        """Submitted by the product, admitted beyond the quota, trained in the head's pod until it waits."""
        submit(self.friendly, "vision", "first", workers=3)
        pod = head(self.world, FRIENDLY, "first")
        assert gpus(self.world, FRIENDLY) == "3", "one more than its quota"
        training = self.kubelet.train(pod)
        self.world.cluster.until(
            lambda: 6 in self.events("save") or training.poll() is not None, "a checkpoint of step 6"
        )
        assert training.poll() is None, training.communicate()[0]
        return pod, training

    def is_attacked(self, victim: int) -> None:
        """From inside a pod that the other team has by right, and with all its rights."""
        world, member = self.world, MEMBERS[HOSTILE]
        submit(self.hostile, "speech", "lurk", workers=1)
        pod = head(world, HOSTILE, "lurk")
        vision = next(team for team in world.plan.settings.teams if team.name == "vision")
        about = {
            "names": {"ROOT": str(self.kubelet.root), "FSX": FSX, "VICTIM": victim, "USER": uid(vision)},
            "attacks": {**ATTACKS, "its own folder": "os.listdir(FSX)"},
        }
        program = self.kubelet.start(pod, str(REHEARSAL), "-I", "-c", PROGRAM, json.dumps(about))
        assert program.communicate(timeout=600)[0].splitlines() == ["its own folder"]
        for name, (method, path, body) in FORBIDDEN.items():
            assert world.ask(member, method, path, body)[0] == 403, name
        for name, (change, _) in JOBS.items():
            job = world.job("speech", "refused")
            change(job)
            assert world.ask(member, "POST", jobs(HOSTILE) + "?dryRun=All", job)[0] == 422, name
        for name, (patch, _) in LATER.items():
            assert world.ask(member, "PATCH", jobs(HOSTILE, "lurk"), patch)[0] == 422, name
        assert gpus(world, HOSTILE) == "1"

    def looks_at_its_own(self, pod: Json) -> None:
        """Dashboard, log, what it has of the quota; and nothing of that for the other team."""
        world, cluster = self.world, pod["metadata"]["labels"]["ray.io/cluster"]
        with web_server() as address:
            bridge = {"namespace": FRIENDLY, "selector": "ray.io/node-type=head", "port": 8265, "to": address}
            world.cluster.post("/rehearsal/bridges", bridge)
            with connect.dashboard(self.friendly, port=0, namespace=FRIENDLY, cluster=cluster) as forward:
                assert urllib.request.urlopen(f"http://127.0.0.1:{forward.port}/", timeout=600).read() == b"ok"
            with pytest.raises(Exception, match="403"):
                connect.dashboard(self.hostile, port=0, namespace=FRIENDLY, cluster=cluster)
            world.cluster.post("/rehearsal/bridges", None, "DELETE")
        log = core_path(FRIENDLY, "pods", f"{pod['metadata']['name']}/log")
        assert world.ask(MEMBERS[FRIENDLY], "GET", log)[0] == 501, "allowed, and no container is there to ask"
        assert world.ask(MEMBERS[HOSTILE], "GET", log)[0] == 403
        (use,) = kube.quotas(self.friendly, FRIENDLY)
        assert use.reserved["ml.g5.8xlarge"] == 3, "what `cost` and `status` count for the team"
        with pytest.raises(Exception, match="403"):
            kube.quotas(self.hostile, FRIENDLY)
        with pytest.raises(OpsError, match="does not exist"):
            own_cluster.find(self.hostile, "first")

    def waits_for(self) -> str:
        """What the product says of the run's place."""
        return str(queues.why_it_waits(self.friendly, own_cluster.find(self.friendly, "first")) or "")

    def gives_back(self, training: subprocess.Popen[str]) -> None:
        """What it borrowed goes back by right: it knows its place and why."""
        assert not self.waits_for()
        submit(self.hostile, "speech", "own", workers=1)
        self.world.cluster.until(lambda: admitted(self.world, HOSTILE, "own"), "the other team has its own quota")
        training.kill()  # its pod goes, at a bad moment
        training.wait()
        self.world.cluster.until(lambda: "Preempted" in conditions(self.world, FRIENDLY, "first"), "its preemption")
        self.world.cluster.until(self.waits_for, "it waits")
        for words in (f"queue '{FRIENDLY}-localqueue', place 1 of 1, since 20", "it was preempted: a job with a right"):
            assert words in self.waits_for()
        for name in ("own", "lurk"):
            assert self.world.ask(MEMBERS[HOSTILE], "DELETE", jobs(HOSTILE, name))[0] == 200

    def resumes(self, alone: Path) -> None:
        """Admitted again, it continues from its checkpoint, with every loss as if nothing had been."""
        self.world.cluster.until(lambda: admitted(self.world, FRIENDLY, "first"), "it is admitted again")
        for storage in (self.run.parent, alone):
            storage.mkdir(exist_ok=True)
            (storage / "go").touch()
        again = self.kubelet.train(head(self.world, FRIENDLY, "first"))
        out, _ = again.communicate(timeout=1800)
        assert again.returncode == 0, out
        assert self.events("restore") == [6]
        assert self.events("save") == [2, 4, 6, 8, 10, 12]
        undisturbed = subprocess.run(
            [REHEARSAL, TRAINING, alone, "first", str(HOLDS_AT)], env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True, text=True, timeout=1800, check=True,
        )  # fmt: skip
        assert [line for line in out.splitlines() if line.startswith("last loss")] == undisturbed.stdout.splitlines()


def test_the_friendly_team_has_its_day(world: World, kubelet: Kubelet, tmp_path: Path) -> None:
    for space in (FRIENDLY, HOSTILE):
        assert world.ask(MEMBERS[space], "DELETE", jobs(space, "train"))[0] == 200
        world.cluster.until(lambda space=space: gpus(world, space) == "0" and not running(world, space), "idle nodes")
    day = Day(world, kubelet, member(world, FRIENDLY), member(world, HOSTILE))
    pod, training = day.borrows_and_saves()
    day.is_attacked(training.pid)
    day.looks_at_its_own(pod)
    day.gives_back(training)
    day.resumes(tmp_path / "alone")

    vision = next(team for team in world.plan.settings.teams if team.name == "vision")
    owners = {path.stat().st_uid for path in day.run.rglob("*")}
    assert owners == {uid(vision)}, "nothing of it was touched"
    assert (kubelet.root / "shared" / "model.pt").read_text() == "vision's"
    assert not list((kubelet.root / "data").iterdir())
    told = world.cluster.get("-n", FRIENDLY, "events")["items"]
    assert not [event["message"] for event in told if event["reason"] == "FailedCreate"]
    assert world.ask(ADMINISTRATOR, "DELETE", jobs(FRIENDLY, "first"))[0] == 200
