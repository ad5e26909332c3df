# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest
from pydantic import ValidationError

from hyperpod_ray.core.slurm_model import SlurmEnvironment
from tests.core.environment_files import SLURM, changed
from tests.core.slurm_files_helpers import DATABASE, RUNS, SECRET, WORKERS, access, problems


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
