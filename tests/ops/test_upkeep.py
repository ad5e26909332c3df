from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest
from botocore.validate import validate_parameters

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import upkeep
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.ops_sources_helpers import Aws
from tests.ops.world import environment_text


@pytest.fixture
def target() -> Target:
    made = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    made.aws = Aws()  # type: ignore[assignment]
    return made


def test_a_review_says_what_ends_and_what_is_old(target: Target) -> None:
    ends, old = upkeep.sentences(target)
    assert ends.startswith("Training plan 'block' of group 'workers' ends in 20 h")
    assert "Group 'workers' runs an AMI that is no longer supported (2025.01.01, newest 2026.10.02)" in old
    assert "Next: `aws sagemaker update-cluster-software --cluster-name ray-ops" in old


def test_the_update_call_is_the_services_own() -> None:
    import json
    import shlex

    from hyperpod_ray.ops.verdict.upkeep import update_command

    words = shlex.split(update_command("ray-ops", "workers"))
    given = json.loads(words[words.index("--deployment-config") + 1])
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("UpdateClusterSoftware")
    assert model.input_shape is not None
    groups = [{"InstanceGroupName": "workers"}]
    validate_parameters(
        {"ClusterName": "ray-ops", "InstanceGroups": groups, "DeploymentConfig": given}, model.input_shape
    )


def test_a_review_without_rights_says_so(target: Target) -> None:
    target.aws.refused = True  # type: ignore[attr-defined]
    (sentence,) = upkeep.sentences(target)
    assert sentence.startswith("Training plans and AMIs of the running cluster are not known: ")
