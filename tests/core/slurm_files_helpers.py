"""What tests of `findings`, `printed_fixes`, `slurm_files`, `slurm_model`, `slurm_plan` share."""

# ruff: noqa: E501  (a case of the table is one line, to be read across)
from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core.loader import EnvironmentFileError, Problem, SlurmFile, parse_any
from tests.core.environment_files import DUMPER, GONE, SLURM, Case, changed

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


def judged(data: dict[str, Any]) -> tuple[SlurmFile | None, list[Problem]]:
    text = yaml.dump(data, Dumper=DUMPER, sort_keys=False)
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
    Case("places_are_one_partitions",  # the later group reads what an earlier one writes
         {f"{WORKERS}/access": access(RUNS), f"{GROUPS}/3": {**OTHER, "access": access({**RUNS, "mode": "read"})}},
         "hyperpod.instance_groups[3].access.s3[0]", "meets s3://runs/vision/ of partition 'train'",
         {f"{WORKERS}/access": access({**RUNS, "mode": "read"}),
          f"{GROUPS}/3": {**OTHER, "access": access({**RUNS, "mode": "read"})}}),
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


EFA = {"storage/efa": True, "storage/capacity_gib": 19200, "hyperpod/on_init_complete": "lifecycle/on_create.sh"}
