"""Rules of `hyperpod_ray/core/checks/storage.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    DATA,
    ELASTIC,
    EXISTING,
    FILE_SYSTEM,
    LINKS,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
)

CASES = [
    Case("linked_folders_lie_apart", {LINKS: [{**DATA, "path": "/fsx/data"}]}, f"{LINKS.replace('/', '.')}[0].path", "is /fsx/fsx/data in Ray's pods", {LINKS: [{**DATA, "path": "/fsxdata"}]}),
    Case("metadata_follows_the_size", {"storage/lustre_version": "2.12"}, "storage.lustre_version", "Fix: remove lustre_version", {"storage/mode": "dynamic"}),
    Case("capacity_is_a_step", {"storage/capacity_gib": 3600}, "storage.capacity_gib", "Fix: set 2400 or 4800", {"storage/capacity_gib": 4800}),
    Case("capacity_is_a_step", {"storage": {"efa": True, "capacity_gib": 4800, "throughput_mbs_per_tib": 500}}, "storage.capacity_gib", "multiples of 9600. Fix: set 9600", {"storage": {"efa": True, "capacity_gib": 9600, "throughput_mbs_per_tib": 500}}),
    Case("capacity_is_a_step", {"storage": {"efa": True, "capacity_gib": 12000, "throughput_mbs_per_tib": 1000}}, "storage.capacity_gib", "multiples of 4800. Fix: set 9600 or 14400", {"storage": {"efa": True, "capacity_gib": 14400, "throughput_mbs_per_tib": 1000}}),
    Case("elastic_throughput_is_a_step", {"storage": {**ELASTIC, "throughput_mbs": 6000}}, "storage.throughput_mbs", "Fix: set 4000 or 8000", {"storage": {**ELASTIC, "throughput_mbs": 8000}}),
    Case("read_cache_fits_the_throughput", {"storage": {**ELASTIC, "throughput_mbs": 8000, "read_cache_gib": 63}}, "storage.read_cache_gib", "Expected 64 to 262144, or 0 for none. Fix: set 64", {"storage": {**ELASTIC, "throughput_mbs": 8000, "read_cache_gib": 64}}),
    Case("read_cache_fits_the_throughput", {"storage": {**ELASTIC, "read_cache_gib": 131073}}, "storage.read_cache_gib", "Fix: set 131072", {"storage": {**ELASTIC, "read_cache_gib": 0}}, beside=("storage.read_cache_gib",)),
    Case("elastic_storage_is_of_the_region", {"storage": ELASTIC, "region": "sa-east-1", "network/availability_zone_ids": ["sae1-az1", "sae1-az2"]}, "storage.mode", "intelligent_tiering is not known to be in sa-east-1", {"storage": ELASTIC}, "warning"),
    Case("elastic_storage_is_within_the_default_quotas", {"storage": {**ELASTIC, "throughput_mbs": 104000, "read_cache_gib": 0}}, "storage.throughput_mbs", "104,000 MB/s. Expected at most 100,000", {"storage": {**ELASTIC, "throughput_mbs": 100000, "read_cache_gib": 0}}, "warning"),
    Case("elastic_storage_is_within_the_default_quotas", {"storage": {**ELASTIC, "throughput_mbs": 24000}}, "storage.throughput_mbs", "a read cache of 120,000 GiB", {"storage": {**ELASTIC, "throughput_mbs": 20000}}, "warning"),
    Case("elastic_storage_is_within_the_default_quotas", {"storage": {**ELASTIC, "read_cache_gib": 100801}}, "storage.read_cache_gib", "Fix: ask for an increase, or set read_cache_gib: 100800", {"storage": {**ELASTIC, "read_cache_gib": 100800}}, "warning"),
    Case("efa_storage_has_efa_clients", {"storage": {**ELASTIC, "efa": True}, f"{WORKERS}/type": "ml.p4d.24xlarge"}, "storage.efa", "Lustre has no EFA on ml.p4d.24xlarge", {"storage": {**ELASTIC, "efa": True}}, "warning"),
    Case("storage_is_beside_the_workers", {"storage": {**ELASTIC, "availability_zone_id": "usw2-az2"}}, "storage.availability_zone_id", "traffic between zones is slow", {"storage": {**ELASTIC, "availability_zone_id": "usw2-az1"}}),
    Case("efa_storage_has_efa_clients", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p4d.24xlarge"}, "storage.efa", "Lustre has no EFA on ml.p4d.24xlarge", {"storage": {"efa": True, "capacity_gib": 19200}}, "warning"),
    Case("efa_storage_has_efa_clients", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.g5.2xlarge"}, "storage.efa", "Lustre has no EFA on ml.g5.2xlarge", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.g6.8xlarge"}, "warning"),
    Case("efa_storage_has_connections", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p6-b200.48xlarge", f"{WORKERS}/count": 129}, "storage.efa", "1,032 EFA connections", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p6-b200.48xlarge", f"{WORKERS}/count": 128}, "warning"),
    Case("storage_zone_exists", {"storage": {"existing": {**FILE_SYSTEM, "availability_zone_id": "usw2-az9"}}}, "storage.existing.availability_zone_id", "is not one of network.availability_zone_ids", {"storage": {"existing": FILE_SYSTEM}}, beside=("storage.existing.availability_zone_id", "storage.existing.file_system_id")),
    Case("storage_is_beside_the_workers", {"storage/availability_zone_id": "usw2-az2"}, "storage.availability_zone_id", "traffic between zones is slow", {"storage/availability_zone_id": "usw2-az1"}),
    Case("storage_is_beside_the_workers", {"storage": {"existing": {**FILE_SYSTEM, "availability_zone_id": "usw2-az2"}}}, "storage.existing.availability_zone_id", "move the group, or the data", {"storage": {"existing": FILE_SYSTEM}}, "warning", beside=("storage.existing.file_system_id",)),
    Case("claims_keep_their_data", {"storage": {"on_destroy": "delete", "backup_retention_days": 7}}, "storage.backup_retention_days", "deleted together with the file system", {"storage": {"on_destroy": "retain", "backup_retention_days": 7}}, "warning"),
    Case("linked_folders_lie_apart", {LINKS: [DATA, {"bucket": "other", "path": "/data/x"}]}, "storage.data_repositories[1].path", "'/data/x' overlaps '/data'", {LINKS: [DATA, {"bucket": "other", "path": "/data-x"}]}),
    Case("events_are_named_once", {LINKS: [{**DATA, "auto_export": ["NEW", "NEW"]}]}, "storage.data_repositories[0].auto_export", "names an event twice", {LINKS: [{**DATA, "auto_export": ["NEW", "CHANGED"]}]}),
    Case("linked_file_systems_take_no_backups", {LINKS: [DATA], "storage/backup_retention_days": 7}, "storage.backup_retention_days", "7, and FSx takes no backups", {LINKS: [DATA]}),
    Case("capacity_is_within_the_default_quota", {"storage/capacity_gib": 103200}, "storage.capacity_gib", "the default quota", {"storage/capacity_gib": 100800}, "warning"),
    Case("existing_file_system_has_its_network", {"storage": {"existing": FILE_SYSTEM}}, "storage.existing.file_system_id", "name its VPC in network.existing", {"storage": {"existing": FILE_SYSTEM}, **EXISTING}, "warning"),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "path": "/d"}, {"bucket": "a-b", "prefix": "c/", "path": "/e"}]}, "storage.data_repositories[1].prefix", "an object in two folders changes in both", {LINKS: [{"bucket": "a-b", "prefix": "b/", "path": "/d"}, {"bucket": "a-b", "prefix": "c/", "path": "/e"}]}, "warning"),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "path": "/d/../e"}]}, "storage.data_repositories[0].path", "does not resolve", {LINKS: [{"bucket": "a-b", "path": "/d/..e"}]}),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "prefix": "a//b/", "path": "/d"}]}, "storage.data_repositories[0].prefix", "Fix: remove one slash", {LINKS: [{"bucket": "a-b", "prefix": "a/b/", "path": "/d"}]}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
