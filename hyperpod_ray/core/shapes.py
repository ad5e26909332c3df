"""Forms of text that settings take: one pattern, what it is called, an example, and what an error adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from hyperpod_ray.core.names import REDIS_PORT


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A form of text.

    Attributes:
        pattern: Regular expression that the whole text matches.
        label: What it is, as a noun phrase with its article ("an AWS account ID").
        example: A text of this form.
        rule: What the pattern requires, for errors ("12 digits, in quotes"); empty where the example says enough.
        most: Characters that it may have; 0 where the pattern says it.
    """

    pattern: str
    label: str
    example: str
    rule: str = ""
    most: int = 0

    def field(self, **limits: Any) -> Any:
        """The pydantic constraint for an `Annotated[str, …]`; `limits` are others of `pydantic.Field`."""
        return Field(pattern=self.pattern, **({"max_length": self.most} if self.most else {}) | limits)

    @property
    def expected(self) -> str:
        """What an error message expects: `an AWS account ID (12 digits, in quotes), such as '123456789012'`."""
        return f"{self.label}{f' ({self.rule})' if self.rule else ''}, such as '{self.example}'"


_ALL: list[Shape] = []


def _shape(pattern: str, label: str, example: str, rule: str = "", *, most: int = 0) -> Shape:
    shape = Shape(pattern=pattern, label=label, example=example, rule=rule, most=most)
    _ALL.append(shape)
    return shape


_DIGEST = "0" * 64
_ARN = 2048

