"""`wait`: which states of CloudFormation, HyperPod, FSx and Kubernetes end it, and with which exit code."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import output
from hyperpod_ray.ops.change import wait
from hyperpod_ray.ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.observe.snapshot import Claim, FileSystem, Snapshot, Stack, Unseen
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.verdict import durations
from tests.ops.snapshots import (
    ONE,
    THREE,
    TWO,
    healthy,
    instance,
    with_cluster,
    with_instance,
    with_node,
    with_stack,
    without,
)
from tests.ops.world import environment_text
from tests.support.answers import session

NOTHING = replace(healthy(), cluster=None, instances=(), nodes=(), file_systems=(), claims=(), ray_clusters=())


def target(text: str = "") -> Target:
    return Target(parse(text or environment_text(), name="demo", path=Path("demo.yaml")))


def enum(service: str, shape: str) -> list[str]:
    """Every value that the service's model lists."""
    values: list[str] = session().get_service_model(service).shape_for(shape).enum
    return values


# --- the cluster -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", enum("cloudformation", "StackStatus"))
def test_without_a_cluster_only_a_stack_that_is_worked_on_gives_hope(status: str) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html"""
    progress = wait._cluster(with_stack(NOTHING, "HyperPod", status, "no capacity"))
    assert bool(progress.failed) is not status.endswith("_IN_PROGRESS")
    assert not progress.done
    if status.endswith("_FAILED") or status == "ROLLBACK_COMPLETE":
        assert progress.failed == f"stack demo-HyperPod is {status}: no capacity"
    elif status.endswith("_COMPLETE"):
        assert progress.failed == "the cluster does not exist and no deployment is under way"
        assert progress.next == "hyperpod-ray deploy demo"
    if progress.phase != "not there":
        assert progress.phase == f"demo-HyperPod {status}"


def test_a_failed_stack_counts_more_than_one_that_is_worked_on() -> None:
    snapshot = with_stack(with_stack(NOTHING, "Network", "DELETE_IN_PROGRESS"), "HyperPod", "CREATE_FAILED")
    assert wait._cluster(snapshot).failed == "stack demo-HyperPod is CREATE_FAILED"
    assert wait._cluster(replace(NOTHING, stacks=(Stack(name="demo-Network"),))).phase == "not there"


@pytest.mark.parametrize("status", enum("sagemaker", "ClusterStatus"))
def test_a_cluster_is_there_when_it_is_in_service(status: str) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html"""
    progress = wait._cluster(with_cluster(healthy(), status=status, failure="quota"))
    assert progress.done is (status == "InService")
    assert bool(progress.failed) is (status in ("Failed", "Deleting"))
    if status == "Failed":
        assert progress.failed == "the cluster is Failed: quota"
    elif status != "Deleting":
        assert progress.phase == f"{status}, head 2/2, workers 3/3"


def test_a_failed_cluster_that_still_starts_nodes_is_waited_for() -> None:
    failed = with_cluster(healthy(), status="Failed")
    assert wait._cluster(with_instance(failed, THREE, status="Pending")).failed == ""
    assert wait._cluster(with_instance(failed, THREE, status="Failure")).failed == "the cluster is Failed"


# --- a group ---------------------------------------------------------------------------------------------------------


def test_a_group_is_there_when_every_node_that_was_asked_for_is_ready() -> None:
    progress = wait._group(healthy(), "workers")
    assert (progress.phase, progress.done) == ("3/3 ready", True)
    checked = with_node(with_instance(healthy(), ONE, status="DeepHealthCheckInProgress"), ONE, health="Unschedulable")
    progress = wait._group(checked, "workers")
    assert (progress.phase, progress.done) == ("2/3 ready, 1 in deep health checks", False)
    progress = wait._group(without(healthy(), TWO), "workers")
    assert (progress.phase, progress.done) == ("2/3 ready, 1 missing", False)
    starting = with_instance(without(healthy(), TWO), ONE, status="Pending")
    progress = wait._group(starting, "workers")
    assert progress.phase == "1/3 ready, 1 coming up or recovering, 1 missing"
    more = replace(healthy(), instances=(*healthy().instances, instance(9)))
    assert wait._group(more, "workers").done, "a node more than asked for does not make it wait"


def test_a_group_that_the_cluster_does_not_have_never_comes() -> None:
    progress = wait._group(healthy(), "other")
    assert (progress.failed, progress.done) == ("the cluster has no group 'other'", False)
    assert wait._group(NOTHING, "workers").failed.startswith("the cluster does not exist")


# --- storage ---------------------------------------------------------------------------------------------------------

FSX = {
    "AVAILABLE": (True, False),
    "UPDATING": (True, False),
    "CREATING": (False, False),
    "FAILED": (False, True),
    "MISCONFIGURED": (False, True),
    "MISCONFIGURED_UNAVAILABLE": (False, True),
    "DELETING": (False, True),
}
"""Whether a file system can be used, and whether it never can.
https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html"""


