"""What tests of `dashboard`, `on_slurm`, `slurm_role`, `slurm_stacks` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.test_variants import VARIANTS
from tests.support.iam import statements_of
from tests.support.references import References

EXAMPLES = FOLDER / "examples"


@pytest.fixture(scope="module")
def example() -> Assembly:
    return synthesize("slurm", folder=EXAMPLES)


@pytest.fixture(scope="module")
def options() -> Assembly:
    return synthesize("slurm-options", folder=VARIANTS)


@pytest.fixture(scope="module")
def built() -> Assembly:
    return synthesize("slurm-built", folder=VARIANTS)


@pytest.fixture(params=["example", "options", "built"])
def either(request: pytest.FixtureRequest) -> Assembly:
    found: Assembly = request.getfixturevalue(request.param)
    return found


def folder_of(made: Assembly) -> Path:
    return EXAMPLES if made.name == "slurm" else VARIANTS


def references(made: Assembly) -> References:
    return References(made.templates, account="111122223333", region="us-west-2")


def permissions(made: Assembly, node_type: str = "Controller") -> list[Any]:
    """Statements of every policy of the role of one type of nodes, with what they refer to."""
    found: list[Any] = []
    groups = made.one("AWS::SageMaker::Cluster")["InstanceGroups"]
    (role,) = {json.dumps(group["ExecutionRole"]) for group in groups if group["SlurmConfig"]["NodeType"] == node_type}
    logical_id = json.loads(role)["Fn::GetAtt"][0]
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for key, row in made.of_type(kind).items():
            if logical_id in json.dumps(row["Properties"]["Roles"]):
                resolved = references(made).resolve(key.partition("/")[0], row["Properties"]["PolicyDocument"])
                found += statements_of(resolved)
    return found


def statements(made: Assembly) -> dict[str, dict[str, Any]]:
    """Statements of the nodes' own policy, by their names."""
    policies = [
        resource["Properties"]["PolicyDocument"]["Statement"]
        for resource in made.of_type("AWS::IAM::ManagedPolicy").values()
        if "on Slurm" in resource["Properties"].get("Description", "")
    ]
    policy = max(policies, key=len)  # the controller's, where jobs have another
    return {statement["Sid"]: statement for statement in policy}


def alarms(made: Assembly, metric: str) -> list[dict[str, Any]]:
    found = made.of_type("AWS::CloudWatch::Alarm").values()
    return [row["Properties"] for row in found if row["Properties"].get("MetricName") == metric]
