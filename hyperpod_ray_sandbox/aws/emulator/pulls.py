"""Whether a HyperPod node can pull an image: its role, its routes, the registry. The answer is containerd's own error.

Amazon ECR of this account holds what was pushed here; of other accounts' registries it is assumed that they hold the
image and let this account pull. Registries on the internet are assumed to hold everything. No byte is transferred.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_rules import data, names
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.reach import Reach
from hyperpod_ray_sandbox.aws.emulator.roles import Roles
from hyperpod_ray_sandbox.aws.emulator.sagemaker import SageMaker

Json = dict[str, Any]
_ECR = re.compile(r"^(\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
TIMEOUT = 'failed to do request: Head "{url}": dial tcp: {host}:443: i/o timeout'
# of a manifest and of a layer, as AmazonEC2ContainerRegistryPullOnly has them
PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
# without these no pod of the node gets an address; EKS installs them, as an add-on or by itself
NODE_ADDONS = (names.CNI_ADDON, names.PROXY_ADDON)


class Pulls:
    """Judges pulls of the nodes of the account and region in progress."""

    def __init__(self, context: Context, roles: Roles, sagemaker: SageMaker) -> None:
        self._hooks, self._roles, self._sagemaker = context.hooks, roles, sagemaker

    def judge(self, instance_id: str, image: str) -> str:
        """Return why a node cannot pull an image, or nothing."""
        role, subnet, groups = self._sagemaker.place(instance_id)
        reach = Reach(self._hooks, self._roles, subnet=subnet, groups=groups)
        host, repository, tag = parse(image)
        full = f"{host}/{repository}{tag}"
        match = _ECR.match(host)
        problem = self._from_ecr(reach, role, match.groups(), repository, tag) if match else _from_afar(reach)
        if not problem:
            return ""
        stage, text = problem
        reference = tag.removeprefix("@").removeprefix(":")
        text = text.format(url=f"https://{host}/v2/{repository}/manifests/{reference}", host=host, full=full)
        resolving = f'failed to resolve reference "{full}": ' if stage == "resolve" else "failed to copy: "
        return f'failed to pull and unpack image "{full}": {resolving}{text}'

    def network_of(self, instance_id: str) -> str:
        """Return why a node gets no pod network: an image of its CNI, or of every pod's sandbox, is out of reach."""
        catalogue, region = data.read("eks_images.yaml"), self._hooks.region()
        registries = catalogue["eks_registries"]
        account = registries["others"].get(region, registries["default"])
        named = [*catalogue["node_images"], *(r for addon in NODE_ADDONS for r in catalogue["addons"][addon])]
        for repository in named:
            reason = self.judge(instance_id, f"{account}.dkr.ecr.{region}.amazonaws.com/{repository}:latest")
            if reason:
                return reason
        return ""

    def _from_ecr(
        self, reach: Reach, role: str, registry: tuple[str, ...], repository: str, tag: str
    ) -> tuple[str, str] | None:
        account, region = registry
        own_account, in_region = self._hooks.account(), region == self._hooks.region()
        arn = f"arn:aws:ecr:{region}:{account}:repository/{repository}"
        token = "ecr:GetAuthorizationToken"  # noqa: S105  (an action)

        def reached(service: str, action: str, resource: str, owner: str) -> bool:
            return reach.service(service, action, resource, account=owner) if in_region else reach.internet()

        if self._roles.refusal(role, token) or not reached("ecr.api", token, "*", own_account):
            return "resolve", (
                "pull access denied, repository does not exist or may require authorization: "
                "authorization failed: no basic auth credentials"
            )
        if not reached("ecr.dkr", PULL[0], arn, own_account) and not self._endpoint_refuses(reach, arn):
            return "resolve", TIMEOUT
        denied = any(self._roles.refusal(role, action, arn) for action in PULL)
        if denied or not all(reached("ecr.dkr", action, arn, own_account) for action in PULL):
            return "resolve", "unexpected status from HEAD request to {url}: 403 Forbidden"
        if account == own_account and in_region and not self._pushed(repository, tag):
            return "resolve", "{full}: not found"
        layers = f"arn:aws:s3:::prod-{region}-starport-layer-bucket/layer"
        if not reached("s3", "s3:GetObject", layers, ""):
            bucket = f"prod-{region}-starport-layer-bucket.s3.{region}.amazonaws.com"
            return "copy", f'httpReadSeeker: failed open: failed to do request: Get "https://{bucket}/": i/o timeout'
        return None

    def _endpoint_refuses(self, reach: Reach, arn: str) -> bool:
        """Whether the registry answers, and it is the endpoint's policy that says no."""
        return reach.endpoint("ecr.dkr") and not reach.service("ecr.dkr", PULL[0], arn, account=self._hooks.account())

    def _pushed(self, repository: str, tag: str) -> bool:
        images = self._hooks.ecr._images.get(repository) or []
        reference = tag[1:]
        if tag.startswith("@"):
            return any(image.get("imageDigest") == reference for image in images)
        return any(reference in image.get("imageTags", []) for image in images)


def _from_afar(reach: Reach) -> tuple[str, str] | None:
    return None if reach.internet() else ("resolve", TIMEOUT)


def parse(image: str) -> tuple[str, str, str]:
    """Host, repository, and `:tag` or `@digest` of an image, as container runtimes read it.

    https://github.com/distribution/reference/blob/main/normalize.go
    """
    name, at, digest = image.partition("@")
    prefix, slash, rest = name.partition("/")
    host, path = (prefix, rest) if slash and ("." in prefix or ":" in prefix or prefix == "localhost") else ("", name)
    path, _, tag = path.partition(":")
    if not host:
        host, path = "docker.io", path if "/" in path else f"library/{path}"
    return host, path, f"{at}{digest}" if digest else f":{tag or 'latest'}"
