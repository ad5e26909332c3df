from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from hyperpod_ray.review import renames
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import Review, review
from tests.review.grants_helpers import read
from tests.review.small import resources, write


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


GROUP = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4}


def stacks(cluster: str, count: int = 4) -> dict[str, Any]:
    properties = {"ClusterName": cluster, "InstanceGroups": [{**GROUP, "InstanceCount": count}]}
    return {"A": resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": properties})}


def assembly(folder: Path, **environments: dict[str, Any]) -> Path:
    """An assembly of several environments, one stack each."""
    outer: dict[str, Any] = {}
    for name, templates in environments.items():
        made = write(folder / name, templates)
        inner = made / "assembly-env"
        manifest = json.loads((inner / "manifest.json").read_text())
        manifest["artifacts"]["A"]["properties"]["stackName"] = f"{name}-A"
        (inner / "manifest.json").write_text(json.dumps(manifest))
        properties = {"directoryName": f"{name}/assembly-env", "displayName": name}
        outer[name] = {"type": "cdk:cloud-assembly", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": outer}))
    return folder


def compared(tmp_path: Path, before: dict[str, Any], after: dict[str, Any]) -> Review:
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
    return review(assembly(tmp_path / "base", **before), assembly(tmp_path / "head", **after))


def rows(made: Review) -> dict[str, list[tuple[str, str]]]:
    return {
        environment.name: [(row.effect.code, row.code) for row in environment.rows] for environment in made.environments
    }


def text(made: Review, name: str) -> str:
    (environment,) = (environment for environment in made.environments if environment.name == name)
    return " ".join(f"{row.change} {row.consequence}" for row in environment.rows)


def test_a_renamed_file_is_refused_where_its_names_stay(tmp_path: Path) -> None:
    made = compared(tmp_path, {"prod": stacks("c")}, {"production": stacks("c")})
    assert rows(made)["production"] == [("rejected", "environment-renamed"), ("safe", "environment-added")]
    assert "prod is renamed to production" in text(made, "production")
    assert "264.19 $ per hour" in text(made, "production")
    assert "Cluster 'c' exist" in text(made, "production")


def test_a_renamed_file_with_other_names_is_another_environment(tmp_path: Path) -> None:
    made = compared(tmp_path, {"prod": stacks("c")}, {"production": stacks("d")})
    assert rows(made)["production"][0] == ("interrupts", "environment-renamed")


def test_another_environment_is_no_rename(tmp_path: Path) -> None:
    made = compared(tmp_path, {"prod": stacks("c")}, {"small": stacks("d", 1)})
    assert rows(made) == {"small": [("safe", "environment-added")], "prod": [("safe", "environment-left")]}
    assert "cost ~264.19 $ per hour" in text(made, "prod")


def test_a_copied_file_with_the_names_of_the_first_is_refused(tmp_path: Path) -> None:
    made = compared(tmp_path, {"prod": stacks("c")}, {"prod": stacks("c"), "copy": stacks("c")})
    assert rows(made) == {"prod": [], "copy": [("rejected", "name-taken"), ("safe", "environment-added")]}
    assert "has names of environment prod: Cluster 'c'" in text(made, "copy")


def test_a_name_that_becomes_another_ones_is_refused(tmp_path: Path) -> None:
    both = {"one": stacks("c"), "two": stacks("d")}
    made = compared(tmp_path, both, {"one": stacks("c"), "two": stacks("c")})
    assert ("rejected", "name-taken") in rows(made)["two"]


def test_names_that_were_equal_before_are_no_change(tmp_path: Path) -> None:
    both = {"one": stacks("c"), "two": stacks("c")}
    assert compared(tmp_path, both, both).empty