ACCOUNT_ID = _shape(r"^[0-9]{12}$", "an AWS account ID", "123456789012", "12 digits, in quotes")
REGION = _shape(r"^[a-z]{2}(-[a-z]+)+-[0-9]$", "an AWS Region", "us-west-2", most=50)
AVAILABILITY_ZONE_ID = _shape(
    r"^[a-z]{2,4}[0-9]-az[0-9]+$",
    "an Availability Zone ID",
    "usw2-az1",
    "not a name such as us-west-2a; aws ec2 describe-availability-zones lists the IDs",
)
VPC_ID = _shape(r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$", "a VPC ID", "vpc-0123456789abcdef0")
SUBNET_ID = _shape(r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$", "a subnet ID", "subnet-0123456789abcdef0")
SECURITY_GROUP_ID = _shape(r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$", "a security group ID", "sg-0123456789abcdef0")
FILE_SYSTEM_ID = _shape(r"^fs-[0-9a-f]{8,18}$", "an FSx file system ID", "fs-0123456789abcdef0")
MOUNT_NAME = _shape(
    r"^[A-Za-z0-9_-]{1,8}$", "a Lustre mount name", "fsx1abcd", "at most 8 letters, digits, hyphens or underscores"
)
CIDR = _shape(r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$", "an IPv4 CIDR block", "10.0.0.0/16")
ROLE_ARN = _shape(
    r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/([!-~]+/)*[A-Za-z0-9_+=,.@*?-]{0,64}$",
    "the ARN of an IAM role",
    "arn:aws:iam::123456789012:role/NAME",
    "a name of at most 64 letters, digits and _ + = , . @ -, without blanks",
    most=_ARN,
)
KEY_ARN = _shape(
    r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/(mrk-)?[0-9a-f-]{32,36}$",
    "the ARN of a KMS key",
    "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "the key's ID, not an alias",
    most=_ARN,
)
AMI_ID = _shape(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$", "the ID of an AMI", "ami-0123456789abcdef0")
TRAINING_PLAN_ARN = _shape(
    r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[a-zA-Z0-9](-*[a-zA-Z0-9]){0,63}$",
    "the ARN of a training plan",
    "arn:aws:sagemaker:us-west-2:123456789012:training-plan/NAME",
    most=_ARN,
)
GRAFANA_ARN = _shape(
    r"^arn:aws[a-z-]*:grafana:[a-z0-9-]+:[0-9]{12}:/workspaces/g-[0-9a-f]{10}$",
    "the ARN of an Amazon Managed Grafana workspace",
    "arn:aws:grafana:us-west-2:123456789012:/workspaces/g-0123456789",
)
WANDB_PROJECT = _shape(r"^[A-Za-z0-9._-]{1,128}$", "a project of Weights & Biases", "my-project")
TRACKING_URL = _shape(
    r"^https://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(/[A-Za-z0-9._~/-]*)?$",
    "an https address without port, user or query",
    "https://mlflow.example.com",
)
RUNBOOK_URL = _shape(
    r"^https://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$",
    "an https address without user, query or fragment",
    "https://docs.example.com/alarms/",
)
HTTPS = _shape(
    r"^https://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]{1,5})?(/[A-Za-z0-9._~/%=?&-]*)?$",
    "an https address without user or fragment",
    "https://alerts.example.com/sns",
)
PROXY_URL = _shape(
    r"^https?://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*:[0-9]{1,5}$",
    "an http or https address with a port, without user, password or path",
    "http://proxy.example.com:3128",
)
NO_PROXY = _shape(
    r"^\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(/[0-9]{1,2})?$",
    "a host, a domain or an IPv4 CIDR block",
    ".corp.example.com",
    "a leading dot means every host of the domain",
)
TOPIC_ARN = _shape(
    r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$",
    "the ARN of an SNS topic that is not FIFO",
    "arn:aws:sns:us-west-2:111122223333:on-call",
    most=1024,
)
SLACK_WORKSPACE = _shape(r"^[0-9A-Z]{1,255}$", "the ID of a Slack workspace", "T0123ABCDEF")
SLACK_CHANNEL = _shape(r"^[A-Za-z0-9]{1,255}$", "the ID of a Slack channel, not its name", "C0123ABCDEF")
TEAMS_ID = _shape(
    r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    "a UUID of Microsoft Entra",
    "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
)
TEAMS_CHANNEL = _shape(
    r"^[a-zA-Z0-9_=+/.,-]*%3[aA][a-zA-Z0-9_=+/.,-]*%40[a-zA-Z0-9_=+/.,-]*$",
    "the ID of a Teams channel as its link has it, with %3A and %40",
    "19%3Aabc123%40thread.tacv2",
)
WEEKLY_START = _shape(
    r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun):([01][0-9]|2[0-3]):[0-5][0-9]$",
    "a day and a time in UTC",
    "Tue:03:30",
    "the first three letters of the day, then hours and minutes; in quotes",
)
MLFLOW_ARN = _shape(
    r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:mlflow-(tracking-server|app)/[A-Za-z0-9](-*[A-Za-z0-9]){0,255}$",
    "the ARN of a SageMaker MLflow tracking server or app",
    "arn:aws:sagemaker:us-west-2:123456789012:mlflow-tracking-server/NAME",
    most=_ARN,
)
BUCKET = _shape(
    r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    "an S3 bucket name",
    "my-training-data",
    "3 to 63 lower-case letters, digits, hyphens and dots, without s3://",
)
PREFIX = _shape(
    r"^([^/*?${}\s\x00-\x1f\x7f-\x9f][^*?${}\x00-\x1f\x7f-\x9f\u2028\u2029]*/)?$",
    "an S3 prefix",
    "datasets/images/",
    "no leading slash, a slash at its end, no wildcard",
)
FILE_SYSTEM_PATH = _shape(
    r"^/([A-Za-z0-9_.=-]+(/[A-Za-z0-9_.=-]+)*)?$",
    "a folder of the file system",
    "/data/images",
    "a slash at its beginning, none at its end; letters, digits, _ . = -",
)
INSTANCE_TYPE = _shape(r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$", "a HyperPod instance type", "ml.p5.48xlarge")
HYPERPOD_NAME = _shape(
    r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
    "a HyperPod name",
    "gpu-workers",
    "letters, digits and hyphens, no underscore, at most 63, beginning and ending with a letter or digit",
    most=63,
)
TEAM = _shape(
    r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
    "a name of HyperPod task governance",
    "vision",
    "lower case letters, digits and hyphens, at most 40, beginning and ending with a letter or digit",
)
TEAM_FOLDER = _shape(
    r"^[A-Za-z0-9_][A-Za-z0-9_.=-]*(/[A-Za-z0-9_][A-Za-z0-9_.=-]*)*$",
    "a folder below the file system's root",
    "runs/first",
    "no slash at its ends; each name begins with a letter, a digit or _",
)
EKS_NAME = _shape(
    r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$",
    "an EKS cluster name",
    "ray-dev-eks",
    "letters, digits, hyphens and underscores, at most 100",
)
KUBERNETES_NAME = _shape(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "an RFC 1123 label",
    "ray",
    "lower-case letters, digits and hyphens, at most 63, beginning and ending with a letter or digit",
)
KUBERNETES_VERSION = _shape(r"^1\.[0-9]{2}$", "a Kubernetes version", "1.35", "in quotes")
OIDC_ISSUER = _shape(
    r"^https://oidc\.eks\.\S+$",
    "the OIDC issuer URL of an EKS cluster",
    "https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE",
    most=255,
)
SEMANTIC_VERSION = _shape(r"^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)?$", "a version", "2.60.0", "three numbers")
AMI_VERSION = _shape(r"^[0-9]+\.[0-9]+\.[0-9]+$", "a HyperPod AMI release", "1.2.3", "three numbers", most=64)
CRON = _shape(r"^cron\(.+\)$", "a cron expression", "cron(0 6 ? * SUN *)", most=256)
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
MAIL = _shape(
    rf"^[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~-]+)*@({_LABEL}\.)+[A-Za-z][A-Za-z0-9-]*[A-Za-z0-9]$",
    "a mail address",
    "name@example.com",
)
REPOSITORY = _shape(
    r"^[a-z0-9]+(?:[._/-][a-z0-9]+)*$",
    "an ECR repository name",
    "ray-training",
    "lower-case letters and digits, with single . _ / - between them",
)
IMAGE_DIGEST = _shape(
    r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*"
    r"(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}$",
    "an image by digest, because a tag can move",
    f"123456789012.dkr.ecr.us-west-2.amazonaws.com/ray@sha256:{_DIGEST}",
    "no https://; repository names are in lower case",
)
ECR_REPOSITORIES = _shape(
    r"^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/[a-z0-9]([a-z0-9._/-]*[a-z0-9])?(/?\*)?$",
    "an Amazon ECR repository, or several by `*` at the end",
    "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/*",
    "without a tag",
)
IMAGE_SET = _shape(r"^[a-z0-9][a-z0-9-]{0,40}$", "the name of an image set", "cu130-transformers")
REQUIREMENTS = _shape(
    r"^[A-Za-z0-9_./-]+\.in$",
    "a requirements file whose name ends in .in",
    "environments/research.in",
    "letters, digits and _ . / -, relative to the project",
)
FOLDER = _shape(
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$",
    "a folder of the project",
    "environments/wheels",
    "letters, digits and _ . / -, relative to the project",
)
INDEX_URL = _shape(
    r"^https://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?$",
    "the https address of a package index, without user and query",
    "https://packages.example.com/repository/pypi/simple",
    "the address that pip's --index-url takes",
)
CODEARTIFACT_ARN = _shape(
    r"^arn:aws[a-z-]*:codeartifact:[a-z0-9-]+:[0-9]{12}:repository/[a-z][a-z0-9-]{0,48}[a-z0-9]/"
    r"[A-Za-z0-9][A-Za-z0-9._-]{1,99}$",
    "the ARN of a repository of AWS CodeArtifact",
    "arn:aws:codeartifact:us-west-2:123456789012:repository/domain/REPOSITORY",
)
CACHE_PREFIX = _shape(r"^[a-z0-9]+([._/-][a-z0-9]+)*$", "a repository prefix of a pull-through cache", "quay")
VARIABLE = _shape(
    r"^[A-Za-z_][A-Za-z0-9_]*$",
    "the name of an environment variable",
    "NCCL_DEBUG",
    "letters, digits and underscores, not beginning with a digit",
)
AMOUNT = _shape(
    r"^\d+(\.\d+)?([kMBT]|e\+?\d{1,2})?$",
    "an amount",
    "70B",
    "a number, with k, M, B or T for thousands to trillions, or an exponent",
)
MODEL = _shape(r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$", "the name of a model", "llama-3.1-70b")
REDIS_USER = _shape(r"^[A-Za-z0-9_.@-]{1,128}$", "a Redis user", "ray", "letters, digits, _ . @ -")
REDIS_ADDRESS = _shape(
    r"^(rediss?://)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*:[0-9]{2,5}$",
    "the address of a Redis",
    f"rediss://cache.example.com:{REDIS_PORT}",
    "host and port; rediss:// is TLS, redis:// or nothing is not; user and password have settings of their own",
)
PARTITION = _shape(
    r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,1023}$",
    "the name of a Slurm partition",
    "train",
    "letters, digits and hyphens, beginning and ending with a letter or digit",
)
HOST = _shape(
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
    "a host name",
    "slurm.abcdefghijkl.us-west-2.rds.amazonaws.com",
    "without a port; the port has a setting of its own",
)
DATABASE = _shape(
    r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
    "the name of a database",
    "slurm_acct_db",
    "letters, digits and underscores, not beginning with a digit",
)
SCRIPT = _shape(
    r"^[A-Za-z0-9_][A-Za-z0-9_./-]*/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$",
    "a script in a folder of the project",
    "lifecycle/slurm/on_init_complete.sh",
    "a relative path; the whole folder is uploaded",
)
LOCK_FILE = _shape(
    r"^[A-Za-z0-9_][A-Za-z0-9_./-]*\.yaml$", "a path inside the project that ends in .yaml", "charts.lock.yaml"
)

RUN_NAME = _shape(
    r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
    "the name of a run",
    "llama-8b-first",
    "letters, digits, _ . -, at most 63, beginning and ending with a letter or digit",
)
WORKERS = _shape(
    r"^[1-9][0-9]{0,5}(:[1-9][0-9]{0,5})?$",
    "a number of workers",
    "2:4",
    "one number, or MIN:MAX in quotes for a run that continues with fewer",
)
SECRET_KEY = _shape(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[A-Za-z0-9._-]{1,253}$"
    r"|^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+(#[A-Za-z0-9_.-]+)?$",
    "a reference to a secret",
    "hugging-face/token",
    "of a Kubernetes Secret, or an ARN of AWS Secrets Manager; never the value",
)
SECRET_ARN = _shape(
    r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}$",
    "the ARN of a secret in AWS Secrets Manager",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:hugging-face-AbCdEf",
    "whole, with the six characters at its end",
    most=_ARN,
)
PACKAGE = _shape(
    r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._-]+\])?==[A-Za-z0-9.!+_-]+$",
    "a Python package with its exact version",
    "transformers==4.57.1",
    "so that each start of a worker installs the same",
)
PLACE = _shape(
    r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s]*)?|/[^\s]*)$",
    "a folder of the shared file system or a place in S3",
    "/fsx/runs",
    "an absolute path, or s3://BUCKET/PREFIX",
)

BY_PATTERN = {shape.pattern: shape for shape in _ALL}
"""Every shape by its pattern: errors and the generated reference find it here."""
