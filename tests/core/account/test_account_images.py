"""Rules of `hyperpod_ray/core/checks/account/images.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.core.account.good import (
    ACCOUNT,
    EXISTING,
    KEY,
    NEW,
    REGION,
)
from tests.core.account.sabotage import (
    AMI,
    AMI_THERE,
    BY_ADDRESS,
    BY_ARTIFACT,
    COPY,
    LOGIN,
    OWN_AMI,
    PACKAGES,
    Json,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
    judged,
)

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("no repository of packages", {"packages": {f"{ACCOUNT}/ml/pypi": None}}, (("package index", "error", f"ml/pypi: no such repository in {REGION}"),), file=BY_ARTIFACT),
    Sabotage("no secret of the index", {"secrets": {}}, (("package index", "error", f"index-AbCdEf: no such secret in {REGION}"),), file=BY_ADDRESS),
    Sabotage("secret of the index goes away", {"secrets": {LOGIN: {"DeletedDate": datetime(2026, 11, 1, tzinfo=UTC)}}}, (("package index", "error", "scheduled for deletion"),), file=BY_ADDRESS),
    Sabotage("secret of the index with a key of its own", {"secrets": {LOGIN: {"KmsKeyId": KEY}}}, (("package index", "warning", "the build's role may not decrypt with it"),), file=BY_ADDRESS),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


@pytest.mark.parametrize(
    ("file", "edits", "severity", "said"),
    [
        (BY_ARTIFACT, {}, "fine", "ml/pypi"),
        (BY_ADDRESS, {"secrets": {LOGIN: {"Name": "index"}}}, "fine", "index-AbCdEf"),
        (NEW, {}, "skipped", "PyPI"),
        ({**NEW, "image": {"index": {"url": "https://pypi.example.com/simple"}}}, {}, "skipped", "cannot be asked"),
        (
            {**NEW, "image": {"index": {"codeartifact_arn": PACKAGES.replace(REGION, "eu-west-1")}}},
            {},
            "skipped",
            "eu-west-1",
        ),
        (EXISTING, {}, "skipped", "no image is built"),
    ],
)
def test_what_a_build_needs_is_asked_for_where_it_can_be(file: Json, edits: Json, severity: str, said: str) -> None:
    (found,) = judged(file, edits)["package index"]
    assert (found.severity, said in found.what) == (severity, True), found


def test_a_base_image_is_asked_for_by_its_digest() -> None:
    found = judged({**NEW, "image": {"base": COPY}}, {"images > team/ray": [f"sha256:{'b' * 64}"]})["image"]
    assert [one.severity for one in found] == ["fine", "fine"]


def test_an_ami_of_ones_own_that_fits() -> None:
    (fit,) = judged(OWN_AMI, {"amis": {AMI: AMI_THERE}})["AMIs"]
    assert (fit.severity, fit.message) == ("fine", f"{AMI} (ours) fits ml.p5.48xlarge")
