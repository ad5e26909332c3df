"""What an image build asks of AWS besides its push: read from its specification and its Docker command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"aws codeartifact get-authorization-token --domain (?P<domain>\S+) --domain-owner (?P<owner>\d{12}) "
    r"--region (?P<region>\S+)"
)
_SECRET = re.compile(r"aws secretsmanager get-secret-value --secret-id (arn:\S+)")
_INDEX = re.compile(
    r"https://(?P<domain>[a-z0-9-]+)-(?P<owner>\d{12})\.d\.codeartifact\.(?P<region>[a-z0-9-]+)\.amazonaws\.com"
    r"/pypi/(?P<repository>[^/\s]+)/"
)
_BASE = re.compile(
    r"BASE_IMAGE=(?P<owner>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<repository>[^:@\s]+)"
)
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """An action on a resource, with condition keys."""

    action: str
    resource: str
    keys: dict[str, str] = field(default_factory=dict)


def requests_of(spec: str, command: str, *, partition: str = "aws") -> list[BuildRequest]:
    """Requests of a build's commands, in their order.

    A token of CodeArtifact needs a bearer token of STS too.
    https://docs.aws.amazon.com/codeartifact/latest/ug/tokens-authentication.html

    Args:
        spec: Build specification.
        command: What the specification evaluates as `$buildCommand`.
    """
    requests = []
    for match in _TOKEN.finditer(spec):
        domain = f"arn:{partition}:codeartifact:{match['region']}:{match['owner']}:domain/{match['domain']}"
        requests.append(BuildRequest(action="codeartifact:GetAuthorizationToken", resource=domain))
        bearer = {"sts:AWSServiceName": "codeartifact.amazonaws.com"}
        requests.append(BuildRequest(action="sts:GetServiceBearerToken", resource="*", keys=bearer))
    requests += [
        BuildRequest(action="secretsmanager:GetSecretValue", resource=match[1]) for match in _SECRET.finditer(spec)
    ]
    for match in _INDEX.finditer(command):
        arn = f"arn:{partition}:codeartifact:{match['region']}:{match['owner']}"
        repository = f"{arn}:repository/{match['domain']}/{match['repository']}"
        requests.append(BuildRequest(action="codeartifact:ReadFromRepository", resource=repository))
    for match in _BASE.finditer(command):
        arn = f"arn:{partition}:ecr:{match['region']}:{match['owner']}:repository/{match['repository']}"
        requests += [BuildRequest(action=action, resource=arn) for action in PULL]
    return requests
