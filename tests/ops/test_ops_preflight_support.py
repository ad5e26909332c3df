"""What is said of EKS's support of a Kubernetes version: on which day, by the dates on file and by EKS itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.checks.eks import support_of
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.service_limits import platform as known
from hyperpod_ray.core.today import VARIABLE
from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.orchestrators.check import Check
from hyperpod_ray.ops.reach.clients import Target
from tests.core.account.good import EXISTING, NEW, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan
from tests.ops.world import environment_text

PRICE = "the control plane then costs 0.60 $ an hour in place of 0.10"
RULE = {rule.title: rule for rule in account_rules()}


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make it that day."""
    return lambda day: monkeypatch.setenv(VARIABLE, day)


def asked(title: str, file: dict[str, Any], edits: dict[str, Any]) -> list[Finding]:
    return list(RULE[title](plan(file), Evidence(account=RecordedAccount(account(edits)))))


@pytest.mark.parametrize(
    ("version", "day", "severity", "words"),
    [
        ("1.33", "2026-05-29", "fine", "1.33 is in standard support until 2026-07-29"),
        ("1.33", "2026-05-30", "warning", "standard support of 1.33 ends in 60 days, on 2026-07-29; "
         "extended support costs more. Expected a version in standard support for more than 60 days. "
         "Fix: raise it to 1.35"),
        ("1.33", "2026-07-28", "warning", "ends in 1 day"),
        ("1.35", "2027-03-01", "warning", "ends in 26 days, on 2027-03-27; extended support costs more. "
         "Expected a version in standard support for more than 60 days. Fix: wait for a newer version"),
        ("1.33", "2026-07-29", "warning", "1.33 is in extended support since 2026-07-29 until 2027-07-29"),
        ("1.34", "2026-12-02", "warning", "1.34 is in extended support since 2026-12-02"),
        ("1.33", "2027-07-29", "warning", "EKS ended its support of 1.33 on 2027-07-29"),
    ],
)  # fmt: skip
def test_what_is_said_on_which_day(version: str, day: str, severity: str, words: str, on: Any) -> None:
    on(day)
    (found,) = support_of(version, whose="raise it", fine_too=True)
    assert (found.severity, words in found.message) == (severity, True), found.message


def priced(folder: Path | None = None) -> str:
    target = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")), folder=folder)
    return preflight._priced(target, Check(check="x", result="warning", what="extended support costs more.")).what


def test_preflight_puts_the_price_there(tmp_path: Path) -> None:
    assert priced() == f"{PRICE}."
    (tmp_path / "prices_usd.yaml").write_text(
        "fixed: {us-west-2: {eks_extended_support: {usd: 0.25, as_of: 2026-11-01, source: contract}}}"
    )
    assert "0.35 $ an hour in place of 0.10" in priced(tmp_path)
    (tmp_path / "prices_usd.yaml").write_text("- broken")
    assert priced(tmp_path) == "extended support costs more."


def test_an_existing_cluster_is_judged_by_its_own_version(on: Any) -> None:
    on("2026-11-21")
    file = {**EXISTING, "eks/version": "1.33"}
    found = asked("EKS cluster", file, {"eks > shared > version": "1.32"})
    assert any("1.32 is in extended support" in one.message and "update the cluster" in one.message for one in found)


@pytest.mark.parametrize(
    ("written", "actual", "severity"),
    [
        ("1.34", "1.34", "fine"),
        ("1.35", "1.34", "warning"),
        ("1.34", "1.33", "error"),
        ("1.33", "1.34", "warning"),
        ("1.31", "1.33", "error"),
    ],
)
def test_the_kubectl_of_the_file_fits_the_cluster_that_is_there(
    written: str, actual: str, severity: str, on: Any
) -> None:
    on("2026-11-21")
    found = asked("EKS cluster", {**EXISTING, "eks/version": written}, {"eks > shared > version": actual})
    said = [one for one in found if "support" not in one.message]
    assert severity in {one.severity for one in said}
    if severity != "fine":
        assert f'set eks.version: "{actual}"' in {one.fix for one in said}


def offered(status: str, ends: datetime, version: str = "1.35") -> dict[str, Any]:
    return {"versions": {version: {"versionStatus": status, "endOfStandardSupportDate": ends}}}


def test_what_eks_itself_says(on: Any) -> None:
    on("2026-11-21")
    ends = datetime.combine(known().eks_support["1.35"].standard, datetime.min.time(), tzinfo=UTC)
    (found,) = asked("EKS version", NEW, offered("EXTENDED_SUPPORT", ends))
    assert (found.severity, found.what) == (
        "warning",
        "EKS lists 1.35 in extended support; extended support costs more",
    )


def test_a_date_that_eks_moved_is_said(on: Any) -> None:
    on("2026-11-21")
    fine, moved = asked("EKS version", NEW, offered("STANDARD_SUPPORT", datetime(2027, 5, 15, tzinfo=UTC)))
    assert (fine.severity, fine.message) == ("fine", "1.35, standard support")
    assert moved.severity == "warning"
    assert "ends on 2027-05-15" in moved.message
    assert f"says {known().eks_support['1.35'].standard}" in moved.message


# --- buckets behind the file system ----------------------------------------------------------------------------------


def links(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"storage/data_repositories": list(entries)}


def test_linked_buckets_are_near() -> None:
    near, far = {"bucket": "near", "path": "/a"}, {"bucket": "far", "path": "/b"}
    there = {"buckets": {"near": "us-west-2", "far": "eu-west-1"}}
    assert asked("buckets", NEW, {})[0].severity == "skipped"
    found = asked("buckets", links(near, far), there)
    assert {(one.severity, one.message.partition(" ")[0]) for one in found} == {("fine", "near"), ("error", "far")}
    assert any("imports automatically from" in one.message for one in found)
    exported = {**far, "auto_import": []}
    assert [one.severity for one in asked("buckets", links(exported), there)] == ["fine"]


def test_a_finding_keeps_its_parts_in_its_row() -> None:
    finding = Finding(path=("region",), what="x: 1", severity="error", expected="2", fix="write 2")
    row = preflight._outcome(finding).named("rule")
    assert row == Check(check="rule", result="failed", what="x: 1", expected="2", fix="write 2")
