"""Environment files whose orchestrator is Slurm: what they may say, and what their own rules say of them."""

# ruff: noqa: E501  (a case of the table is one line, to be read across)
from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from hyperpod_ray import core
from hyperpod_ray.core import loader, reference, requests
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES
from hyperpod_ray.core.loader import FOLDER, EnvironmentFileError, Problem, SlurmFile, parse_any
from hyperpod_ray.core.plan_names import stacks
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan
from tests.core.environment_files import GONE, GOOD, SLURM, Case, changed
from tests.core.said import assert_said, line_of

GROUPS = "hyperpod/instance_groups"
CONTROLLER, LOGIN, WORKERS = f"{GROUPS}/0", f"{GROUPS}/1", f"{GROUPS}/2"
MORE = {"name": "more", "type": "ml.p5.48xlarge", "count": 1, "slurm": {"role": "compute", "partitions": ["train"]}}
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"
DATABASE = {"endpoint": "db.example.com", "secret_arn": SECRET}
DATABASE_KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
RUNS = {"bucket": "runs", "prefix": "vision/", "mode": "write"}
OTHER = {**MORE, "name": "speech", "slurm": {"role": "compute", "partitions": ["speech"]}}
GB200 = {"vcpus": 144, "memory_gib": 960, "accelerator": "nvidia", "accelerators": 4, "efa": 17, "ips": 50, "pods": 49}
STORED = {
    "existing": {"file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "availability_zone_id": "usw2-az2"}
}
NETWORK = {
    "vpc_id": "vpc-0123456789abcdef0",
    "vpc_cidr": "10.0.0.0/16",
    "node_subnet_ids": {"usw2-az2": "subnet-0123456789abcdef0", "usw2-az1": "subnet-0123456789abcdef1"},
    "node_subnet_cidrs": {"usw2-az2": "10.0.0.0/20", "usw2-az1": "10.0.16.0/20"},
}


def access(*grants: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"s3": list(grants), **more}


EKS_SECTIONS = {"eks", "ray", "registries", "training", "observability", "helm"}


def judged(data: dict[str, Any]) -> tuple[SlurmFile | None, list[Problem]]:
    text = yaml.safe_dump(data, sort_keys=False)
    try:
        found = parse_any(text, name="test", path=Path("environments/test.yaml"))
    except EnvironmentFileError as error:
        return None, [*error.problems, *error.warnings]
    assert isinstance(found, SlurmFile)
    return found, found.warnings


def problems(edits: dict[str, Any]) -> list[Problem]:
    return judged(changed(edits, of=SLURM))[1]


CASES = [
    Case("slurm_nodes_learn_of_the_proxy", {"network/proxy": {"url": "http://proxy.example.com:3128"}}, "network.proxy", "no script runs on the nodes"),
    Case("one_controller", {f"{CONTROLLER}/slurm/role": "login"}, "hyperpod.instance_groups", "no group is the controller"),
    Case("one_controller", {f"{LOGIN}/slurm/role": "controller"}, "hyperpod.instance_groups[1].slurm.role", "second controller"),
    Case("one_controller", {f"{CONTROLLER}/count": 2}, "hyperpod.instance_groups[0].count", "2 nodes of the controller"),
    Case("something_runs_jobs", {WORKERS: {"name": "w", "type": "ml.m5.2xlarge", "count": 1, "slurm": {"role": "login"}}},
         "hyperpod.instance_groups", "no group runs jobs"),
    Case("partitions_have_names_of_their_own", {f"{WORKERS}/slurm/partitions": ["default"]}, "hyperpod.instance_groups[2].slurm.partitions[0]", "reserved word", {f"{WORKERS}/slurm/partitions": ["train"]}),
    Case("something_runs_jobs", {f"{WORKERS}/count": 0, f"{WORKERS}/min_count": GONE}, "hyperpod.instance_groups[2].count", "no job ever starts", {f"{WORKERS}/count": 1, f"{WORKERS}/min_count": GONE}, "warning"),
    Case("releases_are_of_eks", {f"{LOGIN}/image_release_version": "1.2.3"}, "hyperpod.instance_groups[1].image_release_version",
         "a release with EKS only", {f"{LOGIN}/image_id": "ami-0123456789abcdef0"}),
    Case("partitions_are_of_compute", {f"{WORKERS}/slurm/partitions": []}, "hyperpod.instance_groups[2].slurm", "without a partition"),
    Case("partitions_are_of_compute", {f"{LOGIN}/slurm/partitions": ["x"]}, "hyperpod.instance_groups[1].slurm.partitions",
         "role login is in no partition", {f"{LOGIN}/slurm/partitions": []}),
    Case("accounting_needs_continuous",
         {"hyperpod/accounting_database": DATABASE, "hyperpod/node_provisioning_mode": None, f"{WORKERS}/min_count": GONE},
         "hyperpod.accounting_database", "without provisioning mode", {"hyperpod/accounting_database": DATABASE}),
    Case("accounting_secret_is_of_the_region",
         {"hyperpod/accounting_database": {**DATABASE, "secret_arn": SECRET.replace("us-west-2", "us-east-1")}},
         "hyperpod.accounting_database.secret_arn", "a secret of us-east-1", {"hyperpod/accounting_database": DATABASE}),
    Case("accounting_secret_is_of_the_region",
         {"hyperpod/accounting_database": {**DATABASE, "kms_key_arn": DATABASE_KEY.replace("us-west-2", "us-east-1")}},
         "hyperpod.accounting_database.kms_key_arn", "a key of us-east-1",
         {"hyperpod/accounting_database": {**DATABASE, "kms_key_arn": DATABASE_KEY}}),
    Case("jobs_have_a_role_of_their_own", {"hyperpod/accounting_database": {**DATABASE, "separate_role": False}},
         "hyperpod.accounting_database.separate_role", "any job reads the accounting database's password",
         {"hyperpod/accounting_database": DATABASE}, severity="warning"),
    Case("controller_is_off_accelerators", {f"{LOGIN}/type": "ml.g5.8xlarge"}, "hyperpod.instance_groups[1].type",
         "1 accelerators", severity="warning"),
    Case("controller_is_off_accelerators", {f"{CONTROLLER}/type": "ml.g5.8xlarge"}, "hyperpod.instance_groups[0].type",
         "no job runs on a controller node", severity="warning"),
    Case("controller_is_off_accelerators", {f"{CONTROLLER}/type": "ml.m5.large"}, "hyperpod.instance_groups[0].type",
         "8 GiB", {f"{CONTROLLER}/type": "ml.m5.xlarge"}, severity="warning"),
    Case("controller_is_kept", {f"{CONTROLLER}/capacity": "spot"}, "hyperpod.instance_groups[0].capacity", "Spot",
         {f"{LOGIN}/capacity": "spot"}),
    Case("partitions_share_a_zone", {f"{GROUPS}/3": {**MORE, "availability_zone_id": "usw2-az1"}},
         "hyperpod.instance_groups[3].availability_zone_id", "EFA does not cross zones", {f"{GROUPS}/3": MORE},
         severity="warning"),
    Case("partitions_share_a_zone",  # one group of the partition with EFA is enough
         {f"{GROUPS}/3": {**MORE, "type": "ml.m5.2xlarge", "availability_zone_id": "usw2-az1"}},
         "hyperpod.instance_groups[3].availability_zone_id", "spans usw2-az1 and usw2-az2",
         {f"{GROUPS}/3": {**MORE, "type": "ml.m5.2xlarge"}}, severity="warning"),
    Case("nodes_have_addresses", {"network/cidr": "10.0.0.0/20", "network/node_subnet_prefix": 25},
         "hyperpod.instance_groups[2].count", "take 130 addresses",
         {"network/cidr": "10.0.0.0/20", "network/node_subnet_prefix": 24}),
    Case("efa_storage_is_set_up", {"storage/efa": True, "storage/capacity_gib": 19200}, "storage.efa", "stays on TCP",
         {"storage/efa": True, "storage/capacity_gib": 19200, "hyperpod/on_init_complete": "lifecycle/on_create.sh"},
         severity="warning"),
    Case("script_exists", {"hyperpod/on_init_complete": "lifecycle/no.sh"}, "hyperpod.on_init_complete", "no file",
         {"hyperpod/on_init_complete": "lifecycle/on_create.sh"}),
    Case("script_exists", {"hyperpod/on_init_complete": "lifecycle/../x.sh"}, "hyperpod.on_init_complete", "leaves the project"),
    Case("places_are_one_partitions",
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**OTHER, "access": access({**RUNS, "prefix": "vision/first/"})}},
         "hyperpod.instance_groups[3].access.s3[0]", "meets s3://runs/vision/ of partition 'train'",
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**OTHER, "access": access({**RUNS, "prefix": "speech/"})}}),
    Case("places_are_one_partitions",  # who reads what another writes takes it as its own; the whole bucket is around all
         {f"{WORKERS}/access": access(RUNS), f"{LOGIN}/access": access({"bucket": "runs"})},
         "hyperpod.instance_groups[2].access.s3[0]", "meets s3://runs/ of group 'login'",
         {f"{WORKERS}/access": access({**RUNS, "mode": "read"}), f"{LOGIN}/access": access({"bucket": "runs"})}),
    Case("places_are_one_partitions",  # groups of one partition run the same jobs
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**OTHER, "access": access(RUNS)}},
         "hyperpod.instance_groups[3].access.s3[0]", "meets",
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**MORE, "access": access(RUNS)}}),
    Case("access_is_of_jobs", {f"{CONTROLLER}/access": access(RUNS)}, "hyperpod.instance_groups[0].access",
         "on which no job runs", {f"{LOGIN}/access": access(RUNS)}),
    Case("a_partition_has_one_access", {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": MORE},
         "hyperpod.instance_groups[3].access", "differs from that of 'workers'",
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**MORE, "access": access(RUNS)}}, severity="warning"),
    Case("buckets_of_groups_are_theirs", {f"{WORKERS}/access": access({**RUNS, "bucket": "cdk-hnb659fds-assets-111122223333-us-west-2"})},
         "hyperpod.instance_groups[2].access.s3[0].mode", "what the CDK deploys",
         {f"{WORKERS}/access": access({**RUNS, "bucket": "cdk-hnb659fds-assets-111122223333-us-west-2", "mode": "read"})}),
    Case("buckets_of_groups_are_theirs", {f"{WORKERS}/access": access({**RUNS, "bucket": "sagemaker-runs"})},
         "hyperpod.instance_groups[2].access.s3[0].bucket", "every node of the cluster reads sagemaker-runs",
         {f"{WORKERS}/access": access({**RUNS, "bucket": "runs-of-sagemaker"})}, severity="warning"),
    Case("buckets_of_groups_are_theirs", {f"{WORKERS}/access": access({**RUNS, "bucket": "sagemaker-train-slurm-111122223333-us-west-2"})},
         "hyperpod.instance_groups[2].access.s3[0].mode", "the script that every node runs as root"),
    Case("names_of_access_are_of_the_region", {f"{WORKERS}/access": access(RUNS, secret_arns=[SECRET.replace("us-west-2", "us-east-1")])},
         "hyperpod.instance_groups[2].access.secret_arns[0]", "is of us-east-1",
         {f"{WORKERS}/access": access(RUNS, secret_arns=[SECRET])}),
    Case("names_of_access_are_of_the_region", {f"{WORKERS}/access": access(RUNS, kms_key_arns=[DATABASE_KEY, DATABASE_KEY])},
         "hyperpod.instance_groups[2].access.kms_key_arns[1]", "is already entry 0",
         {f"{WORKERS}/access": access(RUNS, kms_key_arns=[DATABASE_KEY])}),
    Case("names_of_access_are_of_the_region", {f"{WORKERS}/access": access(RUNS, dict(RUNS))},
         "hyperpod.instance_groups[2].access.s3[1]", "is already entry 0", {f"{WORKERS}/access": access(RUNS)}),
    Case("names_of_access_are_of_the_region",
         {f"{WORKERS}/access": access(RUNS, secret_arns=[SECRET]), "network/egress": "closed"},
         "hyperpod.instance_groups[2].access.secret_arns", "no route to AWS Secrets Manager",
         {f"{WORKERS}/access": access(RUNS), "network/egress": "closed"}),
    Case("image_serves_nodes_of_compute", {f"{WORKERS}/type": "ml.trn1.32xlarge", "image": {}}, "hyperpod.instance_groups[2].type",
         "no image set for x86_64 with neuron (ml.trn1.32xlarge)", {f"{WORKERS}/type": "ml.p4d.24xlarge", "image": {}}),
    Case("image_serves_nodes_of_compute", {f"{WORKERS}/type": "ml.m7g.4xlarge", "image": {}}, "hyperpod.instance_groups[2].type",
         "no image set for arm64 (ml.m7g.4xlarge)", {f"{WORKERS}/type": "ml.m7g.4xlarge"}),
    Case("image_serves_nodes_of_compute",
         {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": {**GB200, "architecture": "arm64"}}, "image": {}},
         "hyperpod.instance_groups[2].type", "no image set for arm64 with nvidia (ml.p6e-gb200.36xlarge)"),
    Case("jobs_train_on_what_is_there", {f"{WORKERS}/type": "ml.trn1.32xlarge"}, "hyperpod.instance_groups[2].type",
         "neither jobs/slurm nor the training library uses them", {f"{WORKERS}/type": "ml.p4d.24xlarge"}, severity="warning"),
    Case("homes_have_a_throughput_of_their_kind", {"homes": {"throughput_mbs": 128}}, "homes.throughput_mbs",
         "got 128. Expected one of 160, 320", {"homes": {"throughput_mbs": 128, "deployment_type": "SINGLE_AZ_1"}}),
    Case("homes_are_of_the_region", {"homes": {"deployment_type": "SINGLE_AZ_HA_1"}}, "homes.deployment_type",
         "SINGLE_AZ_HA_1 is not known to be in us-west-2", {"homes": {"deployment_type": "SINGLE_AZ_1", "throughput_mbs": 64}}, severity="warning"),
    Case("homes_are_another_file_system",
         {"storage": STORED, "network/existing": NETWORK, "homes": {"existing": {"file_system_id": STORED["existing"]["file_system_id"]}}},
         "homes.existing.file_system_id", "which is FSx for Lustre",
         {"storage": STORED, "network/existing": NETWORK, "homes": {"existing": {"file_system_id": "fs-0abcdef0123456789"}}}),
    Case("homes_are_in_the_network", {"homes": {"existing": {"file_system_id": "fs-0abcdef0123456789"}}}, "homes.existing.file_system_id",
         "network creates a VPC", {"network/existing": NETWORK, "homes": {"existing": {"file_system_id": "fs-0abcdef0123456789"}}}, severity="warning"),
    Case("protected_keeps_homes", {"protected": True, "homes": {"on_destroy": "delete"}, "storage/backup_retention_days": 7}, "homes.on_destroy",
         "'delete' in a protected environment", {"protected": True, "homes": {}, "storage/backup_retention_days": 7}),
    Case("protected_keeps_homes", {"protected": True, "homes": {"backup_retention_days": 0}, "storage/backup_retention_days": 7}, "homes.backup_retention_days",
         "0 creates no backups", {"protected": True, "homes": {}, "storage/backup_retention_days": 7}, severity="warning"),
]  # fmt: skip


