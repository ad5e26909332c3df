from __future__ import annotations

from dataclasses import replace

from hyperpod_ray.ops.verdict.finding import Finding, fault_of
from hyperpod_ray.ops.verdict.finding import folded as folded_findings
from tests.ops.snapshots import (
    HEAD,
    SPARE_HEAD,
    THREE,
    healthy,
    with_node,
)


def test_the_fault_of_a_node_is_its_own() -> None:
    snapshot = with_node(with_node(healthy(), HEAD, fault="Xid 31"), THREE, fault="Xid 79")
    assert (fault_of(snapshot, THREE), fault_of(snapshot, SPARE_HEAD)) == ("Xid 79", "")


def test_findings_of_two_kinds_are_not_one() -> None:
    """The same words of another group, or of another kind, are another finding."""
    findings = [
        Finding(kind=kind, what=f"node i-{number} of group '{group}' is faulty", subject=f"i-{number}")
        for kind in ("note", "recovering") for group in ("a1", "a2") for number in range(7)
    ]  # fmt: skip
    assert [finding.what[:4] for finding in folded_findings(findings)] == ["7 ×,"] * 4
    assert folded_findings(findings[:5]) == tuple(findings[:5])
    unnamed = [replace(finding, subject="") for finding in findings]
    assert len(folded_findings(unnamed)) == len(unnamed)
