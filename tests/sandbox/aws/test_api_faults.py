"""Which operation a request is, and how its error looks: botocore writes the requests and reads the errors."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.loaders
import botocore.model
import botocore.parsers
import botocore.serialize
import pytest

from hyperpod_ray_sandbox.aws.emulator.api_faults import BOTOCORE_NAMES, _Operations


@functools.cache
def model(service: str) -> Any:
    name = BOTOCORE_NAMES.get(service, service)
    return botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model(name, "service-2"), name)


def value(shape: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Any value of a shape."""
    match shape.type_name:
        case "structure":
            return {name: value(shape.members[name]) for name in shape.required_members}
        case "list":
            return [value(shape.member)]
        case "map":
            return {"k": value(shape.value)}
        case "integer" | "long":
            return 1
        case "float" | "double":
            return 1.0
        case "boolean":
            return True
        case "timestamp":
            return "2026-01-01T00:00:00Z"
        case "blob":
            return b"x"
    return shape.enum[0] if getattr(shape, "enum", None) else "name"


def written(service: str, operation: str) -> tuple[str, str, dict[str, Any], bytes, Any]:
    """A request with all that is required, and nothing else."""
    described = model(service).operation_model(operation)
    arguments = value(described.input_shape) if described.input_shape else {}
    serializer = botocore.serialize.create_serializer(model(service).metadata["protocol"], include_validation=False)
    request = serializer.serialize_to_request(arguments, described)
    parts = urlsplit(request["url_path"])
    query = parse_qs(parts.query, keep_blank_values=True)
    extra = request["query_string"]
    query |= {name: [str(text)] for name, text in (extra.items() if isinstance(extra, dict) else ())}
    body = request["body"]
    data = "&".join(f"{k}={v}" for k, v in body.items()).encode() if isinstance(body, dict) else body
    headers = {name.lower(): text for name, text in request["headers"].items()}
    return request["method"], parts.path, headers, data if isinstance(data, bytes) else str(data).encode(), query


CALLED = {
    "eks": None,
    "sagemaker": ["CreateCluster", "DescribeCluster"],
    "monitoring": ["PutMetricAlarm"],
    "servicequotas": ["ListServiceQuotas"],
    "ec2": ["DescribeSubnets", "CreateVpc"],
    "iam": ["CreateRole", "GetRole"],
    "lambda": ["CreateFunction", "Invoke", "ListFunctions", "GetFunction"],
    "s3": ["CreateBucket", "PutObject", "GetObject", "ListObjectsV2", "DeleteBucket", "PutBucketPolicy",
           "GetBucketPolicy", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "GetBucketVersioning"],
}  # fmt: skip


@pytest.mark.parametrize("service", CALLED)
def test_a_request_is_the_operation_that_botocore_wrote(service: str) -> None:
    operations = _Operations(service)
    names = CALLED[service] or list(model(service).operation_names)
    assert {name: operations.of(*written(service, name)) for name in names} == {name: name for name in names}


@pytest.mark.parametrize("service", CALLED)
def test_an_error_is_what_botocore_reads(service: str) -> None:
    fault: Any = SimpleNamespace(code="ThrottlingException", message="Rate exceeded", status=429)
    _, _, sent, _, _ = written(service, (CALLED[service] or ["ListClusters"])[0])
    status, headers, body = _Operations(service).error(fault, sent)
    parser: Any = botocore.parsers.create_parser(model(service).metadata["protocol"])
    answer = {"status_code": status, "headers": {name.lower(): text for name, text in headers.items()}, "body": body}
    error = parser.parse(answer, None)["Error"]
    assert (error["Code"], error["Message"]) == ("ThrottlingException", "Rate exceeded")
    assert status == 429


def test_a_service_that_botocore_has_not_answers_in_json() -> None:
    operations = _Operations("no-such-service")
    assert operations.of("GET", "/", {}, b"", {}) == ""
    assert operations.of("POST", "/", {"x-amz-target": "Some.Operation"}, b"", {}) == "Operation"
