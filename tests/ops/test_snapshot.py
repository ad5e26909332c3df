from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray.ops.observe.snapshot import (
    Slurm,
    SlurmNode,
    Unseen,
)
from hyperpod_ray.ops.verdict import judge
from tests.ops.ops_slurm_helpers import WORKER
from tests.ops.snapshots import (
    ONE,
    TWO,
    ago,
    healthy,
    pod,
    with_pod,
)


def findings(snapshot: Any) -> list[Any]:
    return [finding for finding in judge(snapshot).findings if finding.subject == "ray"]


def test_ready_is_no_proof_of_workers() -> None:
    assert findings(healthy()) == []
    # a container that started again a moment ago, in a pod of some hours
    (finding,) = findings(with_pod(healthy(), "w1", ready=False, ready_since=ago(2)))
    assert (finding.kind, finding.since) == ("recovering", ago(2))
    assert finding.what == "RayCluster 'ray' says ready, but only 1 of 2 workers run"
    assert finding.why == "", "its node answers: nothing says that it is lost"
    (finding,) = findings(with_pod(healthy(), "w1", deleting_since=ago(1)))
    assert finding.why == f"w1 on {ONE.id}"
    assert finding.kind == "recovering"
    (finding,) = findings(with_pod(healthy(), "w1", deleting_since=ago(60)))
    assert (finding.kind, finding.since) == ("action-required", ago(60))
    assert finding.why == f"w1 has been Terminating on {ONE.id} and will not be replaced until its node is removed"
    assert finding.next == f"hyperpod-ray nodes free demo {ONE.id}"
    assert findings(replace(healthy(), pods=(*healthy().pods, pod("x", TWO, cluster="other", ready=False)))) == []
    (finding,) = findings(with_pod(healthy(), "w1", ready=False, ready_since=ago(120)))
    assert (finding.kind, finding.since) == ("action-required", ago(120))
    (finding,) = findings(with_pod(healthy(), "ray-head", ready=False, ready_since=ago(2)))
    assert finding.what.startswith("RayCluster 'ray' says ready, but its head does not run")
    assert (finding.kind, finding.since) == ("recovering", ago(2))
    hidden = Unseen(source="pods of namespace ray", why="not allowed", refused=True)
    assert isinstance(findings(replace(healthy(), unseen=(hidden,))), list)


USABLE = ("allocated", "allocated+", "completing", "idle", "mixed", "planned", "idle~", "idle#", "allocated$", "mixed@")


LOST = ("down", "fail", "failing", "error", "unknown", "down~", "fail#", "DOWN")


SILENT = ("idle*", "allocated*", "down*", "unknown*")


@pytest.mark.parametrize("state", [*USABLE, *LOST, *SILENT])
def test_which_nodes_of_slurm_run_jobs(state: str) -> None:
    """https://slurm.schedmd.com/sinfo.html#SECTION_NODE-STATE-CODES: * does not answer"""
    node = SlurmNode(name="ip-1", state=state)
    assert node.lost is state.rstrip("*~#").lower().startswith(("down", "fail", "error", "unknown"))
    assert node.silent is state.endswith("*")
    assert node.usable is (state in USABLE)


@pytest.mark.parametrize(
    ("state", "drained", "reserved"),
    [
        ("drained", True, False),
        ("draining", True, False),
        ("drain*", True, False),
        ("maint", False, True),
        ("reserved", False, True),
        ("idle", False, False),
    ],
)
def test_which_nodes_of_slurm_take_no_new_job(state: str, drained: bool, reserved: bool) -> None:
    node = SlurmNode(name="ip-1", state=state)
    assert (node.drained, node.reserved) == (drained, reserved)


@pytest.mark.parametrize(
    ("reason", "repaired"),
    [
        ("Action:Replace", True),
        ("Action:Reboot", True),
        ("Action:Replace [hma@now]", True),
        ("by hand", False),
        ("", False),
    ],
)
def test_which_reason_asks_hyperpod_for_a_repair(reason: str, repaired: bool) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html"""
    assert SlurmNode(name="ip-1", state="fail", reason=reason).repaired is repaired


@pytest.mark.parametrize(
    ("host", "found"),
    [("ip-10-0-1-5", "ip-10-0-1-5"), ("ip-10-0-1-6", "w2"), ("w3", "w3"), ("ip-10-0-1-9", None), ("", None)],
)
def test_an_instance_is_found_by_name_or_address(host: str, found: str | None) -> None:
    nodes = (
        SlurmNode(name="ip-10-0-1-5", state="idle", address="10.0.1.5"),
        SlurmNode(name="w2", state="idle", address="10.0.1.6"),
        SlurmNode(name="w3", state="idle", address=""),
    )
    node = Slurm(nodes=nodes).of(replace(WORKER, host=host))
    assert (node.name if node else None) == found
