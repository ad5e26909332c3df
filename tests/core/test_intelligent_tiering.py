"""FSx for Lustre Intelligent-Tiering: what the service says of it, and what the file, the price and the plan say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import botocore.validate
import pytest
import yaml

from hyperpod_ray.core.checks.account.storage import file_system_exists
from hyperpod_ray.core.checks.account.ways import file_system_serves_the_nodes
from hyperpod_ray.core.loader import FOLDER, EnvironmentFileError, parse, parse_any
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.requests import create_file_system
from hyperpod_ray.ops.observe import account as observed
from hyperpod_ray.ops.observe import free_space as metrics
from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.verdict.storage import free_space, storage
from hyperpod_ray.planner import PlanError, answers, cluster
from hyperpod_ray.planner.storage import ElasticFileSystem, rate
from hyperpod_ray.planner.storage import parse as planned
from hyperpod_ray.pricing import price_file
from hyperpod_ray.pricing.prices import cost
from hyperpod_ray_rules import fsx
from tests.core.account.good import EXISTING, FILE_SYSTEM, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan
from tests.core.test_judges import registry
from tests.ops.money_helpers import DAY
from tests.ops.snapshots import healthy

EXAMPLE = (FOLDER / "examples" / "intelligent-tiering.yaml").read_text(encoding="utf-8")
ELASTIC = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=0, elastic=True)


def words(shape: str, name: str) -> str:
    """What the AWS SDK says of a member."""
    model: Any = botocore.session.get_session().get_service_model("fsx")
    return re.sub("<[^>]*>", "", model.shape_for(shape).members[name].documentation)


def here(**settings: Any) -> Plan:
    """The example with other settings of `storage`."""
    data = yaml.safe_load(EXAMPLE)
    data["storage"] = {"mode": "intelligent_tiering", **settings}
    return parse(yaml.safe_dump(data), name="elastic", path=Path("x.yaml")).plan


# --- what the service says ---------------------------------------------------------------------------------------


def test_its_limits_are_those_of_the_sdk() -> None:
    model: Any = botocore.session.get_session().get_service_model("fsx")
    capacity = model.shape_for("CreateFileSystemLustreConfiguration").members["ThroughputCapacity"]
    assert (capacity.metadata["min"], capacity.metadata["max"]) == (fsx.ELASTIC_STEP_MBS, fsx.ELASTIC_MOST_MBS)
    assert "4000 MBps or multiples of 4000" in capacity.documentation
    smallest, largest = fsx.READ_CACHE_GIB
    cache = words("LustreReadCacheConfiguration", "SizeGiB")
    assert f"a minimum of {smallest} GiB and maximum of {largest} GiB" in cache and "every 4,000 MB/s" in cache
    iops = words("CreateFileSystemLustreMetadataConfiguration", "Iops")
    assert "For Intelligent-Tiering file systems, valid values are {} and {}".format(*fsx.ELASTIC_IOPS) in iops
    assert "AUTOMATIC mode (supported only on SSD" in words("CreateFileSystemLustreMetadataConfiguration", "Mode")
    version = words("CreateFileSystemRequest", "FileSystemTypeVersion")
    assert "except for PERSISTENT_2 with a metadata configuration mode" in version, "2.12 is not for it"
    assert "Lustre file systems with the Persistent_2" in words("CreateFileSystemRequest", "StorageType")


def test_what_only_grows_is_what_the_sdk_says() -> None:
    assert "only increase" in words("UpdateFileSystemLustreConfiguration", "ThroughputCapacity")
    assert "greater than or equal to the current" in words("UpdateFileSystemLustreMetadataConfiguration", "Iops")


def test_the_storage_class_of_lustre_stays() -> None:
    """UpdateFileSystem names what it changes of Lustre: `StorageType` is not among it, so that another one replaces."""
    model: Any = botocore.session.get_session().get_service_model("fsx")
    text = re.sub("<[^>]*>", " ", model.operation_model("UpdateFileSystem").documentation)
    lustre = text.partition("For FSx for Lustre file systems")[2].partition("For FSx for ONTAP")[0].split()
    assert {"ThroughputCapacity", "MetadataConfiguration"} <= {*lustre} and "StorageType" not in lustre


def test_cloudformation_has_each_member() -> None:
    lustre = registry("AWS::FSx::FileSystem")["definitions"]["LustreConfiguration"]["properties"]
    request = create_file_system(here(efa=True))
    assert request is not None and request["LustreConfiguration"].keys() <= lustre.keys()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"throughput_mbs": 8000, "efa": True},
        {"read_cache_gib": 0},
        {"read_cache_gib": 64},
        {"metadata_iops": 12000},
    ],
)
def test_what_the_file_asks_is_what_fsx_takes(settings: dict[str, Any]) -> None:
    request = create_file_system(here(**settings))
    assert request is not None and [*fsx.create_file_system(request)] == []
    model: Any = botocore.session.get_session().get_service_model("fsx")
    assert (
        not botocore.validate.ParamValidator()
        .validate(request, model.shape_for("CreateFileSystemRequest"))
        .has_errors()
    )
    assert "StorageCapacity" not in request


@pytest.mark.parametrize(
    ("gib", "cache"),
    [
        (None, {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}),
        (0, {"SizingMode": "NO_CACHE"}),
        (64, {"SizingMode": "USER_PROVISIONED", "SizeGiB": 64}),
    ],
)
def test_one_setting_chooses_among_the_sizing_modes(gib: int | None, cache: dict[str, Any]) -> None:
    settings = {} if gib is None else {"read_cache_gib": gib}
    request = create_file_system(here(**settings))
    assert request is not None and request["LustreConfiguration"]["DataReadCacheConfiguration"] == cache


# --- the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"capacity_gib": 1200}, "static or dynamic only"),
        ({"throughput_mbs_per_tib": 250}, "static or dynamic only"),
        ({"lustre_version": "2.15"}, "static or dynamic only"),
        ({"data_repositories": [{"bucket": "data", "path": "/data"}]}, "static only"),
        ({"throughput_mbs": 3999}, "4000 or more"),
        ({"throughput_mbs": 2_004_000}, "2000000"),
        ({"metadata_iops": 3000}, "one of 6000, 12000"),
        ({"read_cache_gib": -1}, "0 or more"),
        ({"mode": "tiered"}, "static, intelligent_tiering, dynamic"),
    ],
)
def test_what_it_does_not_have_is_refused_at_its_line(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvironmentFileError) as refused:
        here(**setting)
    (name,) = setting
    assert [(problem.path, says in problem.message) for problem in refused.value.problems] == [
        (f"storage.{name}", True)
    ]


def test_slurm_has_it_too() -> None:
    data = yaml.safe_load((FOLDER / "examples" / "slurm.yaml").read_text(encoding="utf-8"))
    data["storage"] = {"mode": "intelligent_tiering", "throughput_mbs": 8000}
    file = parse_any(yaml.safe_dump(data), name="slurm", path=Path("x.yaml"))
    elastic = file.plan.elastic_file_system
    assert elastic is not None and elastic.throughput_mbs == 8000 and file.plan.stack_file_system is elastic


# --- its price ---------------------------------------------------------------------------------------------------


def test_its_price_is_said_to_be_unknown() -> None:
    priced = cost(here(), price_file.recorded(), day=DAY)
    (row,) = [row for row in priced.lines if row.name == "storage"]
    assert (row.usd_per_hour, row.usd_per_month) == (None, None)
    assert row.what == "Intelligent-Tiering, 4000 MB/s, read cache 20000 GiB, 6000 metadata IOPS, and what is stored"
    assert row in priced.unknown
    assert "no Region has a known price" in priced.unpriced_share
    assert any(sentence.startswith("data stored on the file system") for sentence in priced.not_counted)
    sized = cost(plan({}), price_file.recorded(), day=DAY)
    assert not any(sentence.startswith("data stored") for sentence in sized.not_counted)


# --- the plan ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_written_at_its_throughput() -> None:
    system = cluster.cluster(here(throughput_mbs=8000)).file_system
    assert system == ElasticFileSystem(mbs=8000)
    written = rate(system, clients=64, network_gbps=100)
    assert (written.bytes_per_second, written.limit) == (8000e6, "file system")
    alone = rate(system, clients=1, network_gbps=100)
    assert (alone.bytes_per_second, alone.limit) == (2 * 5 / 8 * 1e9, "clients × servers"), "5 Gb/s to each server"


def test_it_holds_what_its_servers_hold() -> None:
    assert ElasticFileSystem(mbs=8000).capacity_gib == 2 * 512 * 1024


@pytest.mark.parametrize("text", ["elastic@4000", "elastic@8000+efa"])
def test_the_plan_takes_what_it_writes(text: str) -> None:
    assert planned(text).name == text


@pytest.mark.parametrize("text", ["elastic@6000", "elastic@0", "elastic@", "elastic@4000+x"])
def test_a_throughput_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="elastic@4000"):
        planned(text)


def test_another_file_system_in_its_place_has_its_price() -> None:
    sized = cluster.with_storage(here(), planned("4800@250"))
    (row,) = [row for row in cost(sized, price_file.recorded(), day=DAY).lines if row.name == "storage"]
    assert row.what == "4800 GiB, 250 MB/s per TiB" and row.usd_per_hour
    elastic = cluster.with_storage(plan({}), planned("elastic@8000")).elastic_file_system
    assert elastic is not None and elastic.throughput_mbs == 8000


def test_no_other_file_system_is_compared_with_one_without_a_price() -> None:
    assert cluster.file_systems(here(), price_file.recorded(), day=DAY, gib=100.0) == []
    assert answers._rate(ElasticFileSystem(mbs=8000)) > answers._rate(planned("4800@1000"))


# --- what there is -----------------------------------------------------------------------------------------------


def elastic_account() -> RecordedAccount:
    """An account whose existing file system is elastic: FSx says no size of it."""
    state = account({})
    state["file_systems"][FILE_SYSTEM] |= {"StorageType": "INTELLIGENT_TIERING"}
    state["file_systems"][FILE_SYSTEM]["LustreConfiguration"] |= {
        "ThroughputCapacity": 4000,
        "DataReadCacheConfiguration": {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"},
    }
    del state["file_systems"][FILE_SYSTEM]["StorageCapacity"]
    return RecordedAccount(state)


def test_preflight_takes_one_that_exists() -> None:
    existing = plan(EXISTING)
    for rule in (file_system_exists, file_system_serves_the_nodes):
        assert {finding.severity for finding in rule(existing, elastic_account())} == {"fine"}


@pytest.mark.parametrize("size", [{}, {"StorageCapacity": 0}, {"StorageCapacity": 520_000}])
def test_what_fsx_calls_its_size_is_none(size: dict[str, int]) -> None:
    listed = {"FileSystemId": "fs-1", "Lifecycle": "AVAILABLE", "StorageType": "INTELLIGENT_TIERING", **size}
    tags = [{"Key": "hyperpod-ray:environment", "Value": "elastic"}]
    pages = SimpleNamespace(pages=lambda *_: [{**listed, "FileSystemType": "LUSTRE", "Tags": tags}])
    target: Any = SimpleNamespace(plan=here(), name="elastic", aws=pages)
    (system,) = observed.file_systems(target)
    assert (system.elastic, system.capacity_gib, system.size) == (True, 0, "elastic")


def test_its_free_space_is_not_asked_for() -> None:
    """No page names a metric of it, and 512 TiB for each server would be what CloudWatch adds up."""
    nobody: Any = SimpleNamespace(aws=SimpleNamespace(call=lambda *_, **__: pytest.fail("asked")))
    assert metrics.with_free_space(nobody, (ELASTIC,)) == (ELASTIC,)


def test_nothing_is_full_that_has_no_size() -> None:
    for free in (None, 3.0):
        system = replace(ELASTIC, free_gib=free, capacity_gib=1200)
        snapshot = replace(healthy(), file_systems=(system,), storage_mode="intelligent_tiering")
        assert [*free_space(snapshot)] == [] and [*storage(snapshot)] == []


def test_one_that_is_gone_is_named() -> None:
    snapshot = replace(healthy(), file_systems=(), claims=(), storage_mode="intelligent_tiering")
    assert [finding.what for finding in storage(snapshot)] == ["the shared file system is gone"]


def test_the_planner_knows_no_rate_of_one_that_exists() -> None:
    text = (FOLDER / "examples" / "existing-file-system.yaml").read_text(encoding="utf-8")
    existing = parse(text, name="existing-file-system", path=Path("x.yaml")).plan
    assert cluster.cluster(existing).file_system is None
    assert not [row for row in cost(existing, price_file.recorded(), day=DAY).lines if row.name == "storage"]
