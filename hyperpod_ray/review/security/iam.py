"""IAM statements broadened and narrowed: of roles, policies and the policies of resources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hyperpod_ray.core.names import TEAM_NAMESPACE_PREFIX
from hyperpod_ray.review.assembly import Key, Stack
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.findings import Remark, first_few
from hyperpod_ray.review.references import Reader, references, role_of

DOCUMENTS = {
    "AWS::IAM::Policy": (("PolicyDocument",),),
    "AWS::IAM::ManagedPolicy": (("PolicyDocument",),),
    "AWS::IAM::Role": (("AssumeRolePolicyDocument",),),
    "AWS::KMS::Key": (("KeyPolicy",),),
    "AWS::S3::BucketPolicy": (("PolicyDocument",),),
    "AWS::SNS::TopicPolicy": (("PolicyDocument",),),
    "AWS::SQS::QueuePolicy": (("PolicyDocument",),),
    "AWS::ECR::Repository": (("RepositoryPolicyText",),),
    # of people, and of stores that a project adds
    "AWS::IAM::User": (),
    "AWS::IAM::Group": (),
    "AWS::IAM::RolePolicy": (("PolicyDocument",),),
    "AWS::IAM::UserPolicy": (("PolicyDocument",),),
    "AWS::IAM::GroupPolicy": (("PolicyDocument",),),
    "AWS::EFS::FileSystem": (("FileSystemPolicy",),),
    "AWS::SecretsManager::ResourcePolicy": (("ResourcePolicy",),),
    "AWS::Logs::ResourcePolicy": (("PolicyDocument",),),
    "AWS::Lambda::Permission": (),
    "AWS::Lambda::Url": (),
}
_ATTACHED = {
    "AWS::IAM::Policy": "Roles",
    "AWS::IAM::ManagedPolicy": "Roles",
    "AWS::S3::BucketPolicy": "Bucket",
    "AWS::SNS::TopicPolicy": "Topics",
    "AWS::SQS::QueuePolicy": "Queues",
    "AWS::IAM::RolePolicy": "RoleName",
    "AWS::IAM::UserPolicy": "UserName",
    "AWS::IAM::GroupPolicy": "GroupName",
    "AWS::SecretsManager::ResourcePolicy": "SecretId",
    "AWS::Lambda::Permission": "FunctionName",
    "AWS::Lambda::Url": "TargetFunctionArn",
}
"""Where a policy names what it is of."""
_PULL = {"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}
_MANY = 12


class Grant(NamedTuple):
    """One action on one resource for one principal, allowed or denied."""

    effect: str
    principal: str
    action: str
    resource: str
    condition: str


def remarks(changes: Changes) -> Iterator[Remark]:
    """Remarks on every policy that differs."""
    for change in changes.resources.values():
        if change.kind is Kind.ASSET_ONLY or change.type not in DOCUMENTS:
            continue
        before = set(_grants(change.base, changes.base.stacks.get(change.key.stack), changes.base_reader))
        # the same reader for both sides of what stays: a reference to something replaced is still the same reference
        after = set(_grants(change.head, changes.head.stacks.get(change.key.stack), Reader(changes.head)))
        if change.kind is Kind.REMOVED and _goes_with_it(change, changes):
            after = {denial for denial in before if denial.effect == "Deny"}  # nobody is left that it could deny
        fresh = is_new(change, changes)
        if fresh and _of_running_pods(change, changes):
            # what comes with the change is new; a right on what was there before is one more right of what runs
            arriving = {grant for grant in after if _comes_with_it(grant, changes)}
            yield from _compare(
                f"{change.type.rpartition('::')[2]} {change.title}",
                set(),
                after - arriving,
                fresh=False,
                subject=_subject(change, changes),
            )
            after = arriving
        policy = f"{change.type.rpartition('::')[2]} {change.title}"
        yield from _compare(policy, before, after, fresh=fresh, subject=_subject(change, changes))


def is_new(change: ResourceChange, changes: Changes) -> bool:
    """Whether no principal or resource that was there gets it: the role or the resource comes with it."""
    if change.kind is not Kind.ADDED:
        return False
    pointer = _ATTACHED.get(change.type)
    if pointer is None:
        return True
    owned_by = list(owners(change, changes))
    return bool(owned_by) and all(changes.base.resource(key) is None for key in owned_by)


def _comes_with_it(grant: Grant, changes: Changes) -> bool:
    """Whether a grant reaches nothing that was there before: a bucket or an app of the same change, or metrics."""
    if grant.action.startswith("sts:") or (grant.resource == "*" and grant.condition):
        return True
    added = [change for change in changes.of_kind(Kind.ADDED) if "::IAM::" not in change.type]
    names = [f"${{{change.title}" for change in added]
    for change in added:
        bucket = change.now("BucketName")
        if bucket is not None:
            names.append(f":::{Reader(changes.head).text(bucket, changes.head.stacks[change.key.stack])}")
    return any(name in grant.resource for name in names)


def _of_running_pods(change: ResourceChange, changes: Changes) -> bool:
    """Whether it is of a role that pods get which run already: Ray's, in a namespace that is there."""
    spaces = changes.base_cluster.namespaces_of_ray
    namespaces = {name.name for name in changes.base_cluster.objects if name.kind == "Namespace"}
    namespaces |= {name.namespace for name in changes.base_cluster.objects}
    roles = {
        role_of(key, changes.head)
        for key, resource in changes.head.of_type("AWS::EKS::PodIdentityAssociation")
        if (space := str(resource.get("Properties", {}).get("Namespace"))) in spaces
        or (space.startswith(TEAM_NAMESPACE_PREFIX) and space in namespaces)
    }
    return change.key in roles or any(key in roles for key in owners(change, changes))


