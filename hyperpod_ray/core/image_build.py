"""How CodeBuild gets what an image is made of: base, package index, wheels, and the network that it runs in."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.model import BuiltImage, PackageIndex
from hyperpod_ray_rules.arns import arn_of

PYPI: Final = "https://pypi.org/simple"
PYPI_HOSTS: Final = ("pypi.org", "files.pythonhosted.org")
NETRC: Final = "/tmp/netrc"  # noqa: S108  (of a build container that nobody else has)
"""File of a build that has the user and the password of the package index, as pip reads them."""
_WRITE_LOGIN: Final = (
    "import json, sys; s = json.load(sys.stdin); q = lambda k: json.dumps(s[k], ensure_ascii=False); "
    "print('machine', sys.argv[1], 'login', q('username'), 'password', q('password'))"
)
TOKEN_SECONDS: Final = 3600
"""How long a token of CodeArtifact is valid: as long as a build may take."""


@dataclass(frozen=True, kw_only=True)
class CodeArtifact:
    """A repository of AWS CodeArtifact, by the parts of its ARN.

    https://docs.aws.amazon.com/codeartifact/latest/ug/python-configure-pip.html
    """

    partition: str
    region: str
    owner: str
    """Account of the domain."""
    domain: str
    repository: str

    @classmethod
    def parse(cls, arn: str) -> CodeArtifact:
        """From the ARN of a repository."""
        partition, _, region, owner, resource = arn_of(arn)
        _, domain, repository = resource.split("/", 2)
        return cls(partition=partition, region=region, owner=owner, domain=domain, repository=repository)

    @property
    def domain_arn(self) -> str:
        """ARN of the domain, which gives tokens."""
        return f"arn:{self.partition}:codeartifact:{self.region}:{self.owner}:domain/{self.domain}"

    @property
    def host(self) -> str:
        """Where pip asks."""
        return f"{self.domain}-{self.owner}.d.codeartifact.{self.region}.amazonaws.com"

    @property
    def url(self) -> str:
        """What pip's `--index-url` takes, without credentials."""
        return f"https://{self.host}/pypi/{self.repository}/simple/"


def index_url(index: PackageIndex | None) -> str:
    """Address of the index that a build asks, without credentials."""
    if index is None:
        return PYPI
    return CodeArtifact.parse(index.codeartifact_arn).url if index.codeartifact_arn else index.url or PYPI


def index_host(index: PackageIndex | None) -> str:
    """Its host."""
    return urlsplit(index_url(index)).hostname or ""


def credential_commands(index: PackageIndex | None, *, file: str = NETRC) -> list[str]:
    """Shell commands by which a build writes the index's user and password for pip; none where it asks for none.

    Neither is an argument of a process or part of a log. pip reads the file that the variable NETRC names.
    https://pip.pypa.io/en/stable/topics/authentication/#netrc-support
    """
    host = index_host(index)
    if index is not None and index.codeartifact_arn:
        repository = CodeArtifact.parse(index.codeartifact_arn)
        ask = (
            f"aws codeartifact get-authorization-token --domain {repository.domain} --domain-owner {repository.owner} "
            f"--region {repository.region} --duration-seconds {TOKEN_SECONDS} --query authorizationToken --output text"
        )
        # the shell's own printf: a program's arguments could be seen
        write = f"printf 'machine {host} login aws password %s\\n' \"$token\" > {file}"
        return [f'(umask 077 && token=$({ask}) && test -n "$token" && {write})']
    if index is not None and index.secret_arn:
        ask = (
            f"aws secretsmanager get-secret-value --secret-id {index.secret_arn} "
            f"--region {arn_of(index.secret_arn).region} --query SecretString --output text"
        )
        return [f"(umask 077 && {ask} | python3 -c {shlex.quote(_WRITE_LOGIN)} {host} > {file})"]
    return []


def base_repository(image: BuiltImage) -> Reference | None:
    """The Amazon ECR repository that a build takes its base from; None where it is of another registry."""
    base = Reference.parse(image.base) if image.base else None
    return base if base is not None and base.ecr else None
