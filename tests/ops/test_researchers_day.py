"""`docs/researchers-day.md`: each command of the story in its order, as printed.

Real: S3's protocol and the AWS CLI, Ray with a node that is killed, the training, the Kubernetes API. One process
trains on two CPUs in place of two GPUs. The sandbox's stand-in for Kueue admits the team's jobs.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import names
from hyperpod_ray_sandbox.aws import paths
from tests.ops.ray_head import Head
from tests.ops.world import ROOT, World

PAGE = "docs/researchers-day.md"
BUCKET, SPACE = "research-datasets", names.team_namespace("vision")
QUIET = " ".join(["the text of somebody's own"] * 4000)
HOLDS_AT = 12
"""Step at which the run waits, so that its node is lost between two checkpoints."""
TEAMS = """
teams:
  - name: vision
    quota:
      - {type: ml.g5.8xlarge, instances: 1}
      - {type: ml.m5.2xlarge, instances: 1}
task_governance:
  priority_classes: [{name: deadline, weight: 90}]
"""


def blocks(language: str) -> list[str]:
    story = (ROOT / PAGE).read_text(encoding="utf-8").partition("## A cluster of its own")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", story, re.MULTILINE | re.DOTALL)


MERGE = "application/merge-patch+json"


def jobs_path(space: str) -> str:
    """Where the RayJobs of a namespace are."""
    return f"/apis/ray.io/v1/namespaces/{space}/rayjobs"


class Day:
    """The story's lines, and what else happens on that day."""

    def __init__(self, world: World, ray: Head, folder: Path) -> None:
        self.world, self.ray, self.folder = world, ray, folder
        self.said: dict[str, list[str]] = {}

    def environ(self) -> dict[str, str]:
        # jobs of other tests are in the list too: no cell may break into lines
        return self.world.environ(COLUMNS="2000")

    def words(self, line: str) -> list[str]:
        """The line's words, with the environment of the test."""
        program, *words = shlex.split(line)
        if program == "aws":
            return [str(paths.VENV / "bin" / "aws"), *words]
        assert program == "hyperpod-ray"
        return [program, *(self.world.name if word == "research" else word for word in words)]

    def type(self, line: str) -> str:
        words = self.words(line)
        if line.startswith("aws "):
            done = subprocess.run(words, env=self.environ(), capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            result = self.world.ops(*words[1:], env=self.environ())
            code, out, err = result.code, result.out, result.err
        assert code == 0, f"{line}: {out}{err}"
        self.said.setdefault(line, []).append(out + err)
        return out + err

    def begin(self, line: str) -> subprocess.Popen[str]:
        """The same in a terminal of its own: the other commands do not wait for it."""
        start = (
            f"import sys; from hyperpod_ray.core import names; names.MOUNT_PATH = {str(self.folder)!r}; "
            "from hyperpod_ray.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", start, *self.words(line)[1:]]
        return subprocess.Popen(
            command, env=self.environ(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def step(self, run: str) -> int:
        return int(max((event["step"] for event in self.events(run, "step")), default=0))

    def events(self, run: str, kind: str) -> list[dict[str, float]]:
        file = self.folder / "runs" / run / "events.jsonl"
        whole = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [event for event in map(json.loads, whole) if event["kind"] == kind]


@pytest.fixture
def day(faults: World, ray: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    """What is there before the day: a bucket, a team with its quota, and the folder that stands for /fsx."""
    world = faults
    before = (world.folder / f"{world.name}.yaml").read_text()
    access = yaml.safe_load(next(block for block in blocks("yaml") if "access" in block))["ray"]["access"]
    world.write(f"{before}  access: {json.dumps(access)}\n{TEAMS}")
    monkeypatch.setattr(names, "MOUNT_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "text.txt").write_text(QUIET)
    world.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    head = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
    world.request("POST", "/rehearsal/bridges", {**head, "to": ray.url.removeprefix("http://")})
    try:
        with team(world):
            yield Day(world, ray, tmp_path)
    finally:
        world.request("DELETE", "/rehearsal/bridges")
        world.write(before)


@contextlib.contextmanager
def team(world: World) -> Iterator[None]:
    """Task governance with the team of the file: by the service's own operations."""
    sagemaker, eks = world.client("sagemaker"), world.client("eks")
    addon = {"clusterName": world.plan.eks_cluster_name, "addonName": "amazon-sagemaker-hyperpod-taskgovernance"}
    eks.create_addon(**addon)
    world.until(lambda: eks.describe_addon(**addon)["addon"]["status"] == "ACTIVE", "the add-on")
    arn = sagemaker.describe_cluster(ClusterName=world.plan.settings.hyperpod.cluster_name)["ClusterArn"]
    (wanted,) = world.plan.settings.teams
    governance = world.plan.settings.task_governance
    assert governance is not None
    classes = [{"Name": class_.name, "Weight": class_.weight} for class_ in governance.priority_classes]
    policy = sagemaker.create_cluster_scheduler_config(
        Name="policy", ClusterArn=arn, SchedulerConfig={"PriorityClasses": classes, "FairShare": "Enabled"}
    )
    quota = sagemaker.create_compute_quota(
        Name="vision",
        ClusterArn=arn,
        ComputeQuotaConfig={
            "ComputeQuotaResources": [{"InstanceType": one.type, "Count": one.instances} for one in wanted.quota],
            "ResourceSharingConfig": {"Strategy": "Lend"},
        },
        ComputeQuotaTarget={"TeamName": wanted.name, "FairShareWeight": 0},
        ActivationState="Enabled",
    )
    queues = f"/apis/{names.QUEUE_API_VERSION}/namespaces/{SPACE}/localqueues"
    world.until(lambda: world.get(queues)["items"], "the team's queue")
    (manifest,) = (
        manifest for manifest in k8s.ray_manifests(world.plan, world.bindings) if manifest.name == "Team-vision"
    )
    world.apply(manifest.objects)
    try:
        yield
    finally:
        for job in world.get(jobs_path(SPACE))["items"]:
            world.request("DELETE", f"{jobs_path(SPACE)}/{job['metadata']['name']}")
        world.until(lambda: not world.get(jobs_path(SPACE))["items"], "no job is left")
        sagemaker.delete_compute_quota(ComputeQuotaId=quota["ComputeQuotaId"])
        sagemaker.delete_cluster_scheduler_config(ClusterSchedulerConfigId=policy["ClusterSchedulerConfigId"])
        eks.delete_addon(**addon)
        world.until(lambda: not world.get(queues)["items"], "no queue is left")
        for item in manifest.objects:
            if item["kind"] == "PersistentVolume":
                world.request("DELETE", f"/api/v1/persistentvolumes/{item['metadata']['name']}")
        world.request("DELETE", f"/api/v1/namespaces/{SPACE}")
        world.until(lambda: "metadata" not in world.get(f"/api/v1/namespaces/{SPACE}"), "the namespace is gone")
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for item in world.get(definitions)["items"]:
            if item["spec"]["group"] == "kueue.x-k8s.io":
                world.request("DELETE", f"{definitions}/{item['metadata']['name']}")


def written(day: Day) -> None:
    """The page's files, for one process on two CPUs, with a script that waits at a step until the test goes on."""
    shown = [yaml.safe_load(block) for block in blocks("yaml")]
    job, of_team = (block for block in shown if "command" in block)
    assert (job["workers"], job["gpus_per_worker"]) == (2, 1)
    assert {job["storage"], of_team["storage"]} == {"/fsx/runs"}
    job |= {"workers": 1, "gpus_per_worker": 0, "storage": str(day.folder / "runs")}
    of_team |= {"storage": str(day.folder / "runs")}
    job["env"] = {"PYTHONPATH": str(ROOT)}
    (day.folder / "job.yaml").write_text(yaml.safe_dump(job))
    (day.folder / "team.yaml").write_text(yaml.safe_dump(of_team))
    script = (ROOT / "jobs" / "finetune" / "train.py").read_text()
    assert script.count("\nimport time\n") == 1
    work = day.folder / "jobs" / "finetune"
    work.mkdir(parents=True)
    script = script.replace("\nimport time\n", "\nimport held as time\n")
    for option, value in {"--step-delay-s": "1.0", "--cpus-per-worker": "2"}.items():
        script = script.replace(
            "    arguments = parser.parse_args()\n",
            f"    parser.set_defaults({option[2:].replace('-', '_')}={value})\n    arguments = parser.parse_args()\n",
        )
    (work / "train.py").write_text(script)
    (work / "held.py").write_text(
        "import itertools, pathlib, time\n"
        "calls = itertools.count()\n"
        "def sleep(_):\n"
        f"    held = next(calls) == {HOLDS_AT}\n"
        f"    while held and not pathlib.Path({str(day.folder / 'go')!r}).exists():\n"
        "        time.sleep(0.05)\n"
    )


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_researchers_day_runs_as_printed(day: Day) -> None:  # noqa: PLR0915 - one story
    """Commands: aws s3 sync books s3://research-datasets/books; submit research -f job.yaml --name --no-wait;
    runs list, show, logs, compare, plot --out, best, pull --best --to, and stop --yes.
    """
    written(day)
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    (put, first, third, *seen), rest = lines[:4], lines[4:]
    watched, (shown, second, *compared), (best, pull, stop) = rest[:4], rest[4:9], rest[9:]

    day.type(put)
    with day.ray.node(11, cpus=2) as node:
        following = day.begin(first)
        try:
            day.world.until(
                lambda: day.step("first") == HOLDS_AT or following.poll() is not None, "it waits", seconds=1200
            )
            if following.poll() is not None:
                pytest.fail("\n".join((following.communicate()[0] or "").splitlines()[-80:]))

            theirs = ("submit", day.world.name, "-f", "team.yaml", "--name", "theirs", "--submission-id", "theirs")
            assert day.world.ops(*theirs, "--no-wait", env=day.environ()).code == 0
            day.world.until(lambda: state(day.world, "theirs") == "Running", "the colleague's job has the GPU")
            day.type(third)
            day.world.until(lambda: "place 1 of 1" in day.type(seen[0]), "the queue says why it waits")
            listed = day.said[seen[0]][-1]
            (words,) = blocks("text")[:1]
            said = re.sub(r"since [-0-9: ]+ UTC", "since", re.sub(r"\s+", " ", listed))
            assert re.sub(r"since [-0-9: ]+ UTC", "since", words.strip()) in said, f"the page shows {listed}"
            assert re.search(r"\d+ of 30", listed), "its progress"

            end(day.world, "theirs")
            runs = day.world.ops("runs", "list", day.world.name, "-o", "json", env=day.environ()).json["runs"]
            (mine,) = (run for run in runs if run["name"] == "third")
            day.world.until(lambda: state(day.world, mine["id"]) == "Running", "the queue has started it")
            for line in watched:
                day.type(line)
            assert "waits: queue" not in day.said[watched[0]][-1]
            assert "of its own" in day.said[watched[1]][0]
            assert "recoveries" not in day.said[watched[2]][0]

            node.lose()
            (day.folder / "go").touch()
            with day.ray.node(12, cpus=2):
                out, _ = following.communicate(timeout=1200)
                assert following.returncode == 0, out
                assert "first" in out
                losses = repeated(day)
                assert day.type(shown)
                row = re.search(r"recoveries +(\d+)", day.said[shown][-1])
                assert row
                assert row[1] == "1"
                day.type(second)
        finally:
            following.kill()
            following.wait()
    assert all(len(set(values)) == 1 for values in losses.values()), "the steps that were repeated"
    for line in compared:
        day.type(line)
    assert "loss at step 30" in day.said[compared[0]][0]
    assert "●" in day.said[compared[1]][0]
    assert (day.folder / "loss.svg").read_text().count("<polyline") == 2
    kept = day.type(best).splitlines()[0]
    assert (Path(kept) / ".metadata").exists()
    day.type(pull)
    pulled = day.folder / "best"
    assert {path.name for path in pulled.iterdir()} >= {".metadata", "about.json", "checksums-0.json"}
    assert json.loads((pulled / "about.json").read_text())["metrics"]["loss"] > 0
    day.type(stop)
    assert [job["metadata"]["name"] for job in day.world.get(jobs_path(SPACE))["items"]] == ["theirs"]


def repeated(day: Day) -> dict[int, list[float]]:
    """Losses of the steps that were done twice: those since the last checkpoint."""
    found: dict[int, list[float]] = {}
    for event in day.events("first", "step"):
        found.setdefault(int(event["step"]), []).append(event["loss"])
    twice = {step: losses for step, losses in found.items() if len(losses) > 1}
    assert set(twice) == set(range(11, HOLDS_AT + 1)), "between the checkpoint of step 10 and the loss"
    assert set(found) == set(range(1, 31))
    return twice


def state(world: World, name: str) -> str:
    return str((world.get(f"{jobs_path(SPACE)}/{name}").get("status") or {}).get("jobDeploymentStatus"))


def end(world: World, name: str) -> None:
    """What the operator writes, and deletes, when a colleague's job has succeeded; its model runs no job."""
    item = world.get(f"{jobs_path(SPACE)}/{name}")
    body = {"status": {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}}
    world.request("PATCH", f"{jobs_path(SPACE)}/{name}/status", body, content_type=MERGE)
    cluster = item["status"]["rayClusterName"]
    world.request("DELETE", f"/apis/ray.io/v1/namespaces/{SPACE}/rayclusters/{cluster}")