def _goes_with_it(change: ResourceChange, changes: Changes) -> bool:
    """Whether the role or resource of a removed policy is removed too."""
    if change.type not in _ATTACHED:
        return True
    return all(changes.resources[key].kind is Kind.REMOVED and not changes.resources[key].kept
               if key in changes.resources else False for key in owners(change, changes))  # fmt: skip


def _subject(change: ResourceChange, changes: Changes) -> str:
    """The role or resource that a policy is of: both are one subject."""
    for key in owners(change, changes):
        side = changes.head if changes.head.resource(key) is not None else changes.base
        if side.resource(key) is not None:
            return f"{str((side.resource(key) or {}).get('Type')).rpartition('::')[2]} {side.title(key)}"
    return ""


def owners(change: ResourceChange, changes: Changes) -> Iterator[Key]:
    """The roles or resources that a policy is of, where the templates have them."""
    pointer = _ATTACHED.get(change.type)
    side = changes.head if change.head is not None else changes.base
    if pointer is None or change.key.stack not in side.stacks:
        return
    properties = (change.head or change.base or {}).get("Properties", {})
    for reference in references(properties.get(pointer), side.stacks[change.key.stack], side):
        yield reference.key


def _harmless(grant: Grant) -> bool:
    """Whether it only pulls the images of one repository, or lets AWS Budgets mail of this account's own budgets."""
    if grant.action in _PULL:
        return not grant.resource.endswith("*")
    return grant.principal == "budgets.amazonaws.com" and '"aws:SourceAccount"' in grant.condition


def _sweeping(grant: Grant) -> bool:
    """Everything, or everything of a service, on everything; or for everybody."""
    everything = grant.action == "*" or grant.action.endswith(":*")
    return (grant.resource in {"", "*"} and everything) or (grant.principal == "*" and not grant.condition)


def _compare(title: str, before: set[Grant], after: set[Grant], *, fresh: bool, subject: str) -> Iterator[Remark]:
    for remark in _differences(title, before, after, fresh=fresh):
        yield replace(remark, subject=subject)


def _differences(title: str, before: set[Grant], after: set[Grant], *, fresh: bool) -> Iterator[Remark]:
    if fresh:
        allowed = [grant for grant in after if grant.effect == "Allow"]
        yield from _remarks(title, "broadened", [grant for grant in allowed if _sweeping(grant)], "allows")
        yield from _remarks(title, "new", [grant for grant in allowed if not _sweeping(grant)], "allows")
        yield from _remarks(title, "new", [grant for grant in after if grant.effect == "Deny"], "denies")
        return
    gained = [grant for grant in after - before if not covered(grant, before)]
    less = [grant for grant in before - after if not covered(grant, after)]
    allowed = [grant for grant in gained if grant.effect == "Allow"]
    yield from _remarks(title, "broadened", [grant for grant in allowed if not _harmless(grant)], "allows")
    yield from _remarks(title, "changed", [grant for grant in allowed if _harmless(grant)], "allows")
    yield from _remarks(title, "broadened", [grant for grant in less if grant.effect == "Deny"], "no longer denies")
    yield from _remarks(title, "narrowed", [grant for grant in less if grant.effect == "Allow"], "no longer allows")
    yield from _remarks(title, "narrowed", [grant for grant in gained if grant.effect == "Deny"], "denies")


def _remarks(title: str, direction: str, grants: list[Grant], verb: str) -> Iterator[Remark]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for grant in grants:
        grouped.setdefault((grant.principal, grant.resource, grant.condition), []).append(grant.action)
    for (principal, resource, condition), actions in sorted(grouped.items()):
        unique = sorted(set(actions))
        detail = f"{verb} {first_few(unique, most=_MANY)}"
        detail += f" on {resource}" if resource else ""
        detail += f" for {principal}" if principal else ""
        detail += f" if {condition}" if condition else ""
        yield Remark(direction=direction, what=title, detail=detail)


