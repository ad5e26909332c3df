"""FSx for Lustre Intelligent-Tiering: why `storage` has no setting of it, and what is true of one that exists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml

from hyperpod_ray.core.checks.account.storage import file_system_exists
from hyperpod_ray.core.checks.account.ways import file_system_serves_the_nodes
from hyperpod_ray.core.loader import FOLDER, EnvironmentFileError, parse
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.verdict.storage import free_space, storage
from hyperpod_ray.planner import cluster
from hyperpod_ray.pricing import price_file
from hyperpod_ray.pricing.prices import cost
from tests.core.account.good import FILE_SYSTEM, account
from tests.core.account.recorded import RecordedAccount
from tests.core.test_judges import registry
from tests.ops.money_helpers import DAY
from tests.ops.snapshots import healthy

EXAMPLE = (FOLDER / "examples" / "existing-file-system.yaml").read_text(encoding="utf-8")


def member(name: str) -> Any:
    model: Any = botocore.session.get_session().get_service_model("fsx")
    return model.shape_for("CreateFileSystemLustreConfiguration").members[name]


def test_its_rate_is_bought_apart_from_a_size_that_it_does_not_have() -> None:
    """The planner, the review, the price and the alarm of `storage` reckon with GiB times MB/s per TiB."""
    model: Any = botocore.session.get_session().get_service_model("fsx")
    sizes = model.shape_for("CreateFileSystemRequest").members["StorageCapacity"].documentation
    assert "INTELLIGENT_TIERING" in model.shape_for("StorageType").enum
    assert "Intelligent" not in sizes and "INTELLIGENT" not in sizes, "a size has come: build it"
    assert "using an SSD or HDD storage class" in member("PerUnitStorageThroughput").documentation
    assert "Intelligent-Tiering" in member("ThroughputCapacity").documentation
    assert member("ThroughputCapacity").metadata["min"] == 4000, "MB/s: the smallest is 14 times the default's"


def test_cloudformation_could_create_it() -> None:
    """So the missing setting is this project's, and the README may not call it AWS's."""
    lustre = registry("AWS::FSx::FileSystem")["definitions"]["LustreConfiguration"]["properties"]
    assert {"ThroughputCapacity", "DataReadCacheConfiguration", "MetadataConfiguration"} <= lustre.keys()


@pytest.mark.parametrize("setting", ["storage_type: INTELLIGENT_TIERING", "mode: tiered", "throughput_mbs: 4000"])
def test_storage_refuses_it_at_its_line(setting: str) -> None:
    text = (FOLDER / "dev.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    data["storage"] = {**data.get("storage", {}), **yaml.safe_load(setting)}
    with pytest.raises(EnvironmentFileError) as refused:
        parse(yaml.safe_dump(data), name="dev", path=Path("dev.yaml"))
    assert any(setting.partition(":")[0] in problem.path for problem in refused.value.problems)


def tiered() -> RecordedAccount:
    """An account whose existing file system is tiered: FSx tells no size of it."""
    state = account({})
    state["file_systems"][FILE_SYSTEM] |= {"StorageType": "INTELLIGENT_TIERING"}
    state["file_systems"][FILE_SYSTEM]["LustreConfiguration"] |= {
        "ThroughputCapacity": 4000,
        "DataReadCacheConfiguration": {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"},
    }
    del state["file_systems"][FILE_SYSTEM]["StorageCapacity"]
    return RecordedAccount(state)


def test_preflight_takes_one_that_exists() -> None:
    from tests.core.account.good import EXISTING
    from tests.core.environment_files import plan

    here = plan(EXISTING)
    for rule in (file_system_exists, file_system_serves_the_nodes):
        assert {finding.severity for finding in rule(here, tiered())} == {"fine"}


def test_no_figure_is_made_up_for_one_that_exists() -> None:
    file = parse(EXAMPLE, name="existing-file-system", path=Path("x.yaml"))
    plan: Plan = file.plan
    assert cluster.cluster(plan).file_system is None, "the planner knows no rate of it"
    assert not [line for line in cost(plan, price_file.recorded(), day=DAY).lines if line.name == "storage"]
    system = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=0, free_gib=3.0)
    snapshot = replace(healthy(), file_systems=(system,), storage_mode="existing")
    assert [*free_space(snapshot)] == [] and [*storage(snapshot)] == [], "nothing is full that has no size"