def said_by_cases() -> Iterator[str]:
    """What each case's rule says, for `messages.txt`."""
    for case in CASES:
        for problem in problems(case.trips):
            if problem.path == case.path and case.says in problem.message:
                yield line_of(case.rule, problem.severity, problem.path, problem.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says[:20]}")
def test_rule(case: Case) -> None:
    said = problems(case.trips)
    ours = [one for one in said if one.path == case.path and case.says in one.message]
    assert [one.severity for one in ours] == [case.severity], [str(one) for one in said]
    assert ours[0].line >= 1
    assert_said(line_of(case.rule, ours[0].severity, ours[0].path, ours[0].message))
    assert ours[0].expected
    assert ours[0].fix
    assert [str(one) for one in problems(case.passes) if one.path == case.path] == []


def test_what_rules_of_slurm_let_through() -> None:
    """Spot capacity of login and compute; groups without EFA, and of a type that is not known, in two zones."""
    assert problems({f"{LOGIN}/capacity": "spot", f"{WORKERS}/capacity": "spot"}) == []
    apart = {**MORE, "type": "ml.m5.2xlarge", "availability_zone_id": "usw2-az1"}
    assert problems({f"{WORKERS}/type": "ml.m5.2xlarge", f"{WORKERS}/min_count": GONE, f"{GROUPS}/3": apart}) == []
    unknown = problems({f"{GROUPS}/3": {**MORE, "type": "ml.p99.48xlarge", "availability_zone_id": "usw2-az1"}})
    assert {"hyperpod.instance_groups[3].type"} <= {one.path for one in unknown}


