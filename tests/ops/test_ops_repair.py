"""`nodes show`, `reboot` and `replace`: what is asked, done and said, with an orchestrator of the test's own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import Cluster, ClusterEvent, Instance, Snapshot
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.repair import nodes
from tests.ops.world import environment_text

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DETAILS = {
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterNodeDetails.html
    "PrivatePrimaryIp": "10.0.0.7", "Placement": {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1"},
    "CurrentImageReleaseVersion": "2026.10.02",
}  # fmt: skip


def instance(number: int, status: str = "Running") -> Instance:
    return Instance(id=f"i-{number}", group="workers", type="ml.g5.8xlarge", status=status, launched=NOW)


class Parts:
    """An orchestrator's nodes and repair; keeps what it is asked to do."""

    def __init__(self) -> None:
        self.carried: list[tuple[list[str], str]] = []
        self.planned_for: list[Any] = []

    def planned(self, chosen: list[str], *, verb: str, when: Any) -> NodeRepair:
        self.planned_for = [chosen, verb, when]
        listed = tuple(instance(number) for number, _ in enumerate(chosen))
        return NodeRepair(instances=listed, when=when or "now", lines=("its job goes on elsewhere",))

    def outcome(self, verb: str) -> str:
        return f"the disks after a {verb}"

    def carry_out(self, repair: NodeRepair, *, verb: str) -> str:
        self.carried.append(([one.id for one in repair.instances], verb))
        return "advice"

    # --- nodes

    def find(self, node: str) -> Instance:
        return instance(1)

    def details(self, found: Instance) -> dict[str, Any]:
        return DETAILS

    def look(self) -> Snapshot:
        happened = [
            ClusterEvent(id="1", time=NOW, level=level, instance=one, group="workers", description=text)
            for level, one, text in (("Error", "i-1", "lost"), ("Info", "i-1", "created"), ("Error", "i-2", "other"))
        ]
        cluster = Cluster(name="ray-ops", arn="arn", status="InService")
        both = (instance(1), instance(2))
        return Snapshot(environment="demo", at=NOW, cluster=cluster, instances=both, events=tuple(happened))

    def session(self, found: Instance) -> str:
        return f"sagemaker-cluster:abc_workers-{found.id}"

    def described(self, event: ClusterEvent) -> ClusterEvent:
        return ClusterEvent(**{**event.__dict__, "failure": "Xid 79"})

    def events(self, **_: Any) -> list[ClusterEvent]:
        return list(self.look().events)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    made = Parts()
    monkeypatch.setattr(orchestrators, "of", lambda target: SimpleNamespace(nodes=made, repair=made))
    return made


@pytest.fixture
def target() -> Target:
    return Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    questions: list[str] = []
    monkeypatch.setattr(output, "confirm", lambda text, *, yes: questions.append(f"{text} {yes}"))
    return questions


@pytest.mark.parametrize(
    ("verb", "chosen", "when", "question", "said"),
    [
        ("reboot", ["a"], None, "reboot 1 node of 'demo'? False", "  what runs there stops; the disks after a reboot"),
        ("replace", ["a", "b"], "now", "replace 2 nodes of 'demo'? False", "  what runs there stops; the disks"),
        ("reboot", ["a"], "after-jobs", "reboot 1 node of 'demo' after their jobs? False", "  the disks after"),
    ],
)
def test_what_is_asked_before_nodes_are_repaired(  # noqa: PLR0917
    parts: Parts,
    target: Target,
    asked: list[str],
    capfd: pytest.CaptureFixture[str],
    verb: str,
    chosen: list[str],
    when: Any,
    question: str,
    said: str,
) -> None:
    repair = nodes.reboot if verb == "reboot" else nodes.replace
    assert repair(target, chosen, when=when, yes=False) == 0
    assert asked == [question]
    assert parts.planned_for == [chosen, verb, when]
    assert parts.carried == [([f"i-{number}" for number, _ in enumerate(chosen)], verb)]
    log = capfd.readouterr().err
    assert f"{verb} i-0 (workers, Running)" in log
    assert "  its job goes on elsewhere" in log
    assert any(line.startswith(said) for line in log.splitlines())
    assert "advice" in log


def test_twenty_five_nodes_are_one_call(parts: Parts, target: Target, asked: list[str]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchReplaceClusterNodes.html"""
    assert nodes.replace(target, [f"n{number}" for number in range(25)], yes=True) == 0
    with pytest.raises(OpsError, match="26 nodes in one call") as refused:
        nodes.replace(target, [f"n{number}" for number in range(26)], yes=True)
    assert refused.value.code == 2
    assert len(parts.carried) == 1


def test_one_node_has_what_hyperpod_says_of_it(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert nodes.show(target, "i-1", form=Format.table) == 0
    shown = capfd.readouterr().out
    for label, value in (
        ("node", "i-1"), ("group", "workers"), ("type", "ml.g5.8xlarge"), ("HyperPod", "Running"),
        ("address", "10.0.0.7"), ("zone", "usw2-az1"), ("software", "2026.10.02"),
        ("session", "sagemaker-cluster:abc_workers-i-1"),
    ):  # fmt: skip
        assert any(line.split()[:1] == [label] and value in line for line in shown.splitlines()), (label, shown)
    assert "lost: Xid 79" in shown
    assert "other" not in shown, "an event of another node"
    assert "created: Xid" not in shown, "only errors are asked for"


def test_a_shell_is_printed_as_a_command(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nodes.shell(target, "i-1", show_only=True) == 0
    assert capfd.readouterr().out.strip() == (
        "aws ssm start-session --target sagemaker-cluster:abc_workers-i-1 --region us-west-2"
    )
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OpsError, match="'aws' is not installed"):
        nodes.shell(target, "i-1", show_only=False)
