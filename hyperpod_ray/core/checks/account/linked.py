"""Rules about buckets that the file system is linked to: FSx must be able to read them, and to hear of changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.checks.account import policies
from hyperpod_ray.core.checks.account.storage import bucket_region
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning

Json = dict[str, Any]
LISTENERS = ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations")
CHANGES = ("s3:ObjectCreated:", "s3:ObjectRemoved:")
FSX_ROLE = ("lustre.fsx.amazonaws.com", "AWSServiceRoleForFSxS3Access", "fsx.amazonaws.com")
"""Words of the service-linked role with which FSx reads a bucket.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html"""


@rule("storage", "region", needs="account", title="linked buckets")
def linked_buckets_let_fsx_in(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """FSx may read the buckets of `storage.data_repositories`, decrypt them, and have events of its own.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html
    """
    if not plan.data_repositories:
        yield skipped("no folder is linked")
        return
    for index, link in enumerate(plan.data_repositories):
        path, bucket = ("storage", "data_repositories", index, "bucket"), link.bucket
        if not bucket_region(account, bucket):
            continue  # it is not there, or is closed to these credentials: the rule "buckets" says so
        findings = [*_key(account, path, bucket), *_policy(account, path, bucket)]
        if link.auto_import:
            findings += _events(account, path, bucket)
        yield from findings or [fine(*path, what=f"FSx can use {bucket}")]


def _key(account: Account, path: tuple[str | int, ...], bucket: str) -> Iterator[Finding]:
    answer = _setting(account, bucket, operation="get_bucket_encryption")
    rules = (answer.get("ServerSideEncryptionConfiguration") or {}).get("Rules", [])
    for encryption in rules:
        key = (encryption.get("ApplyServerSideEncryptionByDefault") or {}).get("KMSMasterKeyID")
        if not key:
            continue
        description = found(account, "kms", "describe_key", KeyId=key)
        state = description["KeyMetadata"].get("KeyState", "") if description else "not there"
        if state != "Enabled":
            yield error(
                *path,
                what=f"{bucket} is encrypted with {key.rpartition('/')[2]}, which is {state}",
                expected="an enabled key",
                fix="enable the key (aws kms cancel-key-deletion, enable-key), or encrypt the bucket with another",
            )


def _policy(account: Account, path: tuple[str | int, ...], bucket: str) -> Iterator[Finding]:
    policy = _setting(account, bucket, operation="get_bucket_policy").get("Policy", "")
    if any(policies.denies(policy, action=action, whom=FSX_ROLE) for action in ("s3:GetObject", "s3:ListBucket")):
        yield warning(
            *path,
            what=f"the policy of {bucket} denies the role with which FSx reads it",
            expected="a policy that lets AWSServiceRoleForFSxS3Access list and read it",
            fix="except that role from the statement",
        )


def _events(account: Account, path: tuple[str | int, ...], bucket: str) -> Iterator[Finding]:
    """S3 takes no two notifications of one kind of event for the same keys."""
    answer = _setting(account, bucket, operation="get_bucket_notification_configuration")
    taken = sorted(
        event
        for listener in LISTENERS
        for configuration in answer.get(listener, [])
        if not ((configuration.get("Filter") or {}).get("Key") or {}).get("FilterRules")
        for event in configuration.get("Events", [])
        if event.startswith(CHANGES)
    )
    if taken:
        yield warning(
            *path,
            what=f"{bucket} has notifications of its own for {', '.join(dict.fromkeys(taken))}, for every key",
            expected="none that overlaps with the one that FSx adds for auto_import",
            fix="give them a prefix filter, or set auto_import: []",
        )


def _setting(account: Account, bucket: str, *, operation: str) -> Json:
    """A setting of a bucket; empty where it has none."""
    try:
        return account.call("s3", operation, Bucket=bucket)
    except Exception as bad:
        if code(bad) in ("NoSuchBucketPolicy", "ServerSideEncryptionConfigurationNotFoundError"):
            return {}
        raise
