"""README's table of the peers' features: each verdict is a word of three, and each yes has a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PART = (PROJECT / "README.md").read_text("utf-8").partition("### Features of the peers, here")[2].partition("\n## ")[0]
LINES = [line for line in PART.splitlines() if line.startswith("| ")][1:]
ROWS = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in LINES]
TEST = re.compile(r"\((tests/[\w/]+\.py)(?:#(test_\w+))?\)")


def test_there_is_a_row_for_what_a_user_of_a_peer_asks_first() -> None:
    features = " ".join(row[0] for row in ROWS)
    asked = (
        "RayService", "Trainium", "notebooks", "Slurm", "OpenZFS", "recipes", "EFA", "MIG", "stragglers", "idle",
        "DeepSpeed", "Mountpoint", "time limit of a job", "close together", "LDAP", "spot", "training plans",
        "restricted", "MLflow", "Prometheus", "public endpoint", "Karpenter",
    )  # fmt: skip
    assert [word for word in asked if word not in features] == []


@pytest.mark.parametrize(("feature", "verdict", "reason"), ROWS, ids=[row[0] for row in ROWS])
def test_a_yes_has_a_test_and_the_rest_a_reason(feature: str, verdict: str, reason: str) -> None:
    assert verdict in ("yes", "partly", "no"), feature
    named = TEST.findall(reason)
    for file, test in named:
        text = (PROJECT / file).read_text("utf-8")
        assert f"def {test or 'test_'}" in text, f"{feature}: {file} has no {test}"
    if verdict == "no":
        assert len(TEST.sub("", reason)) > 25, f"{feature}: no reason"
    else:
        assert named, f"{feature}: {verdict} without a test"


def test_no_page_sends_people_here_to_serve_a_model() -> None:
    """There is nothing to serve with: docs/adr/0017-training-only.md says why, and the sandbox what it answers."""
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "jobs").rglob("*.md")]
    naming = {
        str(page.relative_to(PROJECT))
        for page in pages
        if page.parent.name not in ("security", "plans")
        and re.search(r"Ray ?Serv(e|ice)\b", page.read_text("utf-8"), re.I)
    }
    assert naming == {"README.md", "docs/adr/0017-training-only.md", "docs/embedded-aws.md"}