@pytest.mark.parametrize("lifecycle", enum("fsx", "FileSystemLifecycle"))
def test_storage_is_there_when_every_file_system_can_be_used(lifecycle: str) -> None:
    systems = (
        FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200),
        FileSystem(id="fs-2", lifecycle=lifecycle, capacity_gib=1200, failure="subnet"),
    )
    progress = wait._storage(replace(healthy(), file_systems=systems))
    assert (progress.done, bool(progress.failed)) == FSX[lifecycle]
    assert progress.phase == f"fs-1 AVAILABLE, fs-2 {lifecycle}, claim ray/fsx Bound"
    if progress.failed and lifecycle != "DELETING":
        assert progress.failed == f"file system fs-2 is {lifecycle}: subnet"


@pytest.mark.parametrize(("phase", "done"), [("Pending", False), ("Bound", True), ("Lost", False)])
def test_a_claim_is_there_when_it_is_bound(phase: str, done: bool) -> None:
    """https://kubernetes.io/docs/concepts/storage/persistent-volumes/#phase"""
    claims = (Claim(name="fsx", namespace="ray", phase="Bound"), Claim(name="own", namespace="ray", phase=phase))
    progress = wait._storage(replace(healthy(), claims=claims))
    assert (progress.done, progress.failed) == (done, "")
    assert wait._storage(replace(healthy(), claims=claims, file_systems=())).done is done


def test_storage_of_a_cluster_that_is_there_comes_and_of_none_does_not() -> None:
    progress = wait._storage(replace(healthy(), file_systems=(), claims=()))
    assert (progress.phase, progress.done, progress.failed) == ("no file system yet", False, "")
    assert wait._storage(NOTHING).failed


# --- Ray, and all of it ----------------------------------------------------------------------------------------------


def test_ray_is_there_when_its_cluster_is_ready_and_nothing_is_wrong_with_it() -> None:
    assert wait._ray(healthy()).phase == "ray ready, 2/2 workers"
    (ray,) = healthy().ray_clusters
    starting = replace(healthy(), ray_clusters=(replace(ray, state="", ready_workers=1),))
    progress = wait._ray(starting)
    assert progress.phase.startswith("ray starting, 1/2 workers")
    assert not progress.done
    both = replace(healthy(), ray_clusters=(ray, replace(ray, name="other", state="failed")))
    assert not wait._ray(both).done
    assert wait._ray(replace(healthy(), ray_clusters=())).phase == "no RayCluster yet"
    assert wait._ray(NOTHING).failed
    sick = wait._ray(with_stack(healthy(), "Ray", "UPDATE_ROLLBACK_FAILED"))
    assert not sick.done
    assert sick.phase.startswith("ray ready, 2/2 workers; ")


def test_healthy_is_the_verdict() -> None:
    progress = wait._healthy(healthy())
    assert (progress.phase, progress.done) == ("Healthy", True)
    progress = wait._healthy(without(healthy(), TWO))
    assert not progress.done
    state, _, reason = progress.phase.partition(": ")
    assert state in ("Recovering", "Action required")
    assert reason


# --- what is asked, and how it ends ----------------------------------------------------------------------------------


def test_each_goal_has_its_own_duration_and_sources() -> None:
    goals = {name: wait.goal(target(), name) for name in ("cluster", "storage", "ray", "healthy", "workers")}
    assert {name: goal.usual for name, goal in goals.items()} == {
        "cluster": durations.CLUSTER,
        "storage": durations.FILE_SYSTEM,
        "ray": durations.RAY,
        "healthy": durations.REPLACEMENT,
        # the deep health checks of accelerated nodes are on by default and take longer than a node
        "workers": durations.DEEP_CHECK,
    }
    assert wait.goal(target(), "head").usual == durations.NODE
    assert goals["workers"].name == "group workers"
    assert all("HyperPod" in goal.sources for goal in goals.values()), "otherwise the first look ends nothing"
    assert "FSx" in goals["storage"].sources
    assert {"CloudFormation"} < set(goals["cluster"].sources)
    assert all("Kubernetes" in goals[name].sources for name in ("storage", "ray", "healthy", "workers"))
    # each looks at its own part: what is wrong elsewhere does not keep it waiting
    broken = replace(without(healthy(), TWO), file_systems=(FileSystem(id="f", lifecycle="FAILED", capacity_gib=1),))
    done = {name for name, goal in goals.items() if goal.look(broken).done}
    assert "cluster" in done
    assert not done & {"storage", "healthy", "workers"}


def test_a_goal_that_does_not_exist_is_bad_use() -> None:
    with pytest.raises(OpsError, match=r"target: 'nodes'\. Expected one of .*, or a group: head, workers") as refused:
        wait.goal(target(), "nodes")
    assert refused.value.code == BAD_USE
    assert refused.value.fix == "hyperpod-ray wait demo --for cluster"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, ...]]]:
    """Lets `wait` see these snapshots, the last for ever; each look takes a minute. Returns the sources it asked."""

    def show(*snapshots: Snapshot | BaseException) -> list[tuple[str, ...]]:
        sources: list[tuple[str, ...]] = []
        clock = itertools.count(0, 60)
        coming: Iterator[Snapshot | BaseException] = itertools.chain(snapshots, itertools.repeat(snapshots[-1]))

        def snapshot(_: Target, *, only: tuple[str, ...]) -> Snapshot:
            sources.append(only)
            latest = next(coming)
            if isinstance(latest, BaseException):
                raise latest
            return latest

        monkeypatch.setattr(gather, "snapshot", snapshot)
        monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        return sources

    return show


