from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.ops.observe.node_rows import Row, tone_of
from hyperpod_ray.ops.observe.snapshot import NODES, Claim, FileSystem, Job, Slurm, SlurmJob, SlurmNode, Stack, Unseen
from hyperpod_ray.ops.web import environment
from tests.ops.ops_status_tables_helpers import shown
from tests.ops.snapshots import JOB, NOW, ONE, RUN, THREE, ago, event, healthy, pod, trains, with_controller, with_node


def line(text: str, begin: str) -> list[str]:
    """Words of the line that begins so."""
    (words,) = [row.split() for row in text.splitlines() if row.startswith(begin)]
    return words


def test_a_healthy_environment() -> None:
    text = shown(healthy())
    assert text.startswith("demo: Healthy   cluster c InService\n")
    assert line(text, "workers ") == ["workers", "ml.g5.8xlarge", "3", "3"]
    assert "RayCluster ray/ray says ready, 2 of 2 workers" in text
    assert line(text, "ray-head") == ["ray-head", "gpu", "Ready", healthy().instances[0].id]
    assert line(text, "controllers: ") == ["controllers:", "6", "of", "6", "run", "with", "all", "their", "pods"]
    assert line(text, "fs-1") == ["fs-1", "AVAILABLE", "1200", "the", "stack"]
    assert line(text, "claim ") == ["claim", "ray/fsx", "Bound"]
    assert "Job" not in text
    assert "When (UTC)" not in text
    parts = [part.splitlines()[0].split()[0] for part in text.split("\n\n")]
    assert parts == ["demo:", "Instance", "RayCluster", "controllers:", "Storage"], "an empty line between two parts"


def test_each_part_is_shown_where_there_is_something() -> None:
    bare = replace(
        healthy(), cluster=None, ray_clusters=(), pods=(), controllers=(), file_systems=(), claims=(), instances=()
    )
    text = shown(bare)
    for words in ("Instance group", "RayCluster", "controllers:", "Storage", "Pod", "Job"):
        assert words not in text.partition("\n\n")[2]
    assert "RayCluster ray/ray says" not in shown(replace(healthy(), ray_clusters=()))
    assert "Pod" in shown(replace(healthy(), ray_clusters=()))
    assert "fs-1" not in shown(replace(healthy(), file_systems=()))
    assert "claim ray/fsx" in shown(replace(healthy(), file_systems=()))


def test_pods_say_why_they_do_not_run_and_heads_come_first() -> None:
    pods = (
        pod("a", ONE, deleting_since=ago(1)),
        pod("b", ONE, ready=False, phase="Pending", reason="ImagePullBackOff"),
        pod("c", None, ready=False, phase="Pending"),
        pod("d", THREE),
        pod("z", ONE, role="head"),
    )
    text = shown(with_node(replace(healthy(), pods=pods), THREE, ready=False))
    rows = text[text.index("\nPod ") :].splitlines()[3:8]
    assert [row.split()[0] for row in rows] == ["z", "a", "b", "c", "d"]
    states = {row.split()[0]: " ".join(row.split()[2:]) for row in rows}
    assert states == {
        "z": f"Ready {ONE.id}",
        "a": f"Terminating {ONE.id}",
        "b": f"ImagePullBackOff {ONE.id}",
        "c": "Pending",
        "d": f"Ready, node not ready {THREE.id}",
    }
    # who may not see nodes does not say that they are not ready
    unseen = replace(healthy(), pods=pods, unseen=(Unseen(source=NODES, why="not allowed", refused=True),))
    assert "node not ready" not in shown(unseen)


def test_storage_says_whose_it_is_and_what_is_free() -> None:
    systems = (
        FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=1099.6),
        FileSystem(id="fs-2", lifecycle="CREATING", capacity_gib=2400, made_by_claim=True, stack="demo-Storage"),
        FileSystem(id="fs-3", lifecycle="AVAILABLE", capacity_gib=9600, stack="demo-Storage"),
    )
    claims = (Claim(name="a", namespace="ray", phase="Bound", deleting_since=ago(1)),)
    text = shown(replace(healthy(), file_systems=systems, claims=claims))
    assert line(text, "fs-1") == ["fs-1", "AVAILABLE", "1200", "1,100", "the", "stack"]
    assert line(text, "fs-2") == ["fs-2", "CREATING", "2400", "claim"]
    assert line(text, "fs-3") == ["fs-3", "AVAILABLE", "9600", "demo-Storage"]
    assert line(text, "claim ") == ["claim", "ray/a", "Terminating"]
    elsewhere = replace(healthy(), file_systems=systems[:1], storage_mode="existing")
    assert line(shown(elsewhere), "fs-1")[-1] == "elsewhere"


