"""`preflight`'s rows on EKS's support of a Kubernetes version: on which day what is said, offline and by EKS itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError

from core.loader import parse
from core.model import DataRepository, ExistingEks, ExistingEksCluster, RayAccess, S3Access, TieredStorage
from core.plan import Plan
from core.service_limits import platform as known
from ops import output
from ops.clients import Target
from ops.preflight import platform
from tests.ops.world import environment_text

REGION = "us-west-2"
PRICE = "the control plane costs 0.60 $ an hour in place of 0.10"


class Answers:
    """EKS, with one answer for each operation, in the form that boto3 gives it."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = answers

    def call(self, service: str, operation: str, **_: object) -> dict[str, Any]:
        assert service == "eks"
        return self.answers[operation]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make it that day, an hour after it began in UTC."""

    def set_day(day: str) -> None:
        moment = datetime.fromisoformat(day).replace(hour=1, tzinfo=UTC)
        monkeypatch.setattr(output, "now", lambda: moment)

    return set_day


def target(version: str, **answers: dict[str, Any]) -> Target:
    text = f'{environment_text()}\neks: {{version: "{version}"}}\n'
    made = Target(parse(text, name="demo", path=Path("demo.yaml")))
    made.aws = Answers(**answers)  # type: ignore[assignment]
    return made


def existing(version: str, *, written: str | None = None) -> Target:
    """An existing cluster of a version; the file says `written`, by default the same."""
    made = target("1.34", describe_cluster={"cluster": {"status": "ACTIVE", "version": version}})
    eks = ExistingEks(version=written or version, existing=ExistingEksCluster.model_construct(cluster_name="theirs"))
    made.plan = Plan(name="demo", settings=made.plan.settings.model_copy(update={"eks": eks}))
    return made


@pytest.mark.parametrize(
    ("version", "day", "said"),
    [
        ("1.33", "2026-05-29", ("ok", f"1.33 is in standard support until 2026-07-29; {PRICE} from then on", "")),
        ("1.33", "2026-05-30", (
            "warning", f"standard support of 1.33 ends in 60 days, on 2026-07-29; then {PRICE}",
            "raise eks.version to 1.35, one minor version at a time",
        )),
        ("1.33", "2026-07-28", (
            "warning", f"standard support of 1.33 ends in 1 day, on 2026-07-29; then {PRICE}",
            "raise eks.version to 1.35, one minor version at a time",
        )),
        ("1.35", "2027-03-01", (
            "warning", f"standard support of 1.35 ends in 26 days, on 2027-03-27; then {PRICE}",
            "HyperPod supports no version in standard support: raise eks.version when it does",
        )),
        ("1.33", "2026-07-29", (
            "warning", f"1.33 has been in extended support since 2026-07-29: {PRICE}, until 2027-07-29",
            "raise eks.version to 1.35, one minor version at a time",
        )),
        ("1.34", "2026-12-02", (
            "warning", f"1.34 has been in extended support since 2026-12-02: {PRICE}, until 2027-12-02",
            "raise eks.version to 1.35, one minor version at a time",
        )),
        ("1.33", "2027-07-29", (
            "failed", "EKS ended its support of 1.33 on 2027-07-29: it makes no new cluster of it, and may update one "
            "that exists at any time",
            "raise eks.version, one minor version at a time",
        )),
    ],
)  # fmt: skip
def test_what_is_said_on_which_day(version: str, day: str, said: tuple[str, str, str], on: Any) -> None:
    on(day)
    (found,) = platform.eks_support(target(version))
    assert (found.result, found.why, found.do) == said


def test_prices_beside_the_environment_are_those_that_are_said(tmp_path: Path, on: Any) -> None:
    on("2026-11-21")
    (tmp_path / "prices_usd.yaml").write_text(
        "fixed: {us-west-2: {eks_extended_support: {usd: 0.25, read: 2026-11-01, source: contract}}}"
    )
    asked = target("1.33")
    asked.folder = tmp_path
    assert "0.35 $ an hour in place of 0.10" in platform.eks_support(asked)[0].why
    (tmp_path / "prices_usd.yaml").write_text("- broken")
    assert "the control plane costs more, until" in platform.eks_support(asked)[0].why


def test_an_existing_cluster_is_judged_by_its_own_version(on: Any) -> None:
    on("2026-11-21")
    asked = existing("1.32")
    assert [one.result for one in platform.eks_support(asked)] == ["skipped"]
    fine, support = platform.eks_version(asked)
    assert fine.result == "ok"
    assert (support.result, support.do) == ("warning", "update it to 1.35, one minor version at a time")


@pytest.mark.parametrize(
    ("written", "actual", "said"),
    [
        ("1.34", "1.34", ("ok", "")),
        ("1.35", "1.34", ("warning", 'set eks.version: "1.34"')),
        ("1.34", "1.33", ("failed", 'set eks.version: "1.33"')),
        ("1.33", "1.34", ("warning", 'set eks.version: "1.34"')),
        ("1.31", "1.33", ("failed", 'set eks.version: "1.33"')),
    ],
)
def test_the_kubectl_of_the_file_fits_the_cluster_that_is_there(
    written: str, actual: str, said: tuple[str, str], on: Any
) -> None:
    on("2026-11-21")
    outcome, _ = platform.eks_version(existing(actual, written=written))
    assert (outcome.result, outcome.do) == said
    assert f"theirs is ACTIVE, version {actual}" in outcome.why


def version_answer(status: str, ends: datetime) -> dict[str, Any]:
    return {"clusterVersions": [{"versionStatus": status, "endOfStandardSupportDate": ends}]}


def test_what_eks_itself_says_goes_with_the_price_and_without_a_word_where_the_dates_agree(on: Any) -> None:
    on("2026-11-21")
    ends = datetime.fromisoformat("2026-07-28T17:00:00-07:00")  # midnight in UTC, as the guide shows it
    (found,) = platform.eks_version(target("1.33", describe_cluster_versions=version_answer("EXTENDED_SUPPORT", ends)))
    assert (found.result, found.why) == ("warning", f"1.33 is in extended support: {PRICE}")


def test_a_date_that_eks_moved_is_told(on: Any) -> None:
    on("2026-11-21")
    ends = datetime(2027, 1, 15, tzinfo=UTC)
    fine, told = platform.eks_version(
        target("1.34", describe_cluster_versions=version_answer("STANDARD_SUPPORT", ends))
    )
    assert (fine.result, fine.why) == ("ok", "1.34, standard support")
    assert told.result == "warning"
    assert "ends on 2027-01-15" in told.why
    assert f"says {known().eks_support['1.34'].standard}" in told.why


def with_access(made: Target) -> Target:
    access = RayAccess(s3=[S3Access(bucket="data")])
    ray = made.plan.settings.ray.model_copy(update={"access": access})
    made.plan = Plan(name="demo", settings=made.plan.settings.model_copy(update={"ray": ray}))
    return made


def test_an_existing_cluster_must_have_the_pod_identity_agent() -> None:
    class Absent(Exception):
        response: ClassVar = {"Error": {"Code": "ResourceNotFoundException"}}

    class Without(Answers):
        def call(self, service: str, operation: str, **arguments: object) -> dict[str, Any]:
            raise Absent

    made = with_access(existing("1.34"))
    made.aws = Without()  # type: ignore[assignment]
    (found,) = platform.pod_identity(made)
    assert found.result == "failed"
    assert "aws eks create-addon --cluster-name theirs --addon-name eks-pod-identity-agent" in found.do
    made.aws = Answers(describe_addon={"addon": {"status": "ACTIVE"}})  # type: ignore[assignment]
    assert platform.pod_identity(made)[0].result == "ok"


def test_a_new_cluster_gets_the_agent_and_nobody_else_needs_it() -> None:
    assert platform.pod_identity(with_access(target("1.34")))[0].result == "skipped"
    assert platform.pod_identity(existing("1.34"))[0].result == "skipped"


# --- buckets behind the file system ----------------------------------------------------------------------------------


class Buckets:
    """S3, with the region of each bucket."""

    def __init__(self, **regions: str) -> None:
        self.regions = regions

    def call(self, service: str, operation: str, *, Bucket: str) -> dict[str, Any]:
        assert (service, operation) == ("s3", "head_bucket")
        if Bucket not in self.regions:
            raise ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, "HeadBucket")
        return {"BucketRegion": self.regions[Bucket], "ResponseMetadata": {}}


def with_links(*links: DataRepository, **regions: str) -> Target:
    made = target("1.34")
    storage = made.plan.settings.storage.model_copy(update={"data_repositories": list(links)})
    made.plan = Plan(name="demo", settings=made.plan.settings.model_copy(update={"storage": storage}))
    made.aws = Buckets(**regions)  # type: ignore[assignment]
    return made


def test_linked_buckets_are_there_and_near() -> None:
    near, far = DataRepository(bucket="near", path="/a"), DataRepository(bucket="far", path="/b")
    assert platform.linked_buckets(with_links())[0].result == "skipped"
    found = platform.linked_buckets(with_links(near, far, near=REGION, far="eu-west-1"))
    assert {(one.result, one.why.partition(" ")[0]) for one in found} == {("ok", "near"), ("failed", "far")}
    assert any("imports automatically from" in one.why for one in found)
    exported = far.model_copy(update={"auto_import": []})
    assert [one.result for one in platform.linked_buckets(with_links(exported, far="eu-west-1"))] == ["ok"]
    (missing,) = platform.linked_buckets(with_links(near))
    assert missing.result == "failed"
    assert "aws s3 mb s3://near" in missing.do


class TierBuckets(Buckets):
    """S3 and CloudFormation, for the bucket of tiered checkpoints."""

    def __init__(self, *names: str, owner: str = "", rules: list[dict[str, Any]] | None = None) -> None:
        super().__init__(**dict.fromkeys(names, REGION))
        self.owner, self.rules = owner, rules

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        if operation == "describe_stack_resources":
            if arguments["StackName"] != self.owner:
                raise ClientError({"Error": {"Code": "ValidationError", "Message": "no stack"}}, "X")
            return {"StackResources": [{"PhysicalResourceId": name} for name in self.regions]}
        if operation == "get_bucket_lifecycle_configuration":
            if self.rules is None:
                raise ClientError({"Error": {"Code": "NoSuchLifecycleConfiguration", "Message": ""}}, "X")
            return {"Rules": self.rules}
        return super().call(service, operation, **arguments)


@pytest.mark.parametrize(
    ("bucket", "answers", "said"),
    [
        (None, {}, ("ok", "creates")),
        (None, {"there": True}, ("failed", "kept by an earlier")),
        (None, {"there": True, "owner": "demo-Ray"}, ("ok", "is there")),
        (None, {"there": True, "owner": "other-Ray"}, ("failed", "kept by an earlier")),
        ("mine", {}, ("failed", "does not exist")),
        ("mine", {"there": True}, ("warning", "nothing else prunes")),
        ("mine", {"there": True, "rules": [{"Status": "Disabled", "Expiration": {"Days": 1}}]}, ("warning", "prunes")),
        ("mine", {"there": True, "rules": [{"Status": "Enabled", "Expiration": {"Days": 1}}]}, ("ok", "mine")),
    ],
)
def test_the_tiers_bucket_is_free_or_prunes_itself(
    bucket: str | None, answers: dict[str, Any], said: tuple[str, str]
) -> None:
    made = target("1.34")
    tiered = TieredStorage(memory_percent=20, bucket=bucket)
    hyperpod = made.plan.settings.hyperpod.model_copy(update={"tiered_storage": tiered})
    made.plan = Plan(name="demo", settings=made.plan.settings.model_copy(update={"hyperpod": hyperpod}))
    more = {key: value for key, value in answers.items() if key != "there"}
    made.aws = TierBuckets(*[made.plan.tier_bucket_name or ""] * ("there" in answers), **more)  # type: ignore[assignment]
    (found,) = platform.tier_bucket(made)
    assert (found.result, said[1] in found.why) == (said[0], True), found
    if "kept" in found.why:
        assert found.do == f"set hyperpod.tiered_storage.bucket: {made.plan.tier_bucket_name}"