def covered(grant: Grant, grants: Iterable[Grant]) -> bool:
    """Whether another grant says at least as much."""
    return any(
        candidate.effect == grant.effect
        and candidate.principal in {grant.principal, "*"}
        and allows(candidate.action, grant.action)
        and _matches(grant.resource, candidate.resource)
        and _wider(candidate.condition, grant.condition)
        for candidate in grants
    )


def allows(pattern: str, action: str) -> bool:
    """Whether an action of a policy, perhaps with `*`, is or holds another."""
    return _matches(action.lower(), pattern.lower())


def _wider(other_condition: str, condition: str) -> bool:
    """Whether a condition holds wherever another one does: the same, none, or patterns that match all of its values."""
    if other_condition in {"", condition}:
        return True
    try:
        loose, strict = json.loads(other_condition), json.loads(condition)
    except ValueError:
        return False
    if not isinstance(loose, dict) or not isinstance(strict, dict):
        return False
    for operator, keys in loose.items():
        for key, patterns in keys.items():
            values = (strict.get(operator) or {}).get(key)
            if values == patterns:
                continue
            if operator not in {"StringLike", "ArnLike"} or values is None:
                return False
            if not all(
                any(_matches(str(value), str(pattern)) for pattern in _list(patterns)) for value in _list(values)
            ):
                return False
    return True


def _matches(value: str, pattern: str) -> bool:
    if value == pattern:
        return True
    return "*" in pattern and "[" not in pattern and fnmatchcase(value, pattern)


def _grants(resource: dict[str, Any] | None, stack: Stack | None, reader: Reader) -> Iterator[Grant]:
    if resource is not None and stack is not None:
        yield from of_resource(resource, stack, reader)


def of_resource(resource: dict[str, Any], stack: Stack, reader: Reader, *, trust: bool = True) -> Iterator[Grant]:
    """What a policy, or a resource with a policy, says; `trust` adds who may assume a role."""
    properties = resource.get("Properties", {})
    for pointer in DOCUMENTS[resource["Type"]]:
        if trust or resource["Type"] != "AWS::IAM::Role":
            yield from of_document(properties.get(pointer[0]), stack, reader)
    if resource["Type"] == "AWS::Lambda::Permission":
        yield _of_permission(properties, stack, reader)
    if resource["Type"] == "AWS::Lambda::Url" and properties.get("AuthType") == "NONE":
        yield Grant(
            "Allow", "*", "lambda:InvokeFunctionUrl", reader.text(properties.get("TargetFunctionArn"), stack), ""
        )
    if resource["Type"] in {"AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"}:
        for policy in _list(properties.get("Policies")):
            yield from of_document(policy.get("PolicyDocument"), stack, reader)
        for arn in _list(properties.get("ManagedPolicyArns")):
            yield Grant("Allow", "", f"what {reader.text(arn, stack)} allows", "", "")


def _of_permission(properties: dict[str, Any], stack: Stack, reader: Reader) -> Grant:
    names = ("SourceArn", "SourceAccount", "PrincipalOrgID", "EventSourceToken", "FunctionUrlAuthType")
    condition = {name: reader.text(properties[name], stack) for name in names if name in properties}
    principal, action, function = (
        reader.text(properties.get(name), stack) for name in ("Principal", "Action", "FunctionName")
    )
    return Grant("Allow", principal, action, function, json.dumps(condition, sort_keys=True) if condition else "")


def of_document(document: Any, stack: Stack, reader: Reader) -> Iterator[Grant]:
    """What the statements of a policy say."""
    if not isinstance(document, dict):
        return
    for statement in _list(document.get("Statement")):
        condition = statement.get("Condition")
        words = json.dumps(reader.plain(condition, stack), sort_keys=True) if condition else ""
        principals = list(_principals(statement, stack, reader)) or [""]
        actions = [reader.text(element, stack) for element in _list(statement.get("Action"))]
        actions += [f"all but {reader.text(element, stack)}" for element in _list(statement.get("NotAction"))]
        resources = [reader.text(element, stack) for element in _list(statement.get("Resource"))]
        resources += [f"all but {reader.text(element, stack)}" for element in _list(statement.get("NotResource"))]
        for principal in principals:
            for action in actions:
                for resource in resources or [""]:
                    yield Grant(str(statement.get("Effect", "Allow")), principal, action, resource, words)


def _principals(statement: dict[str, Any], stack: Stack, reader: Reader) -> Iterator[str]:
    for name, prefix in (("Principal", ""), ("NotPrincipal", "all but ")):
        principals = statement.get(name)
        if isinstance(principals, dict) and not any(key.startswith("Fn::") or key == "Ref" for key in principals):
            for items in principals.values():
                for principal in _list(items):
                    yield prefix + reader.text(principal, stack)
        elif principals is not None:
            yield prefix + reader.text(principals, stack)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
