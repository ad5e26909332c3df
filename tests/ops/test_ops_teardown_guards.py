"""What stops a teardown before anything is destroyed: pods that still save, what blocks, a name that was not typed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.change import inventory, protection, teardown
from hyperpod_ray.ops.change.inventory import Inventory, Item
from hyperpod_ray.ops.errors import OK, STILL_GOING, OpsError
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text


def target(*, protected: bool = False) -> Target:
    return Target(parse(environment_text(protected=protected), name="demo", path=Path("demo.yaml")))


def found(*items: Item, kubernetes: bool = False) -> Inventory:
    return Inventory(
        stacks=(), ray_clusters=(), jobs=(), claims=(), file_systems=(), items=items, unseen=(), kubernetes=kubernetes
    )


@pytest.fixture
def destroyed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a teardown did after it had looked."""
    done: list[str] = []
    monkeypatch.setattr(teardown, "_wait_for_file_systems", lambda target, poll: True)
    monkeypatch.setattr(teardown, "_wait_for_volumes", lambda target, poll: True)
    monkeypatch.setattr(protection, "lift", lambda target, stacks: done.append("unprotected"))
    monkeypatch.setattr(teardown, "_destroy", lambda target, app: done.append("destroyed"))
    monkeypatch.setattr(account, "stacks", lambda target, **_: ())
    monkeypatch.setattr(teardown, "_look_again", lambda target, form, delete_logs: OK)
    return done


def take_down(made: Target, seen: Inventory) -> int:
    return teardown._take_down(made, seen, form=Format.table, delete_logs=False, app="", poll=0)


def test_what_blocks_the_destroy_is_named_and_nothing_is_destroyed(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocking = found(Item(kind="VPC endpoint", id="vpce-1", fate="blocks", note="delete it: GuardDuty made it"))
    monkeypatch.setattr(inventory, "take", lambda target: blocking)
    with pytest.raises(OpsError, match="VPC endpoint vpce-1: delete it") as refused:
        take_down(target(), found())
    assert "hyperpod-ray teardown demo" in refused.value.fix
    assert destroyed == []


def test_with_nothing_that_blocks_it_is_destroyed(destroyed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kept = found(Item(kind="log group", id="x", fate="kept"))
    monkeypatch.setattr(inventory, "take", lambda target: kept)
    assert take_down(target(), found()) == OK
    assert destroyed == ["unprotected", "destroyed"]


def test_a_heads_volume_that_stays_keeps_the_driver(destroyed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "take", lambda target: found())
    monkeypatch.setattr(teardown, "_wait_for_volumes", lambda target, poll: False)
    assert take_down(target(), found()) == STILL_GOING
    assert destroyed == []


def test_pods_that_do_not_end_keep_the_environment(destroyed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They may still write a checkpoint, and their volume is in use."""
    monkeypatch.setattr(inventory, "take", lambda target: found())
    monkeypatch.setattr(teardown, "_until_none", lambda left, **_: ["gpu-worker-1 on i-0abc"])
    with pytest.raises(OpsError, match="gpu-worker-1 on i-0abc did not end within"):
        take_down(target(), found(kubernetes=True))
    assert destroyed == []


def test_a_file_system_of_a_claim_that_stays_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its driver, a file system is an orphan where the environment deletes its data, and nowhere else."""
    kept = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, made_by_claim=True)
    deleted: list[str] = []
    monkeypatch.setattr(account, "file_systems", lambda target: [kept])
    monkeypatch.setattr(orchestrators, "of", lambda target: SimpleNamespace(workloads=NoDriver()))
    monkeypatch.setattr(teardown, "_delete_file_system", lambda target, identifier: deleted.append(identifier))
    monkeypatch.setattr(teardown, "FILE_SYSTEM_SECONDS", 0)
    monkeypatch.setattr(inventory, "deletes_data", lambda target: False)
    assert teardown._wait_for_file_systems(target(), poll=0)
    assert deleted == []
    monkeypatch.setattr(inventory, "deletes_data", lambda target: True)
    assert not teardown._wait_for_file_systems(target(), poll=0)
    assert deleted == ["fs-1"]


class NoDriver:
    """Workloads of a cluster whose storage driver is gone."""

    def deletes_volumes(self, driver: str = names.CSI_DRIVER) -> bool:
        return False


@pytest.mark.parametrize(
    ("protected", "yes", "word", "asked_for"),
    [
        (True, True, "", "demo"),  # --yes does not do
        (True, False, "demo", None),
        (False, True, "", ""),
        (False, False, "demo", ""),
    ],
)
def test_a_protected_environment_goes_by_its_name_only(
    protected: bool, yes: bool, word: str, asked_for: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    questions: list[str] = []

    def confirm(text: str, **options: Any) -> None:
        questions.append(text)
        asked.append(options)

    monkeypatch.setattr(output, "confirm", confirm)
    teardown._confirm(target(protected=protected), yes=yes, word=word)
    if asked_for is None:
        assert asked == []
    elif asked_for:
        assert asked == [{"yes": False, "word": asked_for}]
    else:
        assert asked == [{"yes": True}]
    said = "'demo' is protected. All of the above goes for good." if protected else "Take 'demo' down?"
    assert questions == [said][: len(asked)]


def test_another_name_is_no_consent() -> None:
    with pytest.raises(OpsError, match="--confirm: 'prod'; nothing was done") as refused:
        teardown._confirm(target(protected=True), yes=True, word="prod")
    assert (refused.value.expected, refused.value.fix) == ("the environment's name", "--confirm demo")
