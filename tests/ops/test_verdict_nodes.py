"""What is said of a node, by what HyperPod and Kubernetes say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Node, Snapshot, Unseen
from hyperpod_ray.ops.verdict import nodes as rules
from hyperpod_ray.ops.verdict.finding import UNREACHABLE_GRACE, Finding
from tests.support import pages

HEAD, WORKER = 0, 2
GRACE_MINUTES = UNREACHABLE_GRACE.total_seconds() / 60


def changed(
    number: int, *, of_node: dict[str, Any] | None = None, recovery: str = "Automatic", **more: Any
) -> Snapshot:
    """A healthy environment in which one node is otherwise."""
    snapshot = pages.healthy()
    assert snapshot.cluster is not None
    instance = snapshot.instances[number]
    instances = tuple(replace(each, **more) if each.id == instance.id else each for each in snapshot.instances)
    nodes = tuple(
        replace(node, **(of_node or {})) if node.name == names.node_name(instance.id) else node
        for node in snapshot.nodes
    )
    cluster = replace(snapshot.cluster, node_recovery=recovery)
    return replace(snapshot, instances=instances, nodes=nodes, cluster=cluster, events=())


def error(number: int, minutes: float, **more: Any) -> ClusterEvent:
    instance = pages.healthy().instances[number]
    level = more.pop("level", "Error")
    return ClusterEvent(id=f"e{minutes}", time=pages.ago(minutes), level=level, description="d", resource="Instance",
                        instance=instance.id, **more)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "recovery", "minutes", "finding_kind", "words"),
    [
        (WORKER, "Automatic", 1, "recovering", "the service replaces it"),
        (WORKER, "None", 1, "action-required", "node recovery is off"),
        (HEAD, "Automatic", 1, "action-required", "CPU nodes are not replaced automatically"),
        (HEAD, "None", 1, "action-required", "CPU nodes are not replaced automatically"),
        (WORKER, "Automatic", 60 * 24, "action-required", "was not replaced in time"),
    ],
)
@pytest.mark.parametrize("status", ["Failure", "NotFound"])
def test_a_faulty_node(number: int, recovery: str, minutes: float, finding_kind: str, words: str, status: str) -> None:  # noqa: PLR0917
    snapshot = replace(changed(number, recovery=recovery, status=status), events=(error(number, minutes),))
    (finding,) = rules.instances(snapshot)
    assert (finding.kind, words in finding.what, finding.since) == (finding_kind, True, pages.ago(minutes))
    assert finding.subject == snapshot.instances[number].id
    assert bool(finding.next) == (finding_kind == "action-required") and bool(finding.expected_by) == (
        finding_kind == "recovering"
    )


def test_why_a_node_is_faulty_is_what_it_says_or_its_event() -> None:
    snapshot = changed(WORKER, status="Failure")
    info = error(WORKER, 1, level="Info", failure="later")
    events = (info, error(WORKER, 5, failure="XID 79"))
    (finding,) = rules.instances(replace(snapshot, events=events))
    assert (finding.why, finding.since) == ("XID 79", pages.ago(5)), "an error goes before what came after it"
    (finding,) = rules.instances(replace(snapshot, events=(info,)))
    assert (finding.why, finding.since) == ("later", pages.ago(1))
    (finding,) = rules.instances(replace(changed(WORKER, status="Failure", message="its own"), events=events))
    assert finding.why == "its own"


def test_a_cluster_that_is_deleted_or_gone_says_nothing_of_its_nodes() -> None:
    snapshot = changed(WORKER, status="Failure")
    assert snapshot.cluster is not None
    for cluster in (None, replace(snapshot.cluster, status="Deleting")):
        assert list(rules.instances(replace(snapshot, cluster=cluster))) == []


def said(snapshot: Snapshot) -> list[Finding]:
    return list(rules.nodes(snapshot))


@pytest.mark.parametrize(
    ("of_node", "number", "recovery", "finding_kind", "words"),
    [
        ({"health": names.REPLACE}, WORKER, "Automatic", "recovering", "waits for its replacement"),
        ({"health": names.REBOOT}, WORKER, "Automatic", "recovering", "waits for its reboot"),
        ({"deep_check": "InProgress"}, WORKER, "Automatic", None, "is in its deep health checks"),
        ({"deep_check": "Failed"}, WORKER, "Automatic", "recovering", "failed its deep health checks; the service"),
        ({"deep_check": "Failed"}, WORKER, "None", "action-required", "failed its deep health checks and is not"),
        ({"deep_check": "Failed"}, HEAD, "Automatic", "action-required", "failed its deep health checks and is not"),
        ({"health": "Unschedulable"}, WORKER, "Automatic", "recovering", "is unschedulable; the service deals"),
        ({"health": "Unschedulable"}, WORKER, "None", "action-required", "is unschedulable and is not replaced"),
        ({"cordoned": True}, WORKER, "Automatic", "note", "is cordoned: no new pods go there"),
        # what is worse comes first
        ({"health": names.REPLACE, "ready": False, "cordoned": True}, WORKER, "Automatic", "recovering", "waits for"),
        (
            {"cordoned": True, "ready": False, "since": pages.ago(1)},
            WORKER,
            "Automatic",
            "recovering",
            "does not answer",
        ),
    ],
)
def test_a_node_that_runs_and_is_unwell(
    of_node: dict[str, Any], number: int, recovery: str, finding_kind: str | None, words: str
) -> None:
    snapshot = replace(changed(number, of_node=of_node, recovery=recovery), events=(error(number, 1),))
    (finding,) = said(snapshot)
    assert words in finding.what and finding.subject == snapshot.instances[number].id
    assert finding_kind is None or finding.kind == finding_kind
    off = changed(number, of_node=of_node, recovery=recovery, status="Pending")
    assert said(off) == [], "HyperPod says what a node that does not run does"


@pytest.mark.parametrize(
    ("minutes", "finding_kind"),
    [(GRACE_MINUTES - 0.1, "recovering"), (GRACE_MINUTES, "action-required"), (None, "recovering")],
)
def test_a_node_that_does_not_answer(minutes: float | None, finding_kind: str) -> None:
    since = None if minutes is None else pages.ago(minutes)
    (finding,) = said(changed(WORKER, of_node={"ready": False, "since": since}))
    assert (finding.kind, finding.since) == (finding_kind, since)
    assert "RayCluster 'ray' says ready, but ray-gpu-worker-0 is on it" in finding.why
    spare = changed(len(pages.healthy().instances) - 1, of_node={"ready": False, "since": since})
    (finding,) = said(spare)
    assert ("RayCluster" in finding.why) is False
    waits = changed(WORKER, of_node={"ready": False, "since": since})
    suspended = replace(waits, ray_clusters=tuple(replace(ray, state="suspended") for ray in waits.ray_clusters))
    assert "RayCluster" not in said(suspended)[0].why


@pytest.mark.parametrize(
    ("minutes", "tainted", "finding_kind"),
    [(1, False, "recovering"), (GRACE_MINUTES, False, "action-required"), (GRACE_MINUTES, True, "recovering")],
)
@pytest.mark.parametrize("pods", [True, False])
def test_a_node_object_without_its_instance(minutes: float, tainted: bool, finding_kind: str, pods: bool) -> None:
    snapshot = pages.healthy()
    gone = snapshot.instances[WORKER] if pods else snapshot.instances[-1]
    nodes = tuple(
        replace(node, since=pages.ago(minutes), out_of_service=tainted)
        if node.name == names.node_name(gone.id)
        else node
        for node in snapshot.nodes
    )
    ghost = replace(snapshot, instances=tuple(node for node in snapshot.instances if node.id != gone.id), nodes=nodes)
    (finding,) = said(ghost)
    assert (finding.kind, finding.subject) == (finding_kind, names.node_name(gone.id))
    if finding_kind == "action-required":
        assert finding.why == (
            "ray-gpu-worker-0 will not be replaced until the node is removed" if pods else "no Ray pod is on it"
        )
    blind = replace(ghost, unseen=(Unseen(source="HyperPod", why="refused"),))
    assert said(blind) == [], "where HyperPod did not answer, nobody knows"
    others = replace(snapshot, nodes=(*snapshot.nodes, Node(name="ip-10-0-0-1.ec2.internal", ready=True)))
    assert said(others) == [], "a node of others"


@pytest.mark.parametrize(("launched", "finding_kind"), [(1, "recovering"), (300, "action-required")])
def test_a_node_that_did_not_join(launched: float, finding_kind: str) -> None:
    snapshot = changed(WORKER, launched=pages.ago(launched))
    name = names.node_name(snapshot.instances[WORKER].id)
    absent = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != name))
    (finding,) = said(absent)
    assert (finding.kind, finding.since) == (finding_kind, pages.ago(launched))
    assert said(replace(absent, cluster=None)) == []
    pending = tuple(replace(node, status="Pending") if node.id in name else node for node in absent.instances)
    assert said(replace(absent, instances=pending)) == []


def rack(members: int, hit: int, *, others: int = 8, elsewhere: int = 0) -> list[Finding]:
    """Nodes below one network node of which some do not answer, beside others."""
    snapshot = pages.healthy()
    inside = [
        Node(name=f"hyperpod-i-a{number}", ready=number >= hit, since=pages.ago(10 + number), network=("top", "tor-1"))
        for number in range(members)
    ]
    outside = [
        Node(name=f"hyperpod-i-b{number}", ready=number >= elsewhere, network=("top", f"tor-{number + 2}"))
        for number in range(others)
    ]
    return list(rules.racks(replace(snapshot, nodes=(*inside, *outside))))


@pytest.mark.parametrize(
    ("members", "hit", "others", "elsewhere", "said"),
    [
        (4, 3, 8, 0, True),
        (4, 2, 8, 0, False),  # fewer than three are chance
        (6, 3, 8, 0, True),  # half of them
        (7, 3, 8, 0, False),
        (4, 3, 8, 1, True),  # six times as many as elsewhere
        (4, 3, 8, 2, False),  # the whole cluster is in trouble
        (4, 4, 8, 2, True),
        (4, 4, 0, 0, False),  # there is no elsewhere
    ],
)
def test_a_rack_in_trouble(members: int, hit: int, others: int, elsewhere: int, said: bool) -> None:
    findings = rack(members, hit, others=others, elsewhere=elsewhere)
    assert [finding.subject for finding in findings] == (["tor-1"] if said else [])
    for finding in findings:
        assert f"{hit} of {members} nodes below network node tor-1" in finding.what
        assert f"elsewhere {elsewhere} of {others}" in finding.what
        assert finding.since == pages.ago(10 + hit - 1)


def test_a_pod_of_another_cluster_is_not_this_ones() -> None:
    snapshot = changed(WORKER, of_node={"ready": False, "since": pages.ago(1)})
    pods = tuple(replace(pod, namespace="hyperpod-ns-a") for pod in snapshot.pods)
    assert "RayCluster" not in said(replace(snapshot, pods=pods))[0].why
