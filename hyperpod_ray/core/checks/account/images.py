"""Rules about repositories and images that exist: nodes may pull them, and they run on the nodes' processors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.checks.account import policies
from hyperpod_ray.core.checks.account.keys import readable_secret
from hyperpod_ray.core.checks.lookup import known_groups
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.image_build import CodeArtifact
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules.arns import arn_of

Json = dict[str, Any]
NAME = ("image", "repository_name")
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
PROCESSORS = {"x86_64": "amd64", "arm64": "arm64"}
"""Ours, then as an image's index has it."""


@rule("image", "account", needs="account", title="repository")
def repository_serves_the_nodes(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """A repository that is taken up has tags that do not move, and a policy that lets the account pull.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-policies.html
    """
    built = plan.built_image
    if built is None or not built.repository_exists:
        named = "the image exists" if plan.existing_image else "the file names no image"
        yield skipped("the Image stack creates it" if built else named)
        return
    name = plan.image_repository
    answer = found(account, "ecr", "describe_repositories", repositoryNames=[name])
    if answer is None:
        yield skipped("it is not there")  # the rule "left behind" says so
        return
    findings = []
    if answer["repositories"][0].get("imageTagMutability", "MUTABLE") == "MUTABLE":
        findings.append(
            warning(
                *NAME,
                what=f"tags of {name} are mutable: an image can change under a running cluster",
                expected="immutable tags, as a repository of the stack has",
                fix=f"aws ecr put-image-tag-mutability --repository-name {name} --image-tag-mutability IMMUTABLE",
            )
        )
    if policies.denies(_policy(account, name), action="ecr:BatchGetImage", whom=(f":{plan.settings.account}:",)):
        findings.append(
            warning(
                *NAME,
                what=f"the policy of {name} denies pulls",
                expected="a policy that lets the nodes' role pull",
                fix=f"aws ecr get-repository-policy --repository-name {name}, and correct it",
            )
        )
    yield from findings or [fine(*NAME, what=name)]


@rule("image", "region", needs="account", title="package index")
def package_index_is_there(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """What an image build needs of its package index is there: the repository of CodeArtifact, or the secret.

    https://docs.aws.amazon.com/codeartifact/latest/APIReference/API_DescribeRepository.html
    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html
    """
    built = plan.built_image
    source = built.index if built else None
    if source is None:
        yield skipped("the build asks PyPI or no index" if built else "no image is built")
        return
    for name in ("codeartifact_arn", "secret_arn"):
        arn = getattr(source, name)
        if arn and arn_of(arn).region != plan.settings.region:
            yield skipped(f"{name} is of {arn_of(arn).region}: it was not asked")
            return
    if source.codeartifact_arn:
        yield _repository(account, CodeArtifact.parse(source.codeartifact_arn))
    elif source.secret_arn:
        path = ("image", "index", "secret_arn")
        change = (
            f"aws secretsmanager update-secret --secret-id {source.secret_arn} --kms-key-id alias/aws/secretsmanager"
        )
        yield readable_secret(account, path, source.secret_arn, reader="the build's role", of="the index", fix=change)
    else:
        yield skipped("an index by its address cannot be asked")


def _repository(account: Account, codeartifact: CodeArtifact) -> Finding:
    path, address = ("image", "index", "codeartifact_arn"), f"{codeartifact.domain}/{codeartifact.repository}"
    answer = found(
        account,
        "codeartifact",
        "describe_repository",
        domain=codeartifact.domain,
        domainOwner=codeartifact.owner,
        repository=codeartifact.repository,
    )
    if answer is None:
        return error(
            *path,
            what=f"{address}: no such repository in {codeartifact.region}",
            expected=f"a repository of CodeArtifact, in a domain of {codeartifact.owner}",
            fix="correct the ARN, or create the repository",
        )
    return fine(*path, what=address)


def _policy(account: Account, name: str) -> str:
    try:
        return str(account.call("ecr", "get_repository_policy", repositoryName=name).get("policyText", ""))
    except Exception as bad:
        if code(bad) == "RepositoryPolicyNotFoundException":
            return ""
        raise


@rule("image", "hyperpod", "ray", needs="account", title="image's processor")
def image_runs_on_the_nodes(plan: Plan, account: Account) -> Iterator[Finding]:
    """An image of several platforms has that of the nodes. Of an image of one platform, ECR shows none.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_BatchGetImage.html
    """
    uri = plan.existing_image
    reference = Reference.parse(uri) if uri else None
    if reference is None or reference.ecr is None or reference.ecr[1] != plan.settings.region:
        yield skipped("the deployment builds the image" if uri is None else "it is not in ECR of this Region")
        return
    answer = found(
        account,
        "ecr",
        "batch_get_image",
        registryId=reference.ecr[0],
        repositoryName=reference.repository,
        imageIds=[{"imageDigest": reference.digest}],
        acceptedMediaTypes=list(INDEXES),
    )
    texts = [str(candidate.get("imageManifest", "")) for candidate in (answer or {}).get("images", [])]
    listed = [part for text in texts for part in _parts(text)]
    architectures = sorted(
        {str((part.get("platform") or {}).get("architecture", "")) for part in listed} - {"", "unknown"}
    )
    groups = [group for _, group in known_groups(plan)]
    processors = sorted({PROCESSORS[plan.type_spec(group.type).architecture] for group in groups})
    if not architectures:
        yield skipped("the image has one platform, which ECR does not show")
    elif missing := [candidate for candidate in processors if candidate not in architectures]:
        yield error(
            "image",
            "uri",
            what=f"the image is for {', '.join(architectures)}",
            expected=f"one for {', '.join(missing)}, as the nodes have",
            fix=f"build it with --platform linux/{missing[0]}, and name its digest",
        )
    else:
        yield fine("image", "uri", what=f"for {', '.join(architectures)}")


def _parts(text: str) -> list[Json]:
    try:
        data = json.loads(text)
    except ValueError:
        return []
    found_ = data.get("manifests") if isinstance(data, dict) else None
    return [manifest for manifest in found_ if isinstance(manifest, dict)] if isinstance(found_, list) else []
