from __future__ import annotations

import json

import pytest

from hyperpod_ray.review.security import iam
from hyperpod_ray.review.security.iam import Grant

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
