"""What is said of EKS's support of a Kubernetes version: on which day, by the dates on file and by EKS itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.service_limits import platform as known
from hyperpod_ray.core.today import VARIABLE
from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.orchestrators.check import Check
from hyperpod_ray.ops.reach.clients import Target
from tests.core.account.good import NEW
from tests.ops.ops_preflight_support_helpers import asked
from tests.ops.world import environment_text

PRICE = "the control plane then costs 0.60 $ an hour in place of 0.10"


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make it that day."""
    return lambda day: monkeypatch.setenv(VARIABLE, day)


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
