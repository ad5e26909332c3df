"""Teams apart in AWS: the rights of every team's pods on what every other team has, decided as IAM does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import SERVICE_ACCOUNT, team_namespace
from hyperpod_ray.core.team_access import access_of, as_team, tier_of
from hyperpod_ray.core.team_files import team_of
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.identity_helpers import associations
from tests.support import ministack_iam
from tests.support.iam import Request, allows, many, statements_of
from tests.support.references import References

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:"
KEY = "arn:aws:kms:us-west-2:111122223333:key/0123abcd-0123-0123-0123-0123456789ab"
TEXT = (FOLDER / "examples" / "teams.yaml").read_text()
ACCESS = f"""
  access:
    s3:
      - {{bucket: data-sets, prefix: public/}}
      - {{bucket: outputs, mode: write}}
      - {{bucket: results, prefix: prod/, mode: write}}
    kms_key_arns: [{KEY}]
    secret_arns: ["{SECRET}standing-AbCdEf"]
"""
NLP = f"""  - name: nlp
    quota:
      - {{type: ml.g5.8xlarge, instances: 1}}
      - {{type: ml.m5.2xlarge, instances: 1}}
    access:
      s3:
        - {{bucket: nlp-only, mode: write}}
      secret_arns: ["{SECRET}nlp-AbCdEf"]
"""
TEAMS = ("vision", "speech", "nlp")
ACTIONS = {
    "s3:GetObject": "{place}x", "s3:PutObject": "{place}x", "s3:DeleteObject": "{place}x",
    "s3:AbortMultipartUpload": "{place}x", "s3:ListMultipartUploadParts": "{place}x",
    "s3:DeleteObjectVersion": "{place}x", "s3:PutObjectAcl": "{place}x", "s3:GetObjectVersion": "{place}x",
}  # fmt: skip
BUCKET_ACTIONS = (
    "s3:ListBucketMultipartUploads", "s3:ListBucketVersions", "s3:PutBucketPolicy", "s3:DeleteBucket",
    "s3:PutLifecycleConfiguration", "s3:PutReplicationConfiguration", "s3:GetBucketPolicy",
)  # fmt: skip
SECRET_ACTIONS = ("secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue", "secretsmanager:DeleteSecret")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("environments")
    text = TEXT.replace("\ntask_governance:", f"{NLP}\ntask_governance:").replace("count: 4,", "count: 5,")
    text = text.replace("count: 3,", "count: 4,").replace("\nray:\n", f"\nray:{ACCESS}", 1)
    text = text.replace("  instance_groups:\n", "  tiered_storage: {memory_percent: 20}\n  instance_groups:\n", 1)
    (made / "apart.yaml").write_text(text)
    return made


@pytest.fixture(scope="module")
def assembly(folder: Path) -> Assembly:
    return synthesize("apart", folder=folder)


@pytest.fixture(scope="module")
def roles(assembly: Assembly) -> dict[str, tuple[str, list[Any], list[Any]]]:
    """Namespace to ARN, trust and permissions of the role that its pods get."""
    references = References(assembly.templates, account="111122223333", region="us-west-2")
    made = {}
    for association in associations(assembly, SERVICE_ACCOUNT).values():
        properties = references.resolve("apart-Ray", association["Properties"])
        arn = str(properties["RoleArn"])
        trust: list[Any] = []
        permissions: list[Any] = []
        for key, role in assembly.of_type("AWS::IAM::Role").items():
            stack, _, logical_id = key.partition("/")
            if references.arn(stack, logical_id) == arn:
                assert not role["Properties"].get("ManagedPolicyArns")
                trust = statements_of(references.resolve(stack, role["Properties"]["AssumeRolePolicyDocument"]))
        for key, policy in assembly.of_type("AWS::IAM::Policy").items():
            content = references.resolve(key.partition("/")[0], policy["Properties"])
            if arn.rpartition("/")[2] in content["Roles"]:
                permissions += statements_of(content["PolicyDocument"])
        made[str(properties["Namespace"])] = (arn, trust, permissions)
    return made


def own_places(folder: Path, name: str) -> list[str]:
    """ARNs with a prefix that a team writes, by the environment's file."""
    plan = load("apart", folder=folder).plan
    team = team_of(plan, name)
    assert team is not None
    tier = tier_of(plan, team)
    assert tier is not None
    written = [entry for entry in access_of(plan, team).s3 if entry.mode == "write"]
    return [f"arn:aws:s3:::{entry.bucket}/{entry.prefix}" for entry in (*written, tier)]


