"""What a teardown finds of an account, what it leaves, and with which exit code it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import cdk, inventory, teardown
from hyperpod_ray.ops.change.inventory import Inventory, Item
from hyperpod_ray.ops.errors import ERROR, OK, OpsError
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.observe.snapshot import FileSystem, Stack
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text

Json = dict[str, Any]
OWNED = [{"Key": "aws:cloudformation:stack-name", "Value": "demo-Network"}]


class Aws:
    """Answers by operation; an error is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.called: list[tuple[str, Json]] = []

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> Any:
        return self.call(service, operation, **arguments)

    def call(self, service: str, operation: str, **arguments: Any) -> Any:
        self.called.append((operation, arguments))
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer


def of(text: str = "", **answers: Any) -> Target:
    target = Target(parse(text or environment_text(), name="demo", path=Path("demo.yaml")))
    target.aws = Aws(**answers)  # type: ignore[assignment]
    return target


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Operation")


def test_what_guardduty_made_blocks_the_vpc() -> None:
    """https://docs.aws.amazon.com/guardduty/latest/ug/runtime-monitoring-agent-resource-clean-up.html"""
    endpoints = [
        {"VpcEndpointId": "vpce-1", "ServiceName": "com.amazonaws.us-west-2.guardduty-data"},
        {"VpcEndpointId": "vpce-2", "ServiceName": "com.amazonaws.us-west-2.guardduty-data", "Tags": OWNED},
        {"VpcEndpointId": "vpce-3", "ServiceName": "com.amazonaws.us-west-2.s3"},
    ]
    groups = [
        {"GroupId": "sg-1", "GroupName": "GuardDutyManagedSecurityGroup-vpc-1"},
        {"GroupId": "sg-2", "GroupName": "GuardDutyManagedSecurityGroup-vpc-1", "Tags": OWNED},
        {"GroupId": "sg-3", "GroupName": "default"},
    ]
    target = of(describe_vpc_endpoints=endpoints, describe_security_groups=groups)
    found = inventory._of_guardduty(target, [])
    assert [(item.kind, item.id, item.fate) for item in found] == [
        ("VPC endpoint", "vpce-1", "blocks"),
        ("security group", "sg-1", "blocks"),
    ]
    assert "aws ec2 delete-vpc-endpoints --vpc-endpoint-ids vpce-1" in found[0].note
    assert "aws ec2 delete-security-group --group-id sg-1" in found[1].note


INTERFACES = [
    {"NetworkInterfaceId": "eni-1", "Status": "available", "Description": "left"},
    {"NetworkInterfaceId": "eni-2", "Status": "in-use", "Description": "Created for FSx filesystem fs-1"},
    {"NetworkInterfaceId": "eni-3", "Status": "in-use", "Description": "a node"},
    {"NetworkInterfaceId": "eni-4", "Status": "available"},
]


def test_interfaces_that_nobody_uses_block_the_vpc() -> None:
    found = inventory._nobodys(INTERFACES, (), kept={"eni-2"})
    assert [(item.id, item.note, item.fate) for item in found] == [
        ("eni-1", "left", "blocks"),
        ("eni-4", "nobody's", "blocks"),
    ]
    assert [nobody.id for nobody in inventory._nobodys(INTERFACES, (), kept=set())] == ["eni-1", "eni-2", "eni-4"]
    with_nodes = (Stack(name="demo-HyperPod", status="UPDATE_COMPLETE"),)
    assert inventory._nobodys(INTERFACES, with_nodes, kept=set()) == [], "they go with the nodes"
    gone = (Stack(name="demo-HyperPod"),)
    assert len(inventory._nobodys(INTERFACES, gone, kept=set())) == 3


@pytest.mark.parametrize(
    ("image", "fate"),
    [
        ("", "destroyed"),
        ("image: {on_destroy: retain}\n", "kept"),
        ("image: {repository_exists: true, repository_name: ours}\n", "kept"),
    ],
)
def test_images_go_or_stay_as_the_file_says(image: str, fate: str) -> None:
    text = "\n".join(line for line in environment_text().splitlines() if not line.startswith("image:")) + f"\n{image}"
    if not image:
        text += "image: {on_destroy: delete}\n"
    (item,) = inventory._images(of(text, list_images=[{}, {}, {}]), ())
    assert (item.kind, item.fate, item.note) == ("repository", fate, "3 images")
    assert inventory._images(of(text, list_images=refusal("RepositoryNotFoundException")), ()) == []
    with pytest.raises(ClientError):
        inventory._images(of(text, list_images=refusal("AccessDeniedException")), ())


# --- the end of it ---------------------------------------------------------------------------------------------------


def holdings(*items: Item, unseen: tuple[str, ...] = ()) -> Inventory:
    return Inventory(
        stacks=(), ray_clusters=(), jobs=(), claims=(), file_systems=(), items=items, unseen=unseen, kubernetes=False
    )


KEPT = Item(kind="file system", id="fs-1", fate="kept", note="retain")
LEFT = Item(kind="stack", id="demo-Eks", fate="destroyed", note="DELETE_FAILED")


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (holdings(), "'demo' is down; nothing is left"),
        (holdings(KEPT), "'demo' is down; nothing is left but what is kept"),
        (holdings(unseen=("no rights",)), "'demo' is down; nothing that could be seen is left"),
        (holdings(KEPT, unseen=("no rights",)), "nothing that could be seen is left but what is kept"),
    ],
)
def test_what_is_said_when_it_is_down(
    after: Inventory, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inventory, "take", lambda target: after)
    monkeypatch.setattr(inventory, "delete_logs", lambda target, holdings, **_: [])
    assert teardown._look_again(of(), form=Format.table, delete_logs=False) == OK
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == says or said[-1].endswith(says)
    assert any(line == "kept: file system fs-1 (retain)" for line in said) is bool(after.items)
    assert any(line == "could not be looked at: no rights" for line in said) is bool(after.unseen)