def test_a_group_is_found_by_its_name() -> None:
    found, _ = judged(SLURM)
    assert found is not None
    roles = {name: found.plan.group(name).slurm.role for name in ("controller", "login", "workers")}
    assert roles == {"controller": "controller", "login": "login", "workers": "compute"}
    with pytest.raises(KeyError):
        found.plan.group("work")


def test_a_folder_is_no_script() -> None:
    (said,) = problems({"hyperpod/on_init_complete": "tests/core"})
    assert (said.path, "no file" in said.what) == ("hyperpod.on_init_complete", True)


@pytest.mark.parametrize(
    ("edits", "path", "words"),
    [
        ({f"{WORKERS}/slurm/partitions": ["a", "b"]}, "hyperpod.instance_groups[2].slurm.partitions", "1"),
        (
            {f"{WORKERS}/slurm/partitions": ["a_b"]},
            "hyperpod.instance_groups[2].slurm.partitions[0]",
            "Slurm partition",
        ),
        ({f"{WORKERS}/slurm/role": "worker"}, "hyperpod.instance_groups[2].slurm.role", "compute"),
        ({"hyperpod/instance_groups": SLURM["hyperpod"]["instance_groups"][:1]}, "hyperpod.instance_groups", "2"),
        ({"hyperpod/config_strategy": "managed"}, "hyperpod.config_strategy", "Managed"),
        ({"hyperpod/on_init_complete": "/a/b.sh"}, "hyperpod.on_init_complete", "script in a folder"),
        (
            {"hyperpod/accounting_database": {**DATABASE, "endpoint": "db:3306"}},
            "hyperpod.accounting_database.endpoint",
            "host name",
        ),
        (
            {"hyperpod/accounting_database": {**DATABASE, "endpoint": "a" * 254}},
            "hyperpod.accounting_database.endpoint",
            "253",
        ),
        (
            {"hyperpod/accounting_database": {**DATABASE, "secret_arn": SECRET[:-7]}},
            "hyperpod.accounting_database.secret_arn",
            "ARN",
        ),
        ({"hyperpod/accounting_database": {**DATABASE, "port": 0}}, "hyperpod.accounting_database.port", "1"),
        ({"hyperpod/accounting_database": {**DATABASE, "port": 65536}}, "hyperpod.accounting_database.port", "65535"),
        (
            {"hyperpod/accounting_database": {**DATABASE, "name": "slurm-acct"}},
            "hyperpod.accounting_database.name",
            "database",
        ),
    ],
)
def test_a_value_that_a_setting_does_not_take(edits: dict[str, Any], path: str, words: str) -> None:
    said = problems(edits)
    assert [one.path for one in said] == [path], [str(one) for one in said]
    assert words in said[0].message


