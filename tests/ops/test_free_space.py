from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.observe import free_space
from hyperpod_ray.ops.observe.snapshot import (
    FileSystem,
)
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.ops_sources_helpers import Aws
from tests.ops.world import environment_text


@pytest.fixture
def target() -> Target:
    made = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    made.aws = Aws()  # type: ignore[assignment]
    return made


def test_free_space_is_the_sum_of_one_minute(target: Target) -> None:
    there = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200)
    creating = FileSystem(id="fs-0", lifecycle="CREATING", capacity_gib=1200)
    found = free_space.with_free_space(target, (creating, there))
    assert [item.free_gib for item in found] == [None, 2.0]
    (query,) = target.aws.asked["get_metric_data"]["MetricDataQueries"]  # type: ignore[attr-defined]
    stat = query["MetricStat"]
    assert (stat["Stat"], stat["Period"]) == ("Sum", 60), "over a longer span the sum counts each minute again"
    assert stat["Metric"]["Dimensions"] == [{"Name": "FileSystemId", "Value": "fs-1"}]
