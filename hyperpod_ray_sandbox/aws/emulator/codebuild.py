"""CodeBuild's StartBuild as a deploy-time image build uses it: the image tag appears, the stack gets its answer.

Nothing is built: there is no Docker here. The project's role must be allowed to push, and to read the base and the
packages that its commands name. The build is recorded, the tag
asked for is put into the emulated ECR repository, and the ResponseURL of the custom resource is answered as the build's
own last step would.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.build_requests import BuildRequest, requests_of
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]
# https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html
PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:InitiateLayerUpload",
    "ecr:UploadLayerPart",
    "ecr:CompleteLayerUpload",
    "ecr:PutImage",
)


def answer_builds(context: Context, roles: Roles) -> None:
    """Make StartBuild finish what `cdklabs.deploy-time-build` waits for."""
    codebuild = context.hooks.codebuild
    original = codebuild._start_build

    def start_build(data: Json) -> Any:
        answer = original(data)
        if answer[0] < 400:
            build = json.loads(answer[2])["build"]
            overrides = data.get("environmentVariablesOverride", [])
            variables = {v["name"]: v["value"] for v in overrides}
            record = codebuild._builds[build["id"]]
            record["environment"]["environmentVariables"] = copy.deepcopy(overrides)
            # MiniStack's is over at once
            record.update(buildStatus="IN_PROGRESS", currentPhase="BUILD", buildComplete=False)
            scope = (context.hooks.account(), context.hooks.region())
            threading.Thread(target=_finish, args=(context, roles, scope, build["id"], variables), daemon=True).start()
        return answer

    codebuild._start_build = start_build


def _finish(context: Context, roles: Roles, scope: tuple[str, str], build_id: str, variables: dict[str, str]) -> None:
    time.sleep(context.seconds_per_state)
    with context.hooks.responses.request_scope(*scope):
        reason = ""
        fault = context.faults.strike("codebuild", "Build")
        if fault:
            reason = fault.message
        elif "repositoryUri" in variables:
            project = context.hooks.codebuild._builds[build_id]["projectName"]
            role = str(context.hooks.codebuild._projects[project]["serviceRole"])
            spec = str(context.hooks.codebuild._projects[project].get("source", {}).get("buildspec", ""))
            sources = requests_of(spec, variables.get("buildCommand", ""))
            reason = _denied(context, roles, role, project, variables["repositoryUri"], sources=sources)
            reason = reason or _push(context, variables["repositoryUri"], variables["imageTag"])
        build = context.hooks.codebuild._builds[build_id]
        build.update(buildStatus="FAILED" if reason else "SUCCEEDED", currentPhase="COMPLETED", buildComplete=True)
        if reason:
            contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": reason}]
            build["phases"] = [{"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts}]
    token = variables.get("responseURL", "").rpartition("/")[2]
    if token:
        context.hooks.custom_resource.deliver_response(token, _response(variables, reason))


def _denied(
    context: Context, roles: Roles, role: str, project: str, repository_uri: str, *, sources: Sequence[BuildRequest]
) -> str:
    """Why the project's role cannot get the build's sources, or push; or nothing."""
    source = context.hooks.arn("codebuild", f"project/{project}")
    if not roles.trusts(role, service="codebuild.amazonaws.com", source=source):
        return f"CodeBuild is not authorized to perform: sts:AssumeRole on service role {role}"
    arn = context.hooks.arn("ecr", f"repository/{repository_uri.partition('/')[2]}")
    permissions = [("ecr:GetAuthorizationToken", "*"), *((action, arn) for action in PUSH)]
    every = [*sources, *(BuildRequest(action=action, resource=resource) for action, resource in permissions)]
    refused = (
        roles.refusal(role, request.action, request.resource, session="AWSCodeBuild", keys=request.keys)
        for request in every
    )
    return next(filter(None, refused), "")


def _response(variables: dict[str, str], reason: str) -> Json:
    return {
        "StackId": variables.get("stackId", ""),
        "RequestId": variables.get("requestId", ""),
        "LogicalResourceId": variables.get("logicalResourceId", ""),
        "PhysicalResourceId": variables.get("imageTag", ""),
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason,
        "Data": {"ImageTag": variables.get("imageTag", "")},
    }


def _push(context: Context, repository_uri: str, tag: str) -> str:
    """Put an empty image under a tag; return why that is not possible, or nothing."""
    ecr = context.hooks.ecr
    name = repository_uri.partition("/")[2]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:" + "0" * 64, "size": 2},
        "layers": [],
        "annotations": {"emulated": f"{name}:{tag}"},
    }
    media_type = str(manifest["mediaType"])
    status, _, body = ecr._put_image(
        {
            "repositoryName": name,
            "imageTag": tag,
            "imageManifest": json.dumps(manifest),
            "imageManifestMediaType": media_type,
        }
    )
    if status < 400:
        return ""
    error = json.loads(body)
    # the same content under the same immutable tag is what a rebuild pushes; ECR accepts that
    return "" if "AlreadyExists" in str(error.get("__type")) else str(error.get("message", error))