DATABASES = "hyperpod/accounting_database"
LONG = "a" * 63
CANDIDATES = [
    "a", "A-1", "a-", "-a", "a_b", "a$b", "a.b", "a..b", "a b", "1", "", f"{LONG}.rds.amazonaws.com", f"{LONG}a.b", "a-" * 600 + "a",
    "a" * 64, "a" * 65, "x" * 300, ".".join([LONG] * 4), SECRET, SECRET[:-7], f"{SECRET[:-7]}{'a' * 2048}-AbCdEf",
    "a/b.sh", f"a/{'b' * 128}", f"a/{'b' * 129}", "/fsx/b.sh", "a/b c",
]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "shape", "member"),
    [
        (f"{WORKERS}/slurm/partitions/0", "ClusterPartitionNames", ""),
        (f"{DATABASES}/endpoint", "ClusterAccountingDatabase", "Endpoint"),
        (f"{DATABASES}/secret_arn", "ClusterAccountingDatabase", "SecretArn"),
        (f"{DATABASES}/name", "ClusterAccountingDatabase", "Name"),
        ("hyperpod/on_init_complete", "ClusterLifeCycleConfig", "OnInitComplete"),
    ],
)
def test_every_value_that_a_setting_takes_is_one_of_the_api(setting: str, shape: str, member: str) -> None:
    """The judge is botocore's model: what it refuses would fail after the file was accepted."""
    model: Any = botocore.session.get_session().get_service_model("sagemaker").shape_for(shape)
    limits = (model.members[member] if member else model.member).metadata
    taken = []
    for value in CANDIDATES:
        data = changed({DATABASES: DATABASE, setting: value}, of=SLURM)
        try:
            SlurmEnvironment.model_validate(data)
        except ValidationError:
            continue
        taken.append(value)
        sent = value.rpartition("/")[2] if member == "OnInitComplete" else value
        assert limits.get("min", 0) <= len(sent) <= limits["max"], value
        assert re.fullmatch(limits["pattern"], sent), value
    assert 1 <= len(taken) < len(CANDIDATES)