def test_a_run_is_its_step_its_speed_and_its_ages() -> None:
    text = shown(trains(loss=2.34567))
    words = line(text, "raysubmit_1")
    assert " ".join(words[:7]) == "raysubmit_1 RUNNING first, running 4,000 of 10,000"
    speed = RUN.steps_per_second
    assert speed is not None
    assert words[7:] == [f"{speed:.3g}", "1", "s", "ago", "4", "min", "ago", "2.346"]
    # what has ended has no age: it would grow for ever
    ended = trains(replace(JOB, state="SUCCEEDED"), loss=None)
    assert "ago" not in line(shown(ended), "raysubmit_1")
    assert line(shown(trains(JOB, None)), "raysubmit_1") == ["raysubmit_1", "RUNNING"]
    begun = trains(step=None, steps_total=None, step_seconds=None, last_step_at=None, last_checkpoint_at=None)
    assert line(shown(begun), "raysubmit_1") == ["raysubmit_1", "RUNNING", "first,", "running"]


def test_a_run_that_keeps_copies_says_how_often() -> None:
    assert "first: a copy in a neighbour's memory every 12 steps" in shown(trains(copy_every_steps=12))
    assert "first: a copy in a neighbour's memory each step" in shown(trains(copy_every_steps=1))
    assert "a copy in" not in shown(trains(copy_every_steps=None))
    assert "a copy in" not in shown(trains(replace(JOB, state="SUCCEEDED"), copy_every_steps=12))


def test_every_job_that_runs_is_shown_and_a_few_that_have_ended() -> None:
    def jobs(*states: str) -> tuple[Job, ...]:
        return tuple(replace(JOB, id=f"job-{number}", state=state) for number, state in enumerate(states))

    def listed(*states: str) -> list[str]:
        text = shown(replace(healthy(), jobs=jobs(*states)))
        return [row.split()[0] for row in text.splitlines() if row.startswith("job-")]

    assert listed(*["RUNNING"] * 7) == [f"job-{number}" for number in range(7)]
    assert listed(*["FAILED"] * 7) == [f"job-{number}" for number in range(5)]
    assert listed("FAILED", "PENDING", *["STOPPED"] * 6) == ["job-1", "job-0", "job-2", "job-3", "job-4"]
    # the run of another cluster's job of the same ID is not its own
    other = replace(trains(), runs=(replace(RUN, cluster="other"),))
    assert line(shown(other), "raysubmit_1") == ["raysubmit_1", "RUNNING"]


def test_controllers_count_only_with_all_their_pods() -> None:
    fewer = with_controller(healthy(), "CoreDNS", ready=1)
    gone = with_controller(fewer, "KubeRay operator", present=False)
    assert "controllers: 5 of 6 run" in shown(fewer)
    assert "controllers: 4 of 6 run" in shown(gone)


def test_events_say_where_and_why() -> None:
    events = (event(1, ONE, failure="Xid 79"), event(2, group="workers"), event(3))
    snapshot = replace(healthy(), events=events)
    text = shown(snapshot)
    rows = text[text.index("When (UTC)") :].splitlines()[2:5]
    assert [row.split() for row in rows] == [
        ["11-21", "11:59", ONE.id, "something:", "Xid", "79"],
        ["11-21", "11:58", "workers", "something"],
        ["11-21", "11:57", "cluster", "something"],
    ]
    assert "workers    something" not in shown(snapshot, events=1)
    assert "When (UTC)" not in shown(snapshot, events=0)


def test_slurm_is_its_nodes_by_state_and_its_queue() -> None:
    jobs = (
        SlurmJob(id="7", name="train", user="ana", state="RUNNING", elapsed="1:02:03", nodes=2, where="ip-1,ip-2"),
        SlurmJob(id="8", name="next", user="bo", state="PENDING", elapsed="0:00", nodes=4, where="(Resources)"),
    )
    nodes = tuple(SlurmNode(name=f"ip-{n}", state=state) for n, state in enumerate(("idle", "allocated", "idle")))
    text = shown(replace(healthy(), slurm=Slurm(nodes=nodes, jobs=jobs)))
    assert "Slurm nodes: 2 idle, 1 allocated\n" in text
    rows = text[text.index("  Job") if "  Job" in text else text.index("Job ") :].splitlines()
    assert rows[2].split() == ["7", "train", "ana", "RUNNING", "1:02:03", "2", "ip-1,ip-2"]
    assert rows[3].split() == ["8", "next", "bo", "PENDING", "0:00", "4", "(Resources)"]
    assert "Elapsed" not in shown(replace(healthy(), slurm=Slurm(nodes=nodes)))