def test_what_is_left_over_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "take", lambda target: holdings(KEPT, LEFT))
    monkeypatch.setattr(inventory, "delete_logs", lambda target, holdings, **_: [])
    with pytest.raises(OpsError, match="left over: stack demo-Eks") as error:
        teardown._look_again(of(), form=Format.table, delete_logs=False)
    assert error.value.code == ERROR
    assert "fs-1" not in error.value.message
    assert error.value.fix == "hyperpod-ray teardown demo"


def test_logs_go_last_and_only_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def deleted(target: Target, holdings: Inventory, *, item_kind: str = "log group") -> list[str]:
        return ["late"] if item_kind == inventory.LATE_LOGS else ["asked"]

    monkeypatch.setattr(inventory, "take", lambda target: holdings())
    monkeypatch.setattr(inventory, "delete_logs", deleted)
    for asked in (False, True):
        teardown._look_again(of(), form=Format.table, delete_logs=asked)
        said = capsys.readouterr().err
        assert "deleted what a service logged after its stack went: late" in said
        assert ("deleted log group asked" in said) is asked


@pytest.mark.parametrize(
    ("seen", "dry_run", "delete_logs", "taken_down"),
    [
        (holdings(LEFT), False, False, True),
        (holdings(LEFT), True, False, False),
        (holdings(), False, True, False),
        (holdings(KEPT), False, False, False),
        (holdings(KEPT), False, True, True),
    ],
    ids=["there", "a look", "nothing", "kept alone", "its logs"],
)
def test_when_anything_is_taken_down(
    seen: Inventory, dry_run: bool, delete_logs: bool, taken_down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def taking_down(target: Target, held: Inventory, **_: Any) -> int:
        done.append("down")
        return 7

    monkeypatch.setattr(inventory, "take", lambda target: seen)
    monkeypatch.setattr(teardown, "_confirm", lambda target, **_: done.append("asked"))
    monkeypatch.setattr(teardown, "_take_down", taking_down)
    target = of()
    ended = teardown.run(target, form=Format.table, yes=True, word="", dry_run=dry_run, delete_logs=delete_logs)
    assert (ended, done) == ((7, ["asked", "down"]) if taken_down else (OK, []))


def test_waiting_ends_when_nothing_is_left_or_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    listed = iter([["b", "a"], ["a", "b"], ["a"], []])
    assert teardown._until_none(lambda: next(listed), subject="pods", seconds=100, poll=10, usual="1 min") == []
    assert capsys.readouterr().err.splitlines() == [
        "waiting for pods: a, b (usually 1 min)",
        "waiting for pods: a",
        "pods: gone",
    ]
    assert now[0] == 30
    assert teardown._until_none(lambda: ["x"], subject="pods", seconds=25, poll=10) == ["x"]
    assert now[0] == 60


@pytest.mark.parametrize(
    ("code", "raises"), [("FileSystemNotFound", False), ("BadRequest", False), ("AccessDenied", True)]
)
def test_a_file_system_that_goes_already_is_no_fault(code: str, raises: bool) -> None:
    target = of(delete_file_system=refusal(code))
    if raises:
        with pytest.raises(ClientError):
            teardown._delete_file_system(target, "fs-1")
    else:
        teardown._delete_file_system(target, "fs-1")
    assert target.aws.called == [("delete_file_system", {"FileSystemId": "fs-1"})]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("ended", "app"), [(0, ""), (0, "cdk.out"), (9, "")])
def test_cdk_destroys_every_stack_of_the_environment(
    ended: int, app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "cdk"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/arguments"\necho gone\nexit {ended}\n')
    program.chmod(0o755)
    monkeypatch.setattr(cdk, "folder", lambda folder: tmp_path)
    monkeypatch.setattr(cdk, "program", lambda top: program)
    there = (Stack(name="demo-Eks", status="DELETE_FAILED"), Stack(name="demo-Ray"))
    monkeypatch.setattr(account, "stacks", lambda target, **_: there)
    if ended:
        with pytest.raises(OpsError, match="cdk destroy ended with exit code 9; left: demo-Eks DELETE_FAILED") as error:
            teardown._destroy(of(), app=app)
        assert error.value.code == ERROR
    else:
        teardown._destroy(of(), app=app)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:3] == ["destroy", "demo/*", "--force"]
    assert ("env=demo" in arguments) is not bool(app)
    assert any(word.endswith("/cdk.out") for word in arguments) is bool(app)
    assert "  gone" in capsys.readouterr().err
    (tmp_path / "arguments").unlink()
    monkeypatch.setattr(account, "stacks", lambda target, **_: (Stack(name="demo-Ray"),))
    teardown._destroy(of(), app=app)
    assert not (tmp_path / "arguments").exists(), "with no stack there is nothing to run"


def test_which_file_systems_are_kept() -> None:
    item = inventory._file_system_item
    seen = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=2400)
    made = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=2400, made_by_claim=True)
    plan = SimpleNamespace(
        existing_file_system=None, existing_homes=None, new_file_system=SimpleNamespace(on_destroy="delete")
    )
    target: Any = SimpleNamespace(plan=plan)
    assert (item(target, seen).fate, item(target, seen).note) == ("destroyed", "2400 GiB, AVAILABLE; the data is lost")
    assert item(target, made).fate == "blocks"
    plan.new_file_system.on_destroy = "retain"
    assert (item(target, seen).fate, item(target, made).fate) == ("kept", "kept")
    plan.existing_file_system = SimpleNamespace(file_system_id="fs-1")
    assert (item(target, seen).fate, item(target, seen).note) == ("kept", "yours: not created by this environment")