def test_buckets_of_a_group_have_names_of_buckets() -> None:
    (said,) = problems({f"{WORKERS}/access": access({**RUNS, "bucket": "10.0.0.1"})})
    assert said.path == "hyperpod.instance_groups[2].access.s3[0].bucket"
    assert "is no bucket name" in said.message


def test_every_rule_of_slurm_has_a_case() -> None:
    assert {rule.check.__name__ for rule in RULES if rule.orchestrator == "slurm" and rule.needs != "account"} == {
        case.rule for case in CASES
    }


def test_rules_of_both_take_what_both_have() -> None:
    """A rule that runs for Slurm, and whose argument is a plan of EKS, would read what is not there."""
    sections = set(SlurmEnvironment.model_fields)
    for rule in RULES:
        if rule.orchestrator != "eks" and rule.shared <= sections and rule.stage == "load":
            first = next(iter(inspect.signature(rule.check).parameters.values()))
            assert first.annotation == ("SlurmPlan" if rule.orchestrator else "CommonPlan"), rule.check.__name__


def test_no_rule_of_slurm_runs_for_eks() -> None:
    slurm = [rule for rule in RULES if rule.orchestrator == "slurm"]
    plan = core.load("dev").plan
    assert slurm
    assert not [rule for rule in slurm if rule.concerns(plan)]


