from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.review import schemas


@pytest.mark.parametrize(
    ("resource_type", "known", "create_only", "identifier"),
    [
        ("AWS::S3::Bucket", True, ("BucketName",), (("BucketName",),)),
        ("AWS::SQS::Queue", True, ("QueueName",), None),
        ("Custom::HyperPodNodesRunning", False, None, None),
        ("AWS::Nobody::Knows", False, None, None),
    ],
)
def test_what_the_registry_knows_of_a_type(
    resource_type: str, known: bool, create_only: tuple[str, ...] | None, identifier: Any
) -> None:
    found = schemas.rules(resource_type, "us-west-2")
    assert found.known is known
    assert create_only is None or create_only in found.create_only
    assert identifier is None or identifier in found.identifiers
