from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import assertions

from hyperpod_ray.constructs.build_environment import BuildEnvironment, SecretAccess, extended
from hyperpod_ray.constructs.image import TrainingImage


def test_what_starts_a_build_gives_it_a_tag_of_its_own(tmp_path: Path) -> None:
    """CloudFormation starts one when a property of it changes, and its repository takes no tag twice."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    secret = SecretAccess(secret_arn="arn:aws:secretsmanager:us-west-2:111122223333:secret:index-AbCdEf")
    login = BuildEnvironment(index=secret, credentials=["true"], credentials_file="/tmp/netrc")
    base = BuildEnvironment(base_repository_arn="arn:aws:ecr:us-west-2:1:repository/a", base_registry="1.dkr.ecr.x.y")
    options: list[dict[str, Any]] = [
        {},
        {"environment": login},
        {"environment": base},
        {"build_args": {"A": "1"}},
        {"build_args": {"A": "1"}, "environment": login},
    ]
    made = []
    for number, given in enumerate(options):
        app = aws_cdk.App(builtin_cloud_formation_validation=False)
        stack = aws_cdk.Stack(app, f"build-{number}")
        TrainingImage(stack, "Image", repository_name="ray", keep_images=3, retain=False, context=tmp_path, **given)
        (build,) = assertions.Template.from_stack(stack).find_resources("Custom::CDKContainerImageBuild").values()
        tag = build["Properties"].pop("imageTag")
        names = {key: value for key, value in build["Properties"].items() if key != "codeBuildProjectName"}
        made.append((json.dumps(names, sort_keys=True), tag))
    for one, other in itertools.combinations(made, 2):
        assert (one[0] == other[0]) == (one[1] == other[1])
    assert len(set(made)) == 4, "a base is pulled by commands of the project, which start no build"


def test_a_specification_without_the_build_is_refused() -> None:
    spec = json.dumps({"version": "0.2", "phases": {"build": {"commands": ["docker build ."]}}})
    with pytest.raises(ValueError, match="0 commands 'eval"):
        extended(spec, ["true"], public=True)
