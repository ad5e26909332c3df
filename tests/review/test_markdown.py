from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.report.markdown import LIMIT, render
from hyperpod_ray.review.review import review
from tests.review.command_helpers import cluster
from tests.review.small import resources, write


def test_safe_rows_are_folded_beneath_the_others(tmp_path: Path) -> None:
    extra = cluster(3, "None")
    group = {"InstanceGroupName": "more", "InstanceType": "ml.g5.48xlarge", "InstanceCount": 4}
    extra["Resources"]["Cluster"]["Properties"]["InstanceGroups"].append(group)
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": extra})
    text = render(review(base, head))
    assert (
        text.index("loses nodes | group workers")
        < text.index("NodeRecovery")
        < text.index("<details><summary>🟢 safe (1)")
        < text.index("4 ml.g5.48xlarge nodes created")
    )
    assert "loses nodes (1 ml.p5.48xlarge node), weakens security, recovery or alarms (1)" in text.splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("count", [300, 1500])
def test_a_comment_never_exceeds_githubs_limit(tmp_path: Path, count: int) -> None:
    def many(word: str) -> dict[str, Any]:
        tags = [{"Key": f"k{index}", "Value": word} for index in range(20)]
        keys = ({"Description": f"{word * 200} {index}", "Tags": tags} for index in range(count))
        return resources(
            **{f"K{index}": {"Type": "AWS::KMS::Key", "Properties": key} for index, key in enumerate(keys)}
        )

    text = render(review(write(tmp_path / "b", {"A": many("ä")}), write(tmp_path / "h", {"A": many("ö")})))
    assert len(text.encode()) <= LIMIT
    assert "mitted, because" in text or "cut off" in text
    assert "updated in place" in text.lower()


def test_a_report_too_long_for_its_tables_says_that_it_is_cut(tmp_path: Path) -> None:
    many = cluster(1)
    many["Resources"]["Cluster"]["Properties"]["InstanceGroups"] = [
        {"InstanceGroupName": f"g{count}", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
        for count in range(1, 40)
    ]
    text = render(review(write(tmp_path / "b", {"A": many}), write(tmp_path / "h", {"A": cluster(1)})), limit=8_000)
    assert len(text.encode()) <= 8_000
    assert "cut off here" in text
    assert "loses nodes (780 ml.p5.48xlarge nodes)" in text.splitlines()[1]


def test_markdown_takes_names_for_text(tmp_path: Path) -> None:
    def tagged(name: str) -> dict[str, Any]:
        group = {"InstanceGroupName": name, "InstanceType": "ml.p5.48xlarge", "InstanceCount": 1}
        properties = {"ClusterName": "c", "InstanceGroups": [group]}
        return resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": properties})

    base, head = write(tmp_path / "b", {"A": tagged("a")}), write(tmp_path / "h", {"A": tagged("<b>|@team #1")})
    (row,) = [line for line in render(review(base, head)).splitlines() if "renamed" in line]
    assert "<b>" not in row
    assert "\\|" in row
    assert "@team" not in row
    assert " #1" not in row
