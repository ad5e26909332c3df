# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import errno
import os
from typing import Any

import botocore.exceptions as aws
import pytest

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.evidence import absent, code, found
from hyperpod_ray.ops.errors import BAD_USE, ERROR, LOGIN, ApiError, OpsError, explain, guarded, refused, shortened

AGAIN = "run the command again"


def answer(name: str, status: int = 400, message: str = "It says why.") -> aws.ClientError:
    """As boto3 raises what a service answers."""
    response: Any = {"Error": {"Code": name, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(response, "DescribeCluster")


def jsii(text: str) -> Exception:
    error: Exception = type("JSIIError", (Exception,), {})(text)
    return error


FAILURES: list[tuple[Exception, int, str, str]] = [
    # https://boto3.amazonaws.com/v1/documentation/api/latest/guide/error-handling.html
    (aws.NoCredentialsError(), ERROR, "no AWS credentials were found", LOGIN),
    (aws.PartialCredentialsError(provider="env", cred_var="x"), ERROR, "no AWS credentials were found", LOGIN),
    (aws.CredentialRetrievalError(provider="p", error_msg="x"), ERROR, "no AWS credentials were found", LOGIN),
    (aws.UnauthorizedSSOTokenError(), ERROR, "the AWS sign-in has expired", LOGIN),
    (aws.SSOTokenLoadError(error_msg="x"), ERROR, "the AWS sign-in has expired", LOGIN),
    (aws.TokenRetrievalError(provider="sso", error_msg="x"), ERROR, "the AWS sign-in has expired", LOGIN),
    (aws.ProfileNotFound(profile="zug"), ERROR, "the config profile (zug) could not be found", "AWS_PROFILE"),
    (
        aws.EndpointConnectionError(endpoint_url="https://eks.eu-central-1.amazonaws.com/"), ERROR,
        "https://eks.eu-central-1.amazonaws.com/ does not answer (EndpointConnectionError)", "AWS_ENDPOINT_URL",
    ),
    (aws.ReadTimeoutError(endpoint_url="https://x"), ERROR, "https://x does not answer (ReadTimeoutError)", "network"),
    (aws.SSLError(endpoint_url="https://x", error=OSError("e")), ERROR, "https://x does not answer (SSLError)", "proxy"),
    (aws.NoRegionError(), ERROR, "NoRegionError: You must specify a region.", "~/.aws/config"),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html, and the services' common errors
    (answer("ExpiredTokenException"), ERROR, "the AWS credentials have expired", LOGIN),
    (answer("UnrecognizedClientException"), ERROR, "AWS does not accept the credentials (Unrecog", LOGIN),
    (answer("RequestTimeTooSkewed"), ERROR, "AWS does not accept the signature (RequestTimeTooSkewed)", "set the clock"),
    (answer("OptInRequired"), ERROR, "AWS has not opened the account for DescribeCluster: OptInRequired", "AWS Support"),
    (answer("AccessDeniedException"), ERROR, "DescribeCluster is not allowed: It says why", "preflight zug"),
    (answer("UnauthorizedOperation"), ERROR, "DescribeCluster is not allowed: It says why", "preflight zug"),
    (answer("ThrottlingException"), ERROR, "DescribeCluster is throttled by AWS", "wait a minute"),
    (answer("Other", 429), ERROR, "DescribeCluster is throttled by AWS", "wait a minute"),
    (answer("InternalFailure", 500), ERROR, "DescribeCluster failed on the side of AWS: InternalFailure It says", AGAIN),
    (answer("", 503, ""), ERROR, "DescribeCluster failed on the side of AWS: 503", AGAIN),
    (answer("ValidationException"), ERROR, "DescribeCluster failed: ValidationException: It says why", "correct what AWS"),
    # https://kubernetes.io/docs/reference/using-api/api-concepts/
    (ApiError(status=401), ERROR, "the Kubernetes API does not know these credentials", "eks.admin_role_arns"),
    (ApiError(status=403, reason="no"), ERROR, "the Kubernetes API refuses: no", "ask for access"),
    (ApiError(status=404, reason="no"), ERROR, "not in the Kubernetes cluster: no", "hyperpod-ray status zug"),
    (ApiError(status=429), ERROR, "the Kubernetes API throttles, also after retries", "wait a minute"),
    (ApiError(status=503, reason="no"), ERROR, "the Kubernetes API failed: 503 no", AGAIN),
    (ApiError(status=422, reason="no"), ERROR, "the Kubernetes API refuses: no", "correct what it names"),
    # this machine
    (OSError(errno.EROFS, "x", "/srv/a"), BAD_USE, "/srv/a: the file system is read-only", "work in a copy"),
    (OSError(errno.EACCES, "x", "/srv/a"), BAD_USE, "/srv/a: permission denied", "change its owner or rights"),
    (OSError(errno.ECONNRESET, "reset"), ERROR, "ConnectionResetError: [Errno 104] reset", "correct what"),
    (jsii("cannot write\nthe package cache"), BAD_USE, "cannot write the package cache", "JSII_RUNTIME_PACKAGE_CACHE_ROOT"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "exit_code", "what", "fix"), FAILURES, ids=lambda value: str(value)[:40])
def test_a_failure_is_one_line_and_a_fix(error: Exception, exit_code: int, what: str, fix: str) -> None:
    failure = explain(error, environment="zug")
    assert failure is not None
    assert failure.what.startswith(what)
    assert fix in failure.fix
    assert failure.expected
    assert failure.code == exit_code
    assert "\n" not in failure.message
    with pytest.raises(OpsError) as raised, guarded("zug"):
        raise error
    assert (raised.value.what, raised.value.__cause__) == (failure.what, error)


def test_a_defect_of_this_program_stays_one() -> None:
    for error in (ZeroDivisionError(), jsii("another"), KeyError("x")):
        assert explain(error) is None
        with pytest.raises(type(error)), guarded("zug"):
            raise error
    own = OpsError("x: 1", expected="y", fix="z", code=BAD_USE)
    assert explain(own) is own
    with pytest.raises(OpsError) as raised, guarded("zug"):
        raise own
    assert raised.value is own


def test_what_a_long_sentence_of_a_service_becomes() -> None:
    assert shortened("one\n two.  ") == "one two"
    assert shortened("a" * 240) == "a" * 240
    assert shortened("a" * 241) == "a" * 240 + " …"
    assert shortened("abcdef", limit=3) == "abc …"
    error = ProjectError("x", expected="y", fix="")
    assert OpsError.of(error, fix="z").fix == "z"
    assert OpsError.of(ValueError("v")).what == "v"
    assert OpsError.outcome("it ended", fix="z").message == "it ended"


@pytest.mark.parametrize(
    ("error", "is_absent", "is_refused"),
    [
        (answer("ResourceNotFoundException"), True, False),
        (answer("ResourceNotFound"), True, False),
        (answer("ValidationError", message="Stack with id x does not exist"), True, False),
        (answer("ValidationError", message="1 validation error detected"), False, False),
        (answer("ValidationException", message="Cluster Not Found"), True, False),
        (answer("ValidationException", message="bad name"), False, False),
        (answer("AccessDenied"), False, True),
        (ApiError(status=404), True, False),
        (ApiError(status=403), False, True),
        (ApiError(status=410), False, False),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT)), False, False),
    ],
    ids=str,
)
def test_what_is_absent_and_what_is_refused(error: Exception, is_absent: bool, is_refused: bool) -> None:
    assert (absent(error), refused(error)) == (is_absent, is_refused)
    assert code(OSError()) == ""

    class Account:
        def call(self, *_: Any, **__: Any) -> Any:
            raise error

    account: Any = Account()
    if is_absent:
        assert found(account, "eks", "describe_cluster", name="x") is None
    else:
        with pytest.raises(type(error)):
            found(account, "eks", "describe_cluster", name="x")
