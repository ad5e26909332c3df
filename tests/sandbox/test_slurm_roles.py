"""Slurm with an accounting database on an embedded AWS: the roles of nodes as IAM has them after a deploy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.new_file import default_zones
from hyperpod_ray.core.stand_ins import rehearsed
from tests.sandbox.story import Story, synthesized
from tests.support.emulator import CDK, running, until
from tests.support.iam import Request, allows, many, statements_of

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "slurm"
REGION = "eu-west-1"  # other stories are in other regions


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("slurm-roles")
    file = yaml.safe_load((FOLDER / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8"))
    account = str(file["account"])
    file["hyperpod"]["accounting_database"] = {
        "endpoint": "db.example.com",
        "secret_arn": f"arn:aws:secretsmanager:{REGION}:{account}:secret:slurm-AbCdEf",
    }
    settings, _ = rehearsed({**file, "region": REGION})
    settings["network"]["availability_zone_ids"] = list(default_zones(REGION))
    with running(root / "aws", account=settings["account"], region=REGION) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{REGION}")
        story.cdk("deploy", f"{NAME}/*", "--require-approval", "never", "--concurrency", "3")
        yield story


def rights(story: Story, arn: str) -> list[Any]:
    """Statements of every policy of a role, as IAM answers."""
    iam, role = story.emulator.boto("iam"), arn.rpartition("/")[2]
    documents = []
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=policy["PolicyArn"])["Policy"]["DefaultVersionId"]
        documents.append(
            iam.get_policy_version(PolicyArn=policy["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"]
        )
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        documents.append(iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"])
    return statements_of(*(json.loads(document) if isinstance(document, str) else document for document in documents))


def test_only_the_controllers_role_reads_the_password(story: Story) -> None:
    until(lambda: story.emulator.boto("sagemaker").describe_cluster(ClusterName="train-slurm"))
    groups = story.emulator.boto("sagemaker").describe_cluster(ClusterName="train-slurm")["InstanceGroups"]
    roles = {group["SlurmConfig"]["NodeType"]: group["ExecutionRole"] for group in groups}
    assert set(roles) == {"Controller", "Login", "Compute"}
    assert roles["Login"] == roles["Compute"] != roles["Controller"]
    by_type = {node_type: rights(story, arn) for node_type, arn in roles.items()}
    asked = {
        (action, resource)
        for statement in by_type["Controller"]
        for action in many(statement["Action"])
        for resource in many(statement["Resource"])
    }
    alone = {
        (action, resource)
        for action, resource in asked
        if allows(by_type["Controller"], Request(action=action, resource=resource))
        and not allows(by_type["Compute"], Request(action=action, resource=resource))
    }
    assert {action for action, _ in alone} == {"secretsmanager:GetSecretValue"}
    ((_, secret),) = alone
    assert secret.endswith(":secret:slurm-AbCdEf")
