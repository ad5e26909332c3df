"""When one statement of a policy allows what another one does, and what a change of statements is."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review import assembly, renames, training
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.security import iam
from hyperpod_ray.review.security.iam import Grant
from tests.review.small import resources, write

LIKE, EQUAL = "ArnLike", "StringEquals"


def when(operator: str, key: str, *values: str) -> str:
    return json.dumps({operator: {key: list(values) if len(values) > 1 else values[0]}}, sort_keys=True)


def grant(
    action: str = "s3:GetObject", *, effect: str = "Allow", resource: str = "arn:a", condition: str = ""
) -> Grant:
    return Grant(effect, "", action, resource, condition)


@pytest.mark.parametrize(
    ("other", "condition", "wider"),
    [
        ("", when(EQUAL, "a", "x"), True),
        (when(EQUAL, "a", "x"), when(EQUAL, "a", "x"), True),
        (when(EQUAL, "a", "x"), "", False),
        (when(EQUAL, "a", "x"), when(EQUAL, "a", "y"), False),
        (when(EQUAL, "a", "x"), when(EQUAL, "b", "x"), False),
        (when(LIKE, "a", "arn:*"), when(LIKE, "a", "arn:aws:x"), True),
        (when(LIKE, "a", "arn:*"), when(LIKE, "a", "arn:aws:x", "arn:aws:y"), True),
        (when(LIKE, "a", "arn:*"), when(LIKE, "a", "arn:aws:x", "other"), False),
        (when(LIKE, "a", "arn:aws:x"), when(LIKE, "a", "arn:*"), False),
        (when(EQUAL, "a", "arn:*"), when(EQUAL, "a", "arn:aws:x"), False),
        (when(LIKE, "a", "arn:*"), when(EQUAL, "a", "arn:aws:x"), False),
        ("not json", when(EQUAL, "a", "x"), False),
        ("[]", when(EQUAL, "a", "x"), False),
    ],
)
def test_a_condition_that_holds_wherever_another_does(other: str, condition: str, wider: bool) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html"""
    assert iam._wider(other, condition) is wider


WRITE = grant("s3:PutObject")
ALL = grant("s3:*", resource="*")
DENIED = grant("s3:*", effect="Deny", condition=when("Bool", "aws:SecureTransport", "false"))


@pytest.mark.parametrize(
    ("before", "after", "directions"),
    [
        ({grant()}, {grant(), WRITE}, ["broadened"]),
        ({grant(), WRITE}, {grant()}, ["narrowed"]),
        ({grant()}, {grant()}, []),
        ({ALL}, {ALL, WRITE}, []),
        ({ALL}, {WRITE}, ["narrowed"]),
        ({WRITE}, {ALL}, ["broadened"]),
        ({grant(), DENIED}, {grant()}, ["broadened"]),
        ({grant()}, {grant(), DENIED}, ["narrowed"]),
        ({WRITE}, {grant()}, ["broadened", "narrowed"]),
    ],
)
def test_what_a_change_of_statements_is(before: set[Grant], after: set[Grant], directions: list[str]) -> None:
    found = iam._differences("role", before, after, fresh=False)
    assert sorted(remark.direction for remark in found) == directions


def test_a_new_policy_is_new_and_one_for_everything_is_broad() -> None:
    found = {
        (remark.direction, remark.detail) for remark in iam._differences("r", set(), {WRITE, ALL, DENIED}, fresh=True)
    }
    assert {direction for direction, detail in found if detail.startswith("allows s3:PutObject")} == {"new"}
    assert {direction for direction, detail in found if detail.startswith("allows s3:* on *")} == {"broadened"}
    assert {direction for direction, detail in found if detail.startswith("denies")} == {"new"}
    assert len(found) == 3


def read(folder: Path, **listed: dict[str, Any]) -> assembly.EnvironmentAssembly:
    return assembly.read(write(folder, {"A": resources(**listed)}))["env"]


@pytest.mark.parametrize(("efa", "seen"), [(True, True), (False, False), (None, False)])
def test_the_file_system_that_a_forecast_is_of(efa: bool | None, seen: bool, tmp_path: Path) -> None:
    lustre = {"PerUnitStorageThroughput": 500, **({} if efa is None else {"EfaEnabled": efa})}
    disk = {"Type": "AWS::FSx::FileSystem", "Properties": {"StorageCapacity": 2400, "LustreConfiguration": lustre}}
    found = training._file_system(read(tmp_path, Disk=disk))
    assert found is not None
    assert (found.capacity_gib, found.throughput_mbs_per_tib, found.efa) == (2400, 500, seen)


def test_a_renamed_environment_is_refused_where_names_are_taken(tmp_path: Path) -> None:
    base = read(tmp_path, Topic={"Type": "AWS::SNS::Topic"})
    taken: Any = {("111122223333", "AWS::EKS::Cluster", "ray-eks")}
    refused = renames._renamed("prod", "live", taken, base, date(2026, 11, 21))
    assert refused.effect is Effect.REJECTED
    assert "The new one is refused: Cluster 'ray-eks' exist." in refused.consequence
    assert refused.source
    free = renames._renamed("prod", "live", set(), base, date(2026, 11, 21))
    assert free.effect is Effect.INTERRUPTS
    assert "refused" not in free.consequence
    assert not free.source
    assert "The 1 stacks of prod stay deployed" in free.consequence
