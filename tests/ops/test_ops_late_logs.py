"""Log groups that a service makes again after its stack went: found, named, and deleted as teardown's last step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import inventory, teardown
from hyperpod_ray.ops.change.inventory import Inventory
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text

EKS = "/aws/eks/ray-ops-eks/cluster"
BUILD = "/aws/codebuild/demo-Image-Build"
OURS = "/aws/sagemaker/Clusters/ray-ops/abc"
FLOW, EVENTS = "/aws/vpc/ray-on-hyperpod/demo", "/aws/events/ray-on-hyperpod/demo"
OTHERS = ["/aws/eks/ray-ops-eks-2/cluster", "/aws/codebuild/other-Image", "/aws/lambda/x"]


class Aws:
    """CloudWatch Logs, and nothing else."""

    def __init__(self) -> None:
        self.groups = [EKS, BUILD, OURS, *OTHERS]

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        assert (service, operation, key) == ("logs", "describe_log_groups", "logGroups")
        return [{"logGroupName": name} for name in self.groups if name.startswith(arguments["logGroupNamePrefix"])]

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        assert (service, operation) == ("logs", "delete_log_group")
        self.groups.remove(arguments["logGroupName"])
        return {}


def target(*, protected: bool = False) -> Target:
    made = Target(parse(environment_text(protected=protected), name="demo", path=Path("demo.yaml")))
    made.aws = Aws()  # type: ignore[assignment]
    return made


def stacks(*there: str) -> tuple[Stack, ...]:
    return tuple(Stack(name=f"demo-{n}", status="CREATE_COMPLETE" if n in there else "") for n in ("Eks", "Image"))


def found(made: Target, *there: str) -> dict[str, str]:
    return {item.id: f"{item.kind} {item.fate}" for item in inventory._log_groups(made, stacks(*there))}


def test_while_the_stacks_are_there_the_groups_are_theirs() -> None:
    assert found(target(), "Eks", "Image") == {OURS: "log group kept"}


def test_afterwards_they_are_nobodys() -> None:
    late = f"{inventory.LATE_LOGS} destroyed"
    assert found(target()) == {OURS: "log group kept", EKS: late, BUILD: late}


def test_a_protected_environment_keeps_its_audit_log() -> None:
    assert found(target(protected=True))[EKS] == "log group kept"


def test_what_a_protected_environment_kept_is_named_with_its_setting() -> None:
    made = target()
    made.aws.groups += [FLOW, EVENTS]  # type: ignore[attr-defined]
    late = f"{inventory.LATE_LOGS} destroyed"
    kept = {FLOW: "log group kept", EVENTS: "log group kept"}
    assert found(made) == {OURS: "log group kept", EKS: late, BUILD: late, **kept}
    notes = {group.id: group.note for group in inventory._log_groups(made, stacks())}
    assert "network.flow_log_group_exists takes it up" in notes[FLOW]
    assert "hyperpod.event_log_group_exists takes it up" in notes[EVENTS]
    # each is its stack's while that is there
    deployed = tuple(Stack(name=f"demo-{name}", status="CREATE_COMPLETE") for name in ("Network", "Platform"))
    assert {group.id for group in inventory._log_groups(made, deployed)} == {OURS, EKS, BUILD}


def test_teardown_deletes_them_last_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = target()

    def take(of: Target) -> Inventory:
        items = tuple(inventory._log_groups(of, stacks()))
        kinds = ("stacks", "ray_clusters", "jobs", "claims", "file_systems", "unseen")
        empty: dict[str, Any] = dict.fromkeys(kinds, ())
        return Inventory(items=items, kubernetes=False, **empty)

    monkeypatch.setattr(inventory, "take", take)
    assert teardown._look_again(made, form=Format.table, delete_logs=False) == 0
    assert made.aws.groups == [OURS, *OTHERS]  # type: ignore[attr-defined]
    told = capsys.readouterr().err
    assert EKS in told
    assert "nothing is left but what is kept" in told
