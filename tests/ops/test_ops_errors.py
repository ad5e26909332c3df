# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import errno
import os
from typing import Any

import botocore.exceptions as aws
import pytest
from botocore.retries.standard import ThrottledRetryableChecker
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, ProtocolError

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.evidence import absent, code, found
from hyperpod_ray.ops.errors import (
    BAD_USE,
    ERROR,
    LOGIN,
    ApiError,
    OpsError,
    body_message,
    explain,
    guarded,
    refused,
    shortened,
)


def answer(name: str, status: int = 400, message: str = "It says why.") -> aws.ClientError:
    """As boto3 raises what a service answers."""
    response: Any = {"Error": {"Code": name, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(response, "DescribeCluster")


def jsii(text: str) -> Exception:
    error: Exception = type("JSIIError", (Exception,), {})(text)
    return error


FAILURES: list[tuple[Exception, int, str, str, str]] = [
    # https://boto3.amazonaws.com/v1/documentation/api/latest/guide/error-handling.html
    (aws.NoCredentialsError(), ERROR, "no AWS credentials were found", "credentials in the environment, a profile or a role", LOGIN),
    (aws.PartialCredentialsError(provider="env", cred_var="x"), ERROR, "no AWS credentials were found", "credentials in the environment, a profile or a role", LOGIN),
    (aws.CredentialRetrievalError(provider="p", error_msg="x"), ERROR, "no AWS credentials were found", "credentials in the environment, a profile or a role", LOGIN),
    (aws.UnauthorizedSSOTokenError(), ERROR, "the AWS sign-in has expired", "a current sign-in", LOGIN),
    (aws.SSOTokenLoadError(error_msg="x"), ERROR, "the AWS sign-in has expired", "a current sign-in", LOGIN),
    (aws.TokenRetrievalError(provider="sso", error_msg="x"), ERROR, "the AWS sign-in has expired", "a current sign-in", LOGIN),
    (aws.ProfileNotFound(profile="zug"), ERROR, "the config profile (zug) could not be found", "a profile of ~/.aws/config", "export AWS_PROFILE=…; `aws configure list-profiles` shows those there are"),
    (aws.EndpointConnectionError(endpoint_url="https://eks.eu-central-1.amazonaws.com/"), ERROR, "https://eks.eu-central-1.amazonaws.com/ does not answer (EndpointConnectionError)", "an answer", "check network, proxy and AWS_ENDPOINT_URL, then run the command again"),
    (aws.ReadTimeoutError(endpoint_url="https://x"), ERROR, "https://x does not answer (ReadTimeoutError)", "an answer", "check network, proxy and AWS_ENDPOINT_URL, then run the command again"),
    (aws.SSLError(endpoint_url="https://x", error=OSError("e")), ERROR, "https://x does not answer (SSLError)", "an answer", "check network, proxy and AWS_ENDPOINT_URL, then run the command again"),
    (aws.NoRegionError(), ERROR, "NoRegionError: You must specify a region.", "AWS to answer", "check the profile and the region in ~/.aws/config"),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html, and the services' common errors
    (answer("ExpiredTokenException"), ERROR, "the AWS credentials have expired", "current credentials", LOGIN),
    (answer("UnrecognizedClientException"), ERROR, "AWS does not accept the credentials (UnrecognizedClientException)", "those of the environment's account", LOGIN),
    (answer("RequestTimeTooSkewed"), ERROR, "AWS does not accept the signature (RequestTimeTooSkewed)", "a clock that is right to five minutes, and the secret of the access key", "set the clock (timedatectl, chronyc makestep), then export fresh credentials"),
    (answer("OptInRequired"), ERROR, "AWS has not opened the account for DescribeCluster: OptInRequired: It says why", "a verified account that is subscribed to the service", "do what AWS names, or open a case with AWS Support"),
    (answer("AccessDeniedException"), ERROR, "DescribeCluster is not allowed: It says why", "the permission for it", "ask for the permission; `hyperpod-ray preflight zug` lists those needed"),
    (answer("UnauthorizedOperation"), ERROR, "DescribeCluster is not allowed: It says why", "the permission for it", "ask for the permission; `hyperpod-ray preflight zug` lists those needed"),
    (answer("ThrottlingException"), ERROR, "DescribeCluster is throttled by AWS, also after retries (ThrottlingException)", "fewer calls at a time", "wait a minute and run the command again"),
    (answer("Other", 429), ERROR, "DescribeCluster is throttled by AWS, also after retries (Other)", "fewer calls at a time", "wait a minute and run the command again"),
    (answer("InternalFailure", 500), ERROR, "DescribeCluster failed on the side of AWS: InternalFailure It says why", "an answer", "run the command again; https://health.aws.amazon.com shows outages"),
    (answer("", 503, ""), ERROR, "DescribeCluster failed on the side of AWS: 503", "an answer", "run the command again; https://health.aws.amazon.com shows outages"),
    (answer("ValidationException"), ERROR, "DescribeCluster failed: ValidationException: It says why", "AWS to accept the call", "correct what AWS names, then run the command again"),
    # https://kubernetes.io/docs/reference/using-api/api-concepts/
    (ApiError(status=401), ERROR, "the Kubernetes API does not know these credentials", "a role with an access entry", "use a role that the environment lists (eks.admin_role_arns, eks.ray_users), or unset KUBECONFIG"),
    (ApiError(status=403, reason="no"), ERROR, "the Kubernetes API refuses: no", "a role with this right", "ask for access: eks.admin_role_arns or eks.ray_users of the environment"),
    (ApiError(status=404, reason="no"), ERROR, "not in the Kubernetes cluster: no", "the environment to be deployed", "hyperpod-ray status zug"),
    (ApiError(status=429), ERROR, "the Kubernetes API throttles, also after retries", "fewer calls at a time", "wait a minute and run the command again"),
    (ApiError(status=503, reason="no"), ERROR, "the Kubernetes API failed: 503 no", "an answer", "run the command again"),
    (ApiError(status=422, reason="no"), ERROR, "the Kubernetes API refuses: no", "it to accept the request", "correct what it names"),
    # this machine
    (OSError(errno.EROFS, "x", "/srv/a"), BAD_USE, "/srv/a: the file system is read-only", "a file or folder that you can read and write", "work in a copy of your own, name another file, or change its owner or rights"),
    (OSError(errno.EACCES, "x", "/srv/a"), BAD_USE, "/srv/a: permission denied", "a file or folder that you can read and write", "work in a copy of your own, name another file, or change its owner or rights"),
    (OSError(errno.ECONNRESET, "reset"), ERROR, "ConnectionResetError: [Errno 104] reset", "the file or connection to work", "correct what the message names"),
    (jsii("cannot write\nthe package cache"), BAD_USE, "cannot write the package cache", "a folder for jsii's cache that you can write to", "export JSII_RUNTIME_PACKAGE_CACHE_ROOT=FOLDER, or correct the rights of ~/.cache"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "exit_code", "what", "expected", "fix"), FAILURES, ids=lambda value: str(value)[:40])
def test_a_failure_is_one_line_and_a_fix(error: Exception, exit_code: int, what: str, expected: str, fix: str) -> None:
    failure = explain(error, environment="zug")
    assert failure is not None
    assert failure.what == what
    assert failure.expected == expected
    assert failure.fix == fix
    assert failure.code == exit_code
    assert "\n" not in failure.message
    with pytest.raises(OpsError) as raised, guarded("zug"):
        raise error
    assert (raised.value.what, raised.value.__cause__) == (failure.what, error)


NOT_THROTTLED = {
    "LimitExceededException": "a quota of the account: waiting does not raise it",
    "ProvisionedThroughputExceededException": "of DynamoDB, which nothing here calls",
    "TransactionInProgressException": "of DynamoDB, which nothing here calls",
}
CODES: dict[str, tuple[str, ...]] = {
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html, and the common errors
    "the AWS credentials have expired": ("ExpiredToken", "ExpiredTokenException", "RequestExpired"),
    "AWS does not accept the credentials": (
        "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "AuthFailure",
    ),
    "AWS does not accept the signature": ("RequestTimeTooSkewed", "SignatureDoesNotMatch", "RequestInTheFuture"),
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
    "AWS has not opened the account": (
        "OptInRequired", "PendingVerification", "Blocked", "SubscriptionRequiredException", "AccountProblem",
    ),
    "DescribeCluster is not allowed": (
        "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError",
    ),
    "DescribeCluster is throttled": tuple(sorted({*vars(ThrottledRetryableChecker)["_THROTTLED_ERROR_CODES"]} - {*NOT_THROTTLED})),
    "DescribeCluster failed: ": (*NOT_THROTTLED, "ValidationError", "ResourceInUse"),
}  # fmt: skip


@pytest.mark.parametrize(("begins", "name"), [(begins, name) for begins, listed in CODES.items() for name in listed])
def test_each_code_of_aws_has_its_meaning(begins: str, name: str) -> None:
    """What botocore calls a throttle is one, with its reasons where it is none."""
    failure = explain(answer(name))
    assert failure is not None and failure.what.startswith(begins)


NOBODY: Any = None
UNREACHABLE: dict[str, tuple[Exception, str]] = {
    "a reason within a reason": (
        MaxRetryError(
            PoolManager().connection_from_url("https://x"), "/", NewConnectionError(NOBODY, "x: refused (111)")
        ),
        "refused (111",
    ),
    "an error of few words": (ProtocolError("Connection aborted."), "Connection aborted."),
    "an error without words": (HTTPError(), "HTTPError"),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_a_kubernetes_api_that_cannot_be_reached(case: str) -> None:
    error, why = UNREACHABLE[case]
    failure = explain(error)
    assert failure is not None
    assert failure.what == f"the Kubernetes API is unreachable ({why})"
    assert failure.expected == "a way to its endpoint"
    assert failure.fix.endswith("use a VPN, or give --tunnel always")


BODIES = {
    '{"kind": "Status", "message": "pods is forbidden"}': "pods is forbidden",
    '{"message": "' + "x" * 500 + '"}': "x" * 400,
    "not json": "no",
    "[]": "no",
    "": "no",
}


@pytest.mark.parametrize("body", BODIES)
def test_the_api_servers_own_sentence(body: str) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/"""
    assert body_message(ApiError(status=403, reason="no", body=body)) == BODIES[body]
    assert body_message(ApiError(status=403, reason="r" * 300)) == "r" * 200


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
