from __future__ import annotations

import json

from tests.stacks.assembled import Assembly


def test_buckets_are_private_encrypted_and_tls_only(assembly: Assembly) -> None:
    policies = json.dumps([p["Properties"] for p in assembly.of_type("AWS::S3::BucketPolicy").values()])
    for name, bucket in assembly.of_type("AWS::S3::Bucket").items():
        properties = bucket["Properties"]
        assert properties["BucketName"].startswith("sagemaker-"), "all that the managed policy of the nodes may read"
        assert all(properties["PublicAccessBlockConfiguration"].values()), name
        assert properties["BucketEncryption"], name
    assert "aws:SecureTransport" in policies
