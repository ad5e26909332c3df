"""Groups of a Slurm cluster apart in AWS: each role's rights on what every other group has, by two evaluators."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray_rules import hyperpod
from tests.stacks.assembled import Assembly, synthesize
from tests.support import ministack_iam
from tests.support.iam import Request, allows, many, statements_of
from tests.support.references import References

pytestmark = pytest.mark.slow

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:"
KEY = "arn:aws:kms:us-west-2:111122223333:key/0123abcd-0123-0123-0123-0123456789a"
COMPUTE = {"type": "ml.g5.8xlarge", "count": 1, "threads_per_core": 2}
ACCESS: dict[str, dict[str, Any]] = {
    "vision": {
        "s3": [{"bucket": "runs", "prefix": "vision/", "mode": "write"}, {"bucket": "public-data"}],
        "kms_key_arns": [f"{KEY}1"], "secret_arns": [f"{SECRET}vision-AbCdEf"],
    },
    "speech": {
        "s3": [{"bucket": "runs", "prefix": "speech/", "mode": "write"}, {"bucket": "public-data"}],
        "kms_key_arns": [f"{KEY}2"], "secret_arns": [f"{SECRET}speech-AbCdEf"],
    },
    "login": {"s3": [{"bucket": "public-data"}]},
}  # fmt: skip
ACCOUNTING = f"{SECRET}accounting-AbCdEf"
GROUPS = ("controller", "login", "workers", "vision", "speech")
CONTEXTS: list[dict[str, str | list[str]]] = [
    {},
    {"kms:ViaService": "s3.us-west-2.amazonaws.com"},
    {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"},
    {"s3:prefix": "vision/runs/"},
    {"s3:prefix": "speech/runs/"},
    {"s3:prefix": ""},
]
ALONE = {
    "controller": {("secretsmanager:GetSecretValue", ACCOUNTING)},
    "login": set(), "workers": set(),
    **{
        name: {
            ("s3:ListBucket", "arn:aws:s3:::runs"),
            *((f"s3:{action}", f"arn:aws:s3:::runs/{name}/*") for action in (
                "GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload", "ListMultipartUploadParts")),
            ("kms:Decrypt", f"{KEY}{number}"), ("kms:GenerateDataKey", f"{KEY}{number}"),
            ("secretsmanager:GetSecretValue", f"{SECRET}{name}-AbCdEf"),
        }
        for number, name in ((1, "vision"), (2, "speech"))
    },
}  # fmt: skip
"""What each group's role may and some other group's may not; `s3:ListBucket` of one prefix."""


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    folder = tmp_path_factory.mktemp("slurm-access")
    settings = yaml.safe_load((FOLDER / "examples" / "slurm.yaml").read_text(encoding="utf-8"))
    settings["hyperpod"]["accounting_database"] = {"endpoint": "db.example.com", "secret_arn": ACCOUNTING}
    groups = settings["hyperpod"]["instance_groups"]
    groups += [{"name": name, **COMPUTE, "slurm": {"role": "compute", "partitions": [name]}}
               for name in ("vision", "speech")]  # fmt: skip
    for group in groups:
        if group["name"] in ACCESS:
            group["access"] = ACCESS[group["name"]]
    (folder / "apart.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return synthesize("apart", folder=folder)


@pytest.fixture(scope="module")
def roles(assembly: Assembly) -> dict[str, tuple[str, list[Any]]]:
    """Group to the logical ID of its nodes' role and the role's statements."""
    references = References(assembly.templates, account="111122223333", region="us-west-2")
    by_group = {}
    for group in assembly.one("AWS::SageMaker::Cluster")["InstanceGroups"]:
        logical_id = group["ExecutionRole"]["Fn::GetAtt"][0]
        permissions: list[Any] = []
        for sort in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for key, row in assembly.of_type(sort).items():
                if logical_id in json.dumps(row["Properties"]["Roles"]):
                    document = references.resolve(key.partition("/")[0], row["Properties"]["PolicyDocument"])
                    permissions += statements_of(document)
        by_group[group["InstanceGroupName"]] = (logical_id, permissions)
    return by_group


def asked_of(statements: list[Any]) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for statement in statements
        for action in many(statement["Action"])
        for resource in many(statement["Resource"])
    }


def test_a_group_with_access_has_a_role_of_its_own(assembly: Assembly, roles: Any) -> None:
    assert set(roles) == set(GROUPS)
    ids = {name: logical_id for name, (logical_id, _) in roles.items()}
    assert len({ids[name] for name in ("controller", "workers", "vision", "speech", "login")}) == 5
    made = assembly.one("AWS::SageMaker::Cluster")
    where = hyperpod.Where(region="us-west-2", account="111122223333")
    assert list(hyperpod.create_cluster(made, where)) == []


def test_a_group_waits_for_the_policies_of_its_role(assembly: Assembly, roles: Any) -> None:
    """A node that starts before them fails in its set-up."""
    stack = next(key.partition("/")[0] for key in assembly.of_type("AWS::SageMaker::Cluster"))
    (cluster,) = assembly.of_type("AWS::SageMaker::Cluster").values()
    for logical_id, _ in roles.values():
        policies = [
            key.partition("/")[2]
            for sort in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
            for key, row in assembly.of_type(sort).items()
            if key.startswith(f"{stack}/") and logical_id in json.dumps(row["Properties"]["Roles"])
        ]
        assert policies
        assert {logical_id, *policies} <= set(cluster["DependsOn"])


@pytest.mark.parametrize(("mine", "theirs"), list(itertools.permutations(GROUPS, 2)))
def test_what_one_role_may_and_another_may_not(roles: Any, mine: str, theirs: str) -> None:
    """Every action that the one's policies name, on every resource that they name, asked by the other."""
    has, lacks = roles[mine][1], roles[theirs][1]
    requests = [
        Request(action=action, resource=resource, context=context)
        for action, resource in asked_of(has)
        for context in CONTEXTS
    ]
    assert len(requests) > 100
    alone = {
        (request.action, request.resource)
        for request in requests
        if allows(has, request) and not allows(lacks, request)
    }
    shared = {
        ("s3:ListBucket", "arn:aws:s3:::public-data"), ("s3:GetBucketLocation", "arn:aws:s3:::public-data"),
        ("s3:GetObject", "arn:aws:s3:::public-data/*"), ("s3:GetBucketLocation", "arn:aws:s3:::runs"),
    }  # fmt: skip
    assert alone - shared == ALONE[mine]


def test_both_evaluators_decide_alike(roles: Any) -> None:
    """MiniStack's evaluator, which nobody of this project wrote, on every request of every pair."""
    everything = sorted({pair for _, statements in roles.values() for pair in asked_of(statements)})
    asked = [
        (statements, Request(action=action, resource=resource, context=context))
        for _, statements in roles.values()
        for action, resource in everything
        for context in CONTEXTS
    ]
    ours = [allows(statements, request) for statements, request in asked]
    assert 0 < sum(ours) < len(ours)
    theirs = ministack_iam.decisions(asked)
    differ = [(request.action, request.resource, dict(request.context), mine)
              for (_, request), mine, other in zip(asked, ours, theirs, strict=True) if mine is not other]  # fmt: skip
    assert differ == []