def test_a_finding_says_what_why_when_and_what_is_next() -> None:
    text = shown(with_node(healthy(), ONE, ready=False, unreachable=True, since=ago(3)))
    assert " ~ node " in text
    assert "     why: " in text
    assert "     when: since " in text
    assert ", expected by " in text
    text = shown(replace(healthy(), ray_clusters=()))
    assert "\n     next: hyperpod-ray deploy demo" in text
    assert " ! RayCluster 'ray' is gone" in text


def test_the_page_has_a_row_for_each_part_with_its_tone() -> None:
    snapshot = with_controller(healthy(), "CoreDNS", ready=1, purpose="names are not resolved")
    (ray,) = snapshot.ray_clusters
    snapshot = replace(
        snapshot,
        ray_clusters=(ray, replace(ray, name="b", ready_workers=1), replace(ray, name="c", state="")),
        file_systems=(
            FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=1100.4),
            FileSystem(id="fs-2", lifecycle="MISCONFIGURED", capacity_gib=2400, failure="subnet"),
        ),
        claims=(
            Claim(name="a", namespace="ray", phase="Bound"),
            Claim(name="b", namespace="ray", phase="Lost"),
            Claim(name="c", namespace="ray", phase="Bound", deleting_since=ago(1)),
        ),
        stacks=(Stack(name="s", status="UPDATE_FAILED", reason="quota"), Stack(name="t")),
    )
    facts = [(fact.kind, fact.name, fact.state, fact.tone, fact.detail) for fact in environment._facts(snapshot)]
    assert [fact for fact in facts if fact[0] != "controller"] == [
        ("RayCluster", "ray/ray", "ready", "good", "2 of 2 workers"),
        ("RayCluster", "ray/b", "ready", "busy", "1 of 2 workers"),
        ("RayCluster", "ray/c", "no state yet", "busy", "2 of 2 workers"),
        ("file system", "fs-1", "AVAILABLE", "good", "1200 GiB, 1,100 GiB free"),
        ("file system", "fs-2", "MISCONFIGURED", "bad", "2400 GiB, subnet"),
        ("claim", "ray/a", "Bound", "good", ""),
        ("claim", "ray/b", "Lost", "bad", ""),
        ("claim", "ray/c", "Terminating", "busy", ""),
        ("stack", "s", "UPDATE_FAILED", "bad", "quota"),
        ("stack", "t", "does not exist", "busy", ""),
    ]
    assert ("controller", "CoreDNS", "1 of 2 ready", "bad", "names are not resolved") in facts
    assert ("controller", "KubeRay operator", "2 of 2 ready", "good", "") in facts


@pytest.mark.parametrize(
    ("state", "reason", "status", "tone"),
    [
        # https://slurm.schedmd.com/sinfo.html#SECTION_NODE-STATE-CODES
        ("idle", "", "Running", "good"),
        ("allocated", "", "Running", "good"),
        ("mixed", "", "Running", "good"),
        ("down", "Not responding", "Running", "bad"),
        ("down*", "", "Running", "bad"),
        ("fail", "Action:Replace", "Running", "busy"),
        ("drained", "by hand", "Running", "busy"),
        ("draining", "by hand", "Running", "busy"),
        ("maint", "", "Running", "busy"),
        ("reserved", "", "Running", "busy"),
        ("idle*", "", "Running", "busy"),
        ("not joined", "", "Running", "busy"),
        ("?", "", "Running", "none"),
        ("idle", "", "Pending", "busy"),
        ("idle", "", "Failure", "bad"),
    ],
)
def test_whether_a_node_of_slurm_takes_work(state: str, reason: str, status: str, tone: str) -> None:
    row = Row(
        id="i-1", group="workers", type="ml.g5.8xlarge", status=status, kubernetes="", health="", fault="",
        launched=NOW, replacements=0, pods=(), name="ip-1", slurm=state, reason=reason,
    )  # fmt: skip
    assert tone_of(row) == tone
