"""Every way a command can fail, in one place: one clear line, the next command, an exit code."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any, Self

from hyperpod_ray.core.errors import ProjectError

OK, ERROR, BAD_USE, CONDITION_FALSE, STILL_GOING, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes. 3: the condition is false (unhealthy, a check failed). 4: timeout; what was waited for continues."""


class OpsError(ProjectError):
    """A failure that ends a command.

    Args:
        what: What failed, with the value; lower case, no final period.
        expected: What would have been right; continues the sentence "Expected …".
        fix: What to do about it, a command where there is one.
        code: Exit code of the command.
    """

    def __init__(self, problem: str, *, expected: str, fix: str, code: int = ERROR) -> None:
        super().__init__(problem, expected=expected, fix=fix)
        self.code = code

    @property
    def message(self) -> str:
        """The first line: what failed, and what was expected."""
        return f"{self.what}. Expected {self.expected}" if self.expected else self.what

    @classmethod
    def of(cls, error: BaseException, *, fix: str = "", code: int = ERROR) -> Self:
        """Another package's failure, whose message has its parts, as the end of this command."""
        problem, expected = getattr(error, "what", str(error)), getattr(error, "expected", "")
        return cls(problem, expected=expected, fix=getattr(error, "fix", "") or fix, code=code)

    @classmethod
    def outcome(cls, problem: str, *, fix: str, code: int = ERROR) -> Self:
        """An end without a wrong value: an interruption, a state that a stack reached, the verdict of a review."""
        return cls(problem, expected="", fix=fix, code=code)


class ApiError(Exception):
    """A refusal of a Kubernetes API server.

    Args:
        status: HTTP status.
        body: What it sent, usually a `Status` as JSON.
    """

    def __init__(self, *, status: int, reason: str = "", body: str = "") -> None:
        super().__init__(f"{status} {reason}".rstrip())
        self.status, self.reason, self.body = status, reason, body


class LaptopError(OpsError):
    """Something is missing on this machine: it says nothing of the environment."""


EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
REFUSED_CREDENTIALS = {
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "AuthFailure",
}
SKEWED = {"RequestTimeTooSkewed", "SignatureDoesNotMatch", "RequestInTheFuture"}
BLOCKED = {"OptInRequired", "PendingVerification", "Blocked", "SubscriptionRequiredException", "AccountProblem"}
"""An account in which AWS lets nobody create anything.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"""
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
THROTTLED = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "RequestThrottled",
    "RequestThrottledException",
    "EC2ThrottledException",
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
    "SlowDown",
}
UNWRITABLE = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}
"""What a refusal of the operating system to open or make a file says."""
LOGIN = "aws sso login, or export fresh credentials; `aws sts get-caller-identity` shows who you are"


def explain(error: BaseException, *, environment: str = "ENV") -> OpsError | None:  # noqa: PLR0911
    """What a failure of boto3, the Kubernetes API or the network means; None for a defect of this program."""
    if isinstance(error, OpsError):
        return error
    module = type(error).__module__.partition(".")[0]
    name = type(error).__name__
    if module in ("botocore", "boto3"):
        return _of_aws(error, name, environment)
    if isinstance(error, ApiError) or module == "urllib3":
        return of_kubernetes(error, environment)
    if name == "EnvironmentFileError":
        environment_known = ": no environment '" not in str(error)
        fix = f"correct the file, then hyperpod-ray env check {environment}" if environment_known else ""
        return OpsError.of(error, fix=fix, code=BAD_USE)
    if name in (
        "DayError",
        "ProvenanceError",
        "JobFileError",
        "FolderError",
        "ProjectFileError",
        "ChartError",
        "OwnCheckError",
    ):
        return OpsError.of(error, code=BAD_USE)
    if name == "JSIIError" and "package cache" in str(error):
        return OpsError(
            " ".join(str(error).split()),
            expected="a folder for jsii's cache that you can write to",
            fix="export JSII_RUNTIME_PACKAGE_CACHE_ROOT=FOLDER, or correct the rights of ~/.cache",
            code=BAD_USE,
        )
    if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename:
        return OpsError(
            f"{error.filename}: {UNWRITABLE[error.errno]}",
            expected="a file or folder that you can read and write",
            fix="work in a copy of your own, name another file, or change its owner or rights",
            code=BAD_USE,
        )
    if isinstance(error, OSError):
        return OpsError(
            f"{type(error).__name__}: {error}",
            expected="the file or connection to work",
            fix="correct what the message names",
        )
    return None


def _of_aws(error: BaseException, name: str, environment: str) -> OpsError | None:
    if name in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"):
        return OpsError(
            "no AWS credentials were found", expected="credentials in the environment, a profile or a role", fix=LOGIN
        )
    if name in ("TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"):
        return OpsError("the AWS sign-in has expired", expected="a current sign-in", fix=LOGIN)
    if name == "ProfileNotFound":
        return OpsError(
            str(error)[:1].lower() + str(error)[1:],
            expected="a profile of ~/.aws/config",
            fix="export AWS_PROFILE=…; `aws configure list-profiles` shows those there are",
        )
    if name in (
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "ConnectionClosedError",
        "ProxyConnectionError",
        "SSLError",
    ):
        url = str(getattr(error, "kwargs", {}).get("endpoint_url", "")) or "AWS"
        return OpsError(
            f"{url} does not answer ({name})",
            expected="an answer",
            fix="check network, proxy and AWS_ENDPOINT_URL, then run the command again",
        )
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return OpsError(
            f"{name}: {error}", expected="AWS to answer", fix="check the profile and the region in ~/.aws/config"
        )
    return _answered(error, response, environment)


