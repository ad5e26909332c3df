"""A build pushes with its project's role, reads what its commands name, and fails as the role is denied."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from hyperpod_ray.core.image_build import credential_commands, index_url
from hyperpod_ray.core.model import PackageIndex
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


class TestCodeBuild:
    @pytest.fixture
    def said(self) -> list[str]:
        return []

    @pytest.fixture
    def build(self, emulator: Emulator, name: str, said: list[str]) -> Any:
        codebuild = emulator.boto("codebuild")
        emulator.boto("ecr").create_repository(repositoryName=name)

        def run(role: str, *, spec: str = "version: 0.2", command: str = "") -> tuple[str, list[str]]:
            codebuild.create_project(
                name=f"{name}-{uuid.uuid4().hex[:4]}",
                source={"type": "NO_SOURCE", "buildspec": spec},
                artifacts={"type": "NO_ARTIFACTS"},
                environment={"type": "LINUX_CONTAINER", "image": "x", "computeType": "BUILD_GENERAL1_SMALL"},
                serviceRole=role,
            )
            project = codebuild.list_projects()["projects"]
            mine = next(p for p in project if p.startswith(name))
            uri = f"000000000001.dkr.ecr.us-west-2.amazonaws.com/{name}"
            variables = {"repositoryUri": uri, "imageTag": "1", "buildCommand": command}
            started = codebuild.start_build(
                projectName=mine,
                environmentVariablesOverride=[{"name": k, "value": v} for k, v in variables.items()],
            )["build"]["id"]
            found = until(
                lambda: (
                    (b := codebuild.batch_get_builds(ids=[started])["builds"][0])["buildStatus"] != "IN_PROGRESS" and b
                )
            )
            status = found["buildStatus"]
            said.append(found["phases"][0]["contexts"][0]["message"] if status == "FAILED" else "")
            codebuild.delete_project(name=mine)
            images = emulator.boto("ecr").list_images(repositoryName=name)["imageIds"]
            return str(status), [image["imageTag"] for image in images]

        return run

    def test_the_projects_role_pushes(self, emulator: Emulator, name: str, build: Any, said: list[str]) -> None:
        iam = emulator.boto("iam")
        trust = roles.trust("codebuild.amazonaws.com")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        own = f"arn:aws:ecr:us-west-2:000000000001:repository/{name}"
        for ours in (True, False):
            account = "000000000001" if ours else "999999999999"
            document = json.loads(trust)
            document["Statement"][0]["Condition"] = {
                "StringEquals": {"aws:SourceAccount": account},
                "ArnLike": {"aws:SourceArn": f"arn:aws:codebuild:us-west-2:{account}:project/{name}*"},
            }
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(document))
            assert build(role) == ("FAILED", [])
            assert ("sts:AssumeRole" in said[-1]) is not ours, "a stranger's project"
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust)
        push = ["ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart",
                "ecr:CompleteLayerUpload", "ecr:PutImage"]  # fmt: skip
        token = {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"}
        for actions, resource, expected in (
            (push, own + "-other", ("FAILED", [])),
            (push[:-1], own, ("FAILED", [])),
            (push, own, ("SUCCEEDED", ["1"])),
        ):
            statement = {"Effect": "Allow", "Action": actions, "Resource": resource}
            document = json.dumps({"Version": "2012-10-17", "Statement": [token, statement]})
            iam.put_role_policy(RoleName=name, PolicyName="push", PolicyDocument=document)
            assert build(role) == expected
            assert ("is not authorized to perform: ecr:" in said[-1]) is (expected[0] == "FAILED")
        index = PackageIndex(codeartifact_arn="arn:aws:codeartifact:us-west-2:000000000001:repository/ml/pypi")
        spec, command = (
            credential_commands(index)[0],
            f"docker buildx build --build-arg PIP_INDEX_URL={index_url(index)}",
        )
        assert build(role, spec=spec, command=command)[0] == "FAILED"
        assert "codeartifact:GetAuthorizationToken" in said[-1]
