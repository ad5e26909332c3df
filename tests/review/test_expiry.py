"""What lifecycle rules of buckets and of repositories delete or archive, and whether others delete more."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.review import expiry
from tests.review.small import Json


def rule(**more: Any) -> Json:
    return {"Status": "Enabled", **more}


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html
RULES: dict[str, tuple[list[Json], list[Json], bool | None]] = {
    "sooner": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=29)], True),
    "later": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=31)], False),
    "the same": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=30)], None),
    "figures as texts": ([rule(ExpirationInDays="30")], [rule(ExpirationInDays="29")], True),
    "figures as texts, later": ([rule(ExpirationInDays="29")], [rule(ExpirationInDays="30")], False),
    "not yet enabled": ([], [rule(ExpirationInDays=30) | {"Status": "Disabled"}], None),
    "none any more": ([rule(ExpirationInDays=30)], [], False),
    "objects in place of old versions": ([rule(NoncurrentVersionExpirationInDays=3)], [rule(ExpirationInDays=3)], True),
    "disabled": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=30) | {"Status": "Disabled"}], False),
    "of a folder more": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3), rule(ExpirationInDays=3, Prefix="a/")], None),
    "of a folder sooner": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3), rule(ExpirationInDays=1, Prefix="a/")], True),
    "of a folder alone": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3, Prefix="a/")], False),
    "of another folder": ([rule(ExpirationInDays=3, Prefix="a/")], [rule(ExpirationInDays=3, Prefix="b/")], True),
    "of a tag alone": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3, TagFilters=[{"Key": "k", "Value": "v"}])], False),
    "of every tag": ([rule(ExpirationInDays=3, TagFilters=[{"Key": "k", "Value": "v"}])], [rule(ExpirationInDays=3)], True),
    "of small ones too": ([rule(ExpirationInDays=3, ObjectSizeGreaterThan=9)], [rule(ExpirationInDays=3)], True),
    "of other sizes": (
        [rule(ExpirationInDays=3, ObjectSizeLessThan=9)], [rule(ExpirationInDays=3, ObjectSizeLessThan=99)], True,
    ),
    "old versions": ([], [rule(NoncurrentVersionExpirationInDays=30)], True),
    "old versions, fewer days": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 30})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "old versions, kept no more": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 5})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "old versions, kept more": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 2})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 5})], False,
    ),
    "old versions, one kept less": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 1})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "at another day": ([rule(ExpirationDate="2027-01-01T00:00:00Z")], [rule(ExpirationDate="2026-12-01T00:00:00Z")], True),
    "at a day": ([], [rule(ExpirationDate="2026-12-01T00:00:00Z")], True),
    "parts of uploads": ([], [rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1})], None),
    "a cheaper class": ([], [rule(Transitions=[{"StorageClass": "STANDARD_IA", "TransitionInDays": 30}])], None),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_what_rules_of_a_bucket_delete(name: str) -> None:
    before, after, more = RULES[name]
    assert expiry.more_objects(before, after) is more


@pytest.mark.parametrize(
    ("transition", "more"),
    [
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html (archived objects)
        ({"StorageClass": "GLACIER", "TransitionInDays": 30}, True),
        ({"StorageClass": "DEEP_ARCHIVE", "TransitionInDays": 30}, True),
        ({"StorageClass": "Glacier", "TransitionDate": "2026-12-01T00:00:00Z"}, True),
        ({"StorageClass": "GLACIER_IR", "TransitionInDays": 30}, None),
        ({"StorageClass": "INTELLIGENT_TIERING", "TransitionInDays": 0}, None),
    ],
    ids=str,
)
def test_what_nobody_reads_before_it_is_restored(transition: Json, more: bool | None) -> None:
    for form in ({"Transitions": [transition]}, {"Transition": transition}):
        assert expiry.more_archived([], [rule(**form)]) is more
        assert expiry.more_archived([rule(**form)], []) is (None if more is None else False)


def test_an_archive_at_another_day_is_another_one() -> None:
    earlier, later = (
        [rule(Transitions=[{"StorageClass": "GLACIER", "TransitionDate": f"{year}-01-01T00:00:00Z"}])]
        for year in (2027, 2028)
    )
    assert expiry.more_archived(later, earlier) is True
    assert expiry.more_archived(later, later) is None


def images(*selections: Json) -> str:
    listed = [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}} for selection in selections]
    return json.dumps({"rules": listed})


COUNT = {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 30}
AGE = {"tagStatus": "tagged", "tagPrefixList": ["run"], "countType": "sinceImagePushed", "countNumber": 14}


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html
        (images(COUNT), images(COUNT | {"countNumber": 29}), True),
        (images(COUNT), images(COUNT | {"countNumber": 31}), False),
        (images(COUNT), images(COUNT, AGE), True),
        (images(AGE), images(AGE | {"tagPrefixList": ["run", "dev"]}), False),
        (images(AGE), images(COUNT | {"countType": "sinceImagePushed", "countNumber": 14}), True),
        # an image that is named by digest stays in use when its tag moves
        (None, images(COUNT | {"tagStatus": "untagged"}), True),
        (images(COUNT), images(COUNT, COUNT | {"tagStatus": "untagged"}), None),
        (images(COUNT | {"tagStatus": "untagged"}), images(COUNT), True),
        (images(COUNT | {"tagStatus": "untagged"}), images(COUNT | {"tagStatus": "tagged"}), True),
        (images(COUNT), "no JSON", False),
        (None, None, None),
    ],
)
def test_what_rules_of_a_repository_delete(before: Any, after: Any, more: bool | None) -> None:
    assert expiry.more_images(before, after) is more