def run(goal_name: str = "cluster", *, timeout: float = 0, form: Format = Format.table) -> int:
    return wait.run(target(), goal_name=goal_name, timeout=timeout, form=form, poll=15)


CREATING = with_cluster(healthy(), status="Creating")


def test_it_ends_when_the_goal_is_there(looks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sources = looks(CREATING, CREATING, healthy())
    assert run() == OK
    assert sources == [("CloudFormation", "HyperPod")] * 3
    lines = capsys.readouterr().err.splitlines()
    phases = [line for line in lines if "usually 15–25 min" in line]
    assert [line.partition("cluster: ")[2].partition(",")[0] for line in phases] == ["Creating", "InService"]
    assert lines[-1].startswith("cluster: ready after ")
    assert "next: " in lines[-1]


def test_it_ends_where_waiting_does_not_help(looks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    looks(CREATING, with_cluster(healthy(), status="Failed", failure="no capacity"))
    with pytest.raises(OpsError, match="the cluster is Failed: no capacity") as refused:
        run(form=Format.json)
    assert (refused.value.code, refused.value.fix) == (ERROR, "hyperpod-ray status demo")
    data = json.loads(capsys.readouterr().out)
    assert (data["kind"], data["done"], data["failed"]) == ("wait", False, "the cluster is Failed: no capacity")
    looks(NOTHING)
    with pytest.raises(OpsError) as refused:
        run()
    assert refused.value.fix == "hyperpod-ray deploy demo"


def test_it_ends_when_its_time_is_over(looks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sources = looks(CREATING)
    assert run(timeout=1200, form=Format.json) == STILL_GOING
    written = capsys.readouterr()
    data = json.loads(written.out)
    assert (data["goal"], data["phase"].partition(",")[0], data["done"]) == ("cluster", "Creating", False)
    assert 1200 <= data["elapsed_seconds"] < 1500
    assert "Wait again: hyperpod-ray wait demo --for cluster" in written.err
    assert len(sources) > 1
    looks(replace(healthy(), instances=()))
    assert run("workers", timeout=60) == STILL_GOING
    assert "Wait again: hyperpod-ray wait demo --for workers" in capsys.readouterr().err


def test_ctrl_c_stops_waiting_and_says_that_the_work_goes_on(looks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    looks(CREATING, KeyboardInterrupt())
    assert run() == INTERRUPTED
    assert "the work continues in AWS. Wait again: hyperpod-ray wait demo --for cluster" in capsys.readouterr().err


def test_a_source_that_does_not_answer_is_asked_again(looks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is that of the source that is missing, not of another one that may not be seen."""
    unseen = (
        Unseen(source="CloudFormation", why="describe_stacks is not allowed", refused=True),
        Unseen(source="HyperPod", why="throttled"),
    )
    looks(replace(NOTHING, unseen=unseen), healthy())
    assert run() == OK
    assert "cluster: not known: throttled (" in capsys.readouterr().err


def test_on_a_terminal_one_block_is_kept_up_to_date_and_removed(looks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(output, "console", lambda **_: console)
    display = wait._Display(console, wait.goal(target(), "cluster"))
    with display:
        display.update(wait.Progress(phase="Creating"), 65)
        assert display._live.is_started
        live = display._live
    assert not live.is_started, "the cursor is visible again"
    console.print(display._block(wait.Progress(phase="Creating, head 0/2"), 65))
    lines = [line.rstrip() for line in shown.getvalue().splitlines()[-4:]]
    assert lines[0].endswith("cluster Creating, head 0/2")
    assert lines[1].startswith("elapsed 65 s, usually 15–25 min")
    assert lines[2].startswith("then")
    assert lines[3].endswith("Ctrl-C stops waiting, not the work")


def test_on_a_terminal_the_clock_keeps_running_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute between two looks; the block shows a new time each second."""
    clock, drawn = [100.0], list[list[str]]()

    def asleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=asleep))

    def draw(block: Any) -> None:
        console = Console(file=io.StringIO(), width=100, color_system=None)
        console.print(block)
        drawn.append(console.file.getvalue().splitlines())  # type: ignore[attr-defined]

    display = wait._Display(Console(file=io.StringIO()), wait.goal(target(), "cluster"))
    display._live = SimpleNamespace(update=draw)
    display.sleep(2.5, wait.Progress(phase="Creating, head 0/2"), 40.0)
    assert clock[0] == 102.5
    assert [lines[1].split(",")[0] for lines in drawn] == ["elapsed 61 s", "elapsed 62 s", "elapsed 62 s"]
    assert all("Creating, head 0/2" in lines[0] for lines in drawn)
    display._live = None
    drawn.clear()
    display.sleep(30, wait.Progress(phase="Creating"), 40.0)
    assert (clock[0], drawn) == (132.5, []), "without a terminal, one wait"