def test_no_two_namespaces_share_a_role(roles: dict[str, tuple[str, list[Any], list[Any]]]) -> None:
    assert set(roles) == {"ray", *map(team_namespace, TEAMS)}
    assert len({arn for arn, _, _ in roles.values()}) == len(roles)


@pytest.mark.parametrize(("mine", "theirs"), list(itertools.product(["ray", *TEAMS], repeat=2)))
def test_a_role_is_of_one_namespace(roles: dict[str, tuple[str, list[Any], list[Any]]], mine: str, theirs: str) -> None:
    space, asking = (name if name == "ray" else team_namespace(name) for name in (mine, theirs))
    _, trust, _ = roles[space]
    tags = {
        "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:us-west-2:111122223333:cluster/ray-teams-eks",
        "aws:RequestTag/kubernetes-namespace": asking,
        "aws:RequestTag/kubernetes-service-account": "ray",
        "aws:SourceAccount": "111122223333",
    }
    for action in ("sts:AssumeRole", "sts:TagSession"):
        asked = Request(action=action, service="pods.eks.amazonaws.com", context=tags)
        assert allows(trust, asked) is (mine == theirs)


@pytest.mark.parametrize(("hostile", "friendly"), list(itertools.permutations(TEAMS, 2)))
def test_a_team_has_no_right_to_what_another_has(
    roles: dict[str, tuple[str, list[Any], list[Any]]], folder: Path, hostile: str, friendly: str
) -> None:
    _, _, permissions = roles[team_namespace(hostile)]
    via = {"kms:ViaService": "s3.us-west-2.amazonaws.com"}
    for place in own_places(folder, friendly):
        bucket, _, prefix = place.removeprefix("arn:aws:s3:::").partition("/")
        for action, form in ACTIONS.items():
            resource = form.format(place=place)
            assert not allows(permissions, Request(action=action, resource=resource, context=via)), (action, resource)
        for listed in (prefix, prefix.rstrip("/"), f"{prefix}runs/", ""):
            context = {"s3:prefix": listed}
            asked = Request(action="s3:ListBucket", resource=f"arn:aws:s3:::{bucket}", context=context)
            assert not allows(permissions, asked), (bucket, listed)
        for action in BUCKET_ACTIONS:
            assert not allows(permissions, Request(action=action, resource=f"arn:aws:s3:::{bucket}")), action
    for secret in ("nlp-AbCdEf", "standing-AbCdEf"):
        if (hostile, secret) != ("nlp", "nlp-AbCdEf"):
            for action in SECRET_ACTIONS:
                assert not allows(permissions, Request(action=action, resource=f"{SECRET}{secret}")), (action, secret)
    arn = roles[team_namespace(friendly)][0]
    for action in ("sts:AssumeRole", "iam:PassRole", "eks:UpdatePodIdentityAssociation", "sagemaker:UpdateCluster"):
        assert not allows(permissions, Request(action=action, resource=arn))