def test_shared_rules_run_for_slurm() -> None:
    said = problems({"network/cidr": "10.0.0.0/24", f"{LOGIN}/name": "controller", "storage/capacity_gib": 1300})
    assert {"network.cidr", "hyperpod.instance_groups[1].name", "storage.capacity_gib"} <= {one.path for one in said}


EFA = {"storage/efa": True, "storage/capacity_gib": 19200, "hyperpod/on_init_complete": "lifecycle/on_create.sh"}
FILE_SYSTEM = {"file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "availability_zone_id": "usw2-az1"}


@pytest.mark.parametrize(
    ("edits", "path", "words"),
    [
        (
            {"storage/availability_zone_id": "usw2-az1"},
            "storage.availability_zone_id",
            "the nodes 'workers' in usw2-az2",
        ),
        ({"storage": {"existing": FILE_SYSTEM}}, "storage.existing.availability_zone_id", "the nodes 'workers'"),
        ({**EFA, f"{WORKERS}/type": "ml.p4d.24xlarge"}, "storage.efa", "no EFA on ml.p4d.24xlarge"),
        ({**EFA, f"{WORKERS}/count": 129}, "storage.efa", "1,032 EFA connections"),
        (
            {"storage/data_repositories": [{"bucket": "a..b", "path": "/d"}]},
            "storage.data_repositories[0].bucket",
            "a..b",
        ),
    ],
)
def test_rules_of_the_file_system_look_at_compute(edits: dict[str, Any], path: str, words: str) -> None:
    """The same rules as on EKS, which there look at Ray's workers and buckets too."""
    found = [one for one in problems(edits) if one.path == path and words in one.message]
    assert len(found) == 1, [str(one) for one in problems(edits)]


def test_the_file_system_is_beside_compute_by_itself() -> None:
    assert problems({f"{WORKERS}/availability_zone_id": "usw2-az1"}) == []
    assert problems(EFA) == []
    apart = {"storage/availability_zone_id": "usw2-az2", f"{LOGIN}/availability_zone_id": "usw2-az1"}
    assert problems(apart) == [], "of login nodes the zone does not count"


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        *(({section: {}}, section) for section in sorted(EKS_SECTIONS)),
        ({f"{WORKERS}/labels": {"a": "b"}}, "hyperpod.instance_groups[2].labels"),
        ({f"{WORKERS}/taints": []}, "hyperpod.instance_groups[2].taints"),
        ({"hyperpod/managed_autoscaling": True}, "hyperpod.managed_autoscaling"),
        ({"hyperpod/node_guard": None}, "hyperpod.node_guard"),
        ({"hyperpod/tiered_storage": {"memory_percent": 5}}, "hyperpod.tiered_storage"),
        ({"storage/mode": "dynamic"}, "storage.mode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_belongs_to_eks_is_refused_at_its_place(edits: dict[str, Any], path: str) -> None:
    said = problems(edits)
    assert [one.path for one in said] == [path], [str(one) for one in said]
    assert "orchestrator eks" in said[0].what
    assert said[0].line >= 1


def test_an_existing_network_has_no_subnets_of_a_control_plane() -> None:
    existing = {
        "vpc_id": "vpc-0123456789abcdef0",
        "vpc_cidr": "10.0.0.0/16",
        "node_subnet_ids": {"usw2-az2": "subnet-0123456789abcdef0", "usw2-az1": "subnet-0123456789abcdef1"},
        "node_subnet_cidrs": {"usw2-az2": "10.0.0.0/20", "usw2-az1": "10.0.16.0/20"},
    }
    assert problems({"network/existing": existing}) == []
    (said,) = problems({"network/existing": {**existing, "control_plane_subnet_ids": []}})
    assert (said.path, "orchestrator eks" in said.what) == ("network.existing.control_plane_subnet_ids", True)


def test_what_belongs_to_slurm_is_refused_on_eks() -> None:
    data = changed({f"{GROUPS}/0/slurm": {"role": "login"}, "hyperpod/config_strategy": "Merge"}, of=GOOD)
    said = judged(data)[1]
    assert sorted(one.path for one in said) == ["hyperpod.config_strategy", "hyperpod.instance_groups[0].slurm"]
    assert all("orchestrator slurm" in one.what for one in said)


@pytest.mark.parametrize(
    ("value", "fix"), [("Slurm", "did you mean 'slurm'?"), (None, "choose one of them"), (1, "choose")]
)
def test_an_orchestrator_that_there_is_not_is_the_one_problem(value: Any, fix: str) -> None:
    (said,) = problems({"orchestrator": value, "ray": {}})
    assert (said.path, said.expected) == ("orchestrator", "one of eks, slurm")
    assert fix in said.fix


def test_what_serves_eks_alone_refuses_the_file_at_its_line() -> None:
    examples = FOLDER / "examples"
    with pytest.raises(loader.OtherOrchestratorError) as error:
        core.load("slurm", folder=examples)
    (said,) = error.value.problems
    text = (examples / "slurm.yaml").read_text(encoding="utf-8").splitlines()
    assert text[said.line - 1] == "orchestrator: slurm"
    assert (said.path, bool(said.fix)) == ("orchestrator", True)


def test_the_plan_of_the_example() -> None:
    found, _ = judged(SLURM)
    assert found is not None
    plan = found.plan
    assert stacks(plan) == ["Network", "Storage", "HyperPod"]
    assert (plan.controller.name, [group.name for group in plan.login]) == ("controller", ["login"])
    assert {name: [group.name for group in groups] for name, groups in plan.partitions.items()} == {
        "train": ["workers"]
    }
    assert plan.storage_zone == "usw2-az2"
    assert [group.name for group in plan.training_groups] == ["workers"]
    assert (plan.uploads_scripts, plan.script) == (False, None)
    assert plan.node_addresses("usw2-az2") == 4 * 32 + 2


def test_a_script_is_uploaded_with_its_folder() -> None:
    found, said = judged(changed({"hyperpod/on_init_complete": "lifecycle/on_create.sh"}, of=SLURM))
    assert found is not None, said
    assert (found.plan.uploads_scripts, found.plan.script) == (True, ("lifecycle", "on_create.sh"))


def test_the_file_system_is_where_compute_is() -> None:
    found, said = judged(changed({f"{WORKERS}/availability_zone_id": "usw2-az1"}, of=SLURM))
    assert found is not None, said
    assert found.plan.storage_zone == "usw2-az1"


def test_an_image_has_its_stack() -> None:
    found, said = judged(changed({"image": {}}, of=SLURM))
    assert found is not None, said
    assert stacks(found.plan) == ["Network", "Storage", "Image", "HyperPod"]
    none, said = judged(changed({"image": None}, of=SLURM))
    assert none is not None, said
    assert none.plan.built_image is None


def test_the_request_says_the_parts() -> None:
    found, said = judged(changed({"hyperpod/accounting_database": {**DATABASE, "port": 3307}}, of=SLURM))
    assert found is not None, said
    request = requests.create_cluster(found.plan)
    assert request["Orchestrator"] == {
        "Slurm": {
            "SlurmConfigStrategy": "Managed",
            "AccountingDatabase": {"Endpoint": "db.example.com", "SecretArn": SECRET, "Port": 3307},
        }
    }
    assert [group["SlurmConfig"] for group in request["InstanceGroups"]] == [
        {"NodeType": "Controller"},
        {"NodeType": "Login"},
        {"NodeType": "Compute", "PartitionNames": ["train"]},
    ]


def test_the_schema_knows_both_kinds() -> None:
    import json

    validator = jsonschema.Draft202012Validator(json.loads(reference.schema()))
    assert validator.is_valid(SLURM)
    assert validator.is_valid(GOOD)
    assert validator.is_valid({**GOOD, "orchestrator": "eks"})
    assert not validator.is_valid({**SLURM, "eks": {}})
    assert not validator.is_valid({**GOOD, "orchestrator": "slurm"})
    assert not validator.is_valid({key: value for key, value in SLURM.items() if key != "orchestrator"})


def test_rules_read_what_they_declare() -> None:
    """Here the other sections are not there at all."""
    evidence = Evidence(repository=Repository.around("test"))
    for case in CASES:
        whole = SlurmEnvironment.model_validate(changed(case.trips, of=SLURM))
        for rule in RULES:
            if rule.orchestrator == "slurm" and rule.needs != "account":
                part = SlurmEnvironment.model_construct(
                    orchestrator="slurm", **{name: getattr(whole, name) for name in rule.shared}
                )
                list(rule(SlurmPlan(name="test", settings=part), evidence))
