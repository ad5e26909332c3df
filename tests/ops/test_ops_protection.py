"""What protects stacks and the control plane is taken off by the commands that delete them, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.change import protection
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe import account as observed
from hyperpod_ray.ops.observe.snapshot import ControlPlane, Stack, Unseen
from hyperpod_ray.ops.reach import clients
from hyperpod_ray.ops.verdict import judge
from tests.ops.snapshots import healthy
from tests.support.service_models import values_of

EXAMPLES = FOLDER / "examples"
EKS = Stack(name="prod-Eks", status="CREATE_COMPLETE", protected=True)
NETWORK = replace(EKS, name="prod-Network")


class Account:
    """EKS and CloudFormation; an update takes as many looks as `statuses` has."""

    def __init__(self, *, status: str = "ACTIVE", protected: bool = True, statuses: Iterable[str] = ()) -> None:
        self.cluster = {"status": status, "deletionProtection": protected}
        self.statuses = list(statuses) or ["Successful"]
        self.calls: list[str] = []

    def call(self, service: str, operation: str, **request: Any) -> Any:
        self.calls.append(operation)
        if operation == "describe_cluster":
            if not self.cluster["status"]:
                raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "DescribeCluster")
            assert request == {"name": "ray-prod-eks"}
            return {"cluster": self.cluster}
        if operation == "update_cluster_config":
            assert request == {"name": "ray-prod-eks", "deletionProtection": False}
        elif operation == "update_termination_protection":
            return {}
        else:
            assert (service, operation) == ("eks", "describe_update")
            assert request == {"name": "ray-prod-eks", "updateId": "u-1"}
        errors = [{"errorMessage": "not now"}]
        return {"update": {"id": "u-1", "status": self.statuses.pop(0), "errors": errors}}


class Target(clients.Target):
    def __init__(self, account: Account, name: str = "prod") -> None:
        super().__init__(load(name))
        self.aws = account  # type: ignore[assignment]


def lifted(account: Account, *stacks: Stack) -> list[str]:
    protection.lift(Target(account), stacks, poll=0)
    return account.calls


def test_a_protected_control_plane_is_made_ready_to_be_deleted() -> None:
    calls = lifted(Account(statuses=["InProgress", "InProgress", "Successful"]), NETWORK, EKS)
    assert calls == [
        "update_termination_protection", "update_termination_protection", "describe_cluster", "update_cluster_config",
        "describe_update", "describe_update",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "account", [Account(protected=False), Account(status="CREATING"), Account(status="FAILED"), Account(status="")]
)
def test_one_that_eks_deletes_anyway_is_left_as_it_is(account: Account) -> None:
    """EKS deletes a cluster that is not active in spite of its protection."""
    assert lifted(account, EKS) == ["update_termination_protection", "describe_cluster"]


def test_only_the_stack_that_goes_is_concerned() -> None:
    assert lifted(Account(), NETWORK) == ["update_termination_protection"]
    assert lifted(Account(), replace(EKS, status="")) == []


def test_an_update_that_fails_stops_the_command() -> None:
    with pytest.raises(OpsError, match="did not take the deletion protection of ray-prod-eks off: Failed not now"):
        lifted(Account(statuses=["InProgress", "Failed"]), EKS)


@pytest.mark.parametrize("status", sorted(values_of("eks", "UpdateStatus") - {"InProgress", "Successful"}))
def test_an_update_that_ends_otherwise_than_well_stops_the_command(status: str) -> None:
    with pytest.raises(OpsError, match=f"off: {status}"):
        lifted(Account(statuses=["InProgress", status]), EKS)


def test_an_update_that_does_not_end_stops_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "UPDATE_SECONDS", 0.0)
    with pytest.raises(OpsError, match="off: InProgress"):
        lifted(Account(statuses=["InProgress"]), EKS)


# --- status -----------------------------------------------------------------------------------------------------------

OWN = ControlPlane(name="ray-prod-eks", version="1.35", version_of_file="1.35", protected=True, protected_by_file=True)


def noted(cluster: ControlPlane | None) -> str:
    verdict = judge(replace(healthy(), control_plane=cluster))
    assert verdict.state == "Healthy"
    return " ".join(f"{finding.what}: {finding.next}" for finding in verdict.findings)


def test_status_says_what_was_changed_beside_the_file() -> None:
    assert noted(OWN) == noted(None) == noted(replace(OWN, version="")) == noted(replace(OWN, version="1.34"))
    assert noted(replace(OWN, protected=False, protected_by_file=False)) == noted(None)
    off = noted(replace(OWN, protected=False))
    assert "'ray-prod-eks' has no deletion protection" in off
    assert "aws eks update-cluster-config --name ray-prod-eks --deletion-protection" in off
    newer = noted(replace(OWN, version="1.36"))
    assert "is 1.36, and the file says 1.35" in newer
    assert 'set eks.version: "1.36"' in newer


def test_an_eks_cluster_that_may_not_be_seen_is_not_absent() -> None:
    """`gather` notes what a source raises: status, page and cost then say what could not be asked."""

    class Refused(Account):
        def call(self, service: str, operation: str, **request: Any) -> Any:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster")

    with pytest.raises(ClientError, match="AccessDenied"):
        observed.control_plane(Target(Refused()))


def test_status_asks_eks_for_a_cluster_of_its_own_alone() -> None:
    account = Account()
    account.cluster |= {"name": "ray-prod-eks", "version": "1.36"}
    expected = replace(OWN, version="1.36", version_of_file=load("prod").settings.eks.version)
    assert observed.control_plane(Target(account)) == expected
    assert observed.control_plane(Target(Account(status=""))) is None
    existing = clients.Target(load("existing-cluster", folder=EXAMPLES))
    account = Account()
    existing.aws = account  # type: ignore[assignment]
    assert observed.control_plane(existing) is None
    assert account.calls == []


class Refusing(Account):
    """EKS that lets these credentials see no cluster."""

    def call(self, service: str, operation: str, **request: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster")


def test_a_cluster_that_may_not_be_seen_is_named_in_status() -> None:
    unseen: list[Unseen] = []
    assert observed.control_plane_part(Target(Refusing()), unseen) == {"control_plane": None}
    (missing,) = unseen
    assert (missing.source, missing.refused) == ("EKS", True)
    verdict = judge(replace(healthy(), unseen=tuple(unseen)))
    assert [finding.what for finding in verdict.findings] == ["EKS: not yours to see"]
    assert "DescribeCluster" in str(verdict.findings[0].why)
