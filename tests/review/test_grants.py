"""When one statement of a policy allows what another one does, and what a change of statements is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.planner.storage import SsdFileSystem
from hyperpod_ray.review import training
from tests.review.grants_helpers import read


@pytest.mark.parametrize(("efa", "seen"), [(True, True), (False, False), (None, False)])
def test_the_file_system_that_a_forecast_is_of(efa: bool | None, seen: bool, tmp_path: Path) -> None:
    lustre = {"PerUnitStorageThroughput": 500, **({} if efa is None else {"EfaEnabled": efa})}
    disk = {"Type": "AWS::FSx::FileSystem", "Properties": {"StorageCapacity": 2400, "LustreConfiguration": lustre}}
    found = training._file_system(read(tmp_path, Disk=disk))
    assert isinstance(found, SsdFileSystem)
    assert (found.capacity_gib, found.throughput_mbs_per_tib, found.efa) == (2400, 500, seen)