def test_every_action_of_a_role_is_its_own_or_shared_and_both_evaluators_say_so(
    roles: dict[str, tuple[str, list[Any], list[Any]]], folder: Path
) -> None:
    """Each action of each role on each resource that it names, asked by every other; MiniStack's evaluator decides too.

    What two roles both may is to read the data sets and to use their key, to send metrics and to ask where a bucket is.
    """
    by_space = {space: permissions for space, (_, _, permissions) in roles.items()}
    pairs = sorted({(action, resource) for permissions in by_space.values() for statement in permissions
                    for action in many(statement["Action"]) for resource in many(statement["Resource"])})  # fmt: skip
    prefixes = ["", "public/", "teams/vision/x", "teams/speech/x", "prod/teams/vision/x"]
    services = [{"kms:ViaService": f"{service}.us-west-2.amazonaws.com"} for service in ("s3", "secretsmanager")]
    listed = [{"s3:prefix": prefix} for prefix in prefixes]
    contexts: list[dict[str, str]] = [{}, *listed, *services, {"cloudwatch:namespace": "/aws/sagemaker/Clusters"}]
    asked = [
        (space, Request(action=action, resource=resource, context=context))
        for space in by_space for action, resource in pairs for context in contexts
    ]  # fmt: skip
    ours = [allows(by_space[space], request) for space, request in asked]
    theirs = ministack_iam.decisions((by_space[space], request) for space, request in asked)
    assert [row for row, mine, other in zip(asked, ours, theirs, strict=True) if mine is not other] == []
    holders: dict[tuple[str, str, str], set[str]] = {}
    for (space, request), allowed in zip(asked, ours, strict=True):
        if allowed and space != "ray":
            key = (request.action, request.resource, json.dumps(dict(request.context)))
            holders.setdefault(key, set()).add(space)
    shared = {(action, resource) for (action, resource, _), spaces in holders.items() if len(spaces) > 1}
    assert shared == {
        ("s3:ListBucket", "arn:aws:s3:::data-sets"), ("s3:GetObject", "arn:aws:s3:::data-sets/public/*"),
        *(("s3:GetBucketLocation", f"arn:aws:s3:::{bucket}") for bucket in ("data-sets", "outputs", "results")),
        ("s3:GetBucketLocation", f"arn:aws:s3:::{load('apart', folder=folder).plan.tier_bucket_name}"),
        ("kms:Decrypt", KEY), ("kms:GenerateDataKey", KEY), ("cloudwatch:PutMetricData", "*"),
    }  # fmt: skip


@pytest.mark.parametrize("name", TEAMS)
def test_a_team_has_what_it_needs(roles: dict[str, tuple[str, list[Any], list[Any]]], folder: Path, name: str) -> None:
    """The friendly team notices nothing: its own places to write, the environment's data to read, its secret."""
    _, _, permissions = roles[team_namespace(name)]
    places = own_places(folder, name)
    assert len(places) == (2 if name == "nlp" else 3)
    for place in places:
        for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
            assert allows(permissions, Request(action=action, resource=f"{place}run/step"))
    if name != "nlp":
        assert allows(permissions, Request(action="s3:GetObject", resource="arn:aws:s3:::data-sets/public/x"))
        assert not allows(permissions, Request(action="s3:PutObject", resource="arn:aws:s3:::data-sets/public/x"))
        through = {"kms:ViaService": "s3.us-west-2.amazonaws.com"}
        assert allows(permissions, Request(action="kms:Decrypt", resource=KEY, context=through))
    else:
        assert allows(permissions, Request(action="secretsmanager:GetSecretValue", resource=f"{SECRET}nlp-AbCdEf"))


def test_an_association_keeps_its_id_when_its_role_becomes_the_teams_own(assembly: Assembly) -> None:
    """EKS refuses a second association of a namespace and account, and CloudFormation creates before it deletes."""
    ids = {key.partition("/")[2] for key in associations(assembly, SERVICE_ACCOUNT)}
    assert all(name.startswith("IdentityAssociation") for name in ids), ids


def test_the_jobs_checks_know_the_teams_places(folder: Path) -> None:
    from hyperpod_ray.core import job_checks
    from hyperpod_ray.core.job import Job

    plan = load("apart", folder=folder).plan
    vision = team_of(plan, "vision")
    assert vision is not None

    def said(**fields: Any) -> list[str]:
        job = Job(**{"command": "python main.py", "team": "vision", "workers": 1, "name": "a", **fields})
        return [finding.message for finding in job_checks.run(plan, job) if finding.severity == "error"]

    assert said(storage="s3://outputs/teams/vision/runs") == []
    for place in ("s3://outputs/teams/speech/runs", "s3://outputs/runs", "s3://nlp-only/x"):
        (message,) = said(storage=place)
        assert "may not write" in message and "teams[0].access.s3" in message
    (message,) = said(secrets={"TOKEN": f"{SECRET}standing-AbCdEf"})
    assert "teams[0].access.secret_arns" in message
    access = as_team(plan, vision).settings.ray.access
    assert access is not None
    assert [entry.prefix for entry in access.s3 if entry.bucket == "outputs"] == ["teams/vision/"]