def _answered(error: BaseException, response: dict[str, Any], environment: str) -> OpsError:  # noqa: PLR0911
    """What a service answered, by its error code."""
    code = str(response.get("Error", {}).get("Code", ""))
    message = shortened(str(response.get("Error", {}).get("Message", "")))
    operation = str(getattr(error, "operation_name", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
    if code in EXPIRED:
        return OpsError("the AWS credentials have expired", expected="current credentials", fix=LOGIN)
    if code in REFUSED_CREDENTIALS:
        return OpsError(
            f"AWS does not accept the credentials ({code})", expected="those of the environment's account", fix=LOGIN
        )
    if code in SKEWED:
        return OpsError(
            f"AWS does not accept the signature ({code})",
            expected="a clock that is right to five minutes, and the secret of the access key",
            fix="set the clock (timedatectl, chronyc makestep), then export fresh credentials",
        )
    if code in BLOCKED:
        return OpsError(
            f"AWS has not opened the account for {operation}: {code}: {message}",
            expected="a verified account that is subscribed to the service",
            fix="do what AWS names, or open a case with AWS Support",
        )
    if code in DENIED:
        return OpsError(
            f"{operation} is not allowed: {message}",
            expected="the permission for it",
            fix=f"ask for the permission; `hyperpod-ray preflight {environment}` lists those needed",
        )
    if code in THROTTLED or status == 429:
        return OpsError(
            f"{operation} is throttled by AWS, also after retries ({code})",
            expected="fewer calls at a time",
            fix="wait a minute and run the command again",
        )
    if status >= 500:
        return OpsError(
            f"{operation} failed on the side of AWS: {code or status} {message}".rstrip(),
            expected="an answer",
            fix="run the command again; https://health.aws.amazon.com shows outages",
        )
    return OpsError(
        f"{operation} failed: {code}: {message}",
        expected="AWS to accept the call",
        fix="correct what AWS names, then run the command again",
    )


def shortened(text: str, *, limit: int = 240) -> str:
    """A service's sentence on one line, cut where it is long."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= limit else f"{line[:limit].rstrip()} …"


def of_kubernetes(error: BaseException, environment: str) -> OpsError | None:  # noqa: PLR0911
    """What a failure on the way to the Kubernetes API means."""
    status = getattr(error, "status", None)
    if status == 401:
        return OpsError(
            "the Kubernetes API does not know these credentials",
            expected="a role with an access entry",
            fix="use a role that the environment lists (eks.admin_role_arns, eks.ray_users), or unset KUBECONFIG",
        )
    if status == 403:
        return OpsError(
            f"the Kubernetes API refuses: {body_message(error)}",
            expected="a role with this right",
            fix="ask for access: eks.admin_role_arns or eks.ray_users of the environment",
        )
    if status == 404:
        return OpsError(
            f"not in the Kubernetes cluster: {body_message(error)}",
            expected="the environment to be deployed",
            fix=f"hyperpod-ray status {environment}",
        )
    if status == 429:
        return OpsError(
            "the Kubernetes API throttles, also after retries",
            expected="fewer calls at a time",
            fix="wait a minute and run the command again",
        )
    if isinstance(status, int) and status >= 500:
        return OpsError(
            f"the Kubernetes API failed: {status} {body_message(error)}".rstrip(),
            expected="an answer",
            fix="run the command again",
        )
    if status:
        return OpsError(
            f"the Kubernetes API refuses: {body_message(error)}",
            expected="it to accept the request",
            fix="correct what it names",
        )
    return OpsError(
        f"the Kubernetes API is unreachable ({_innermost(error)})",
        expected="a way to its endpoint",
        fix="a private endpoint is reachable from the VPC only (eks.endpoint): use a VPN, or give --tunnel always",
    )


def _innermost(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException) and getattr(reason, "reason", None):
        reason = reason.reason  # type: ignore[attr-defined]
    text = str(reason or error) or type(error).__name__
    return text.rpartition(": ")[2].strip(" '\")(") or text


def body_message(error: BaseException) -> str:
    """The API server's own sentence, out of the body of its answer."""
    import json

    body = getattr(error, "body", None)
    with contextlib.suppress(TypeError, ValueError, LookupError):
        return str(json.loads(body or "{}")["message"])[:400]
    return str(getattr(error, "reason", "") or error)[:200]


@contextlib.contextmanager
def guarded(environment: str = "ENV") -> Iterator[None]:
    """Turn every failure that `explain` knows into an `OpsError`; the rest passes through."""
    try:
        yield
    except OpsError:
        raise
    except Exception as error:
        failure = explain(error, environment=environment)
        if failure is None:
            raise
        raise failure from error


def refused(error: BaseException) -> bool:
    """Whether Kubernetes or AWS answered that these credentials may not."""
    from hyperpod_ray.core.evidence import code as code_of

    return getattr(error, "status", None) == 403 or code_of(error) in DENIED
