"""Rights that something running loses, and write rights on the scripts that every node runs as root.

Rights that are given are remarks (`security/iam.py`). Rights that are taken end work: a job that reads or writes is
refused from then on, whatever it was doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.assembly import EnvironmentAssembly, Key
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.findings import Findings, Row, first_few
from hyperpod_ray.review.instance_groups import groups
from hyperpod_ray.review.kubernetes import Cluster
from hyperpod_ray.review.references import Reader, references, role_of
from hyperpod_ray.review.security.iam import DOCUMENTS, Grant, allows, covered, is_new, of_document, of_resource, owners

_ASSOCIATION = "AWS::EKS::PodIdentityAssociation"
_PULL = "ecr:BatchGetImage"
_BY_ISSUER = "sts:AssumeRoleWithWebIdentity"
_WRITES = ("s3:PutObject", "s3:DeleteObject")
_SHOWN = 6
Roles = dict[tuple[str, str], set[Grant] | None]
"""Namespace and service account → what its pods may do in AWS; None by a role that no template has."""


def find(changes: Changes, findings: Findings) -> None:
    """Rows for rights of Ray's pods and of nodes that go, and for write rights on the nodes' scripts that come."""
    before, after = _pods(changes.base, changes.base_cluster), _pods(changes.head, changes.head_cluster)
    for account, grants in before.items():
        if account not in after or grants is None:
            continue
        rights = after[account]
        taken = sorted(grants) if rights is None else _taken(grants, rights)
        if taken:
            guard = account[0] == names.GUARD
            findings.add(
                Row(
                    code="right-taken",
                    what=f"service account {'/'.join(account)}",
                    change="a role that no template has" if rights is None else f"no longer: {_words(taken)}",
                    consequence="The guard asks HyperPod by these rights: without them it replaces no pod of a silent "
                    "node."
                    if guard
                    else "In force within seconds, for pods that run too: a job that does it is refused by AWS "
                    "and fails, or cannot save.",
                    unavailable="" if guard else f"AWS rights of {'/'.join(account)}",
                    **severity.of_class("guard-less" if guard else "right-taken"),
                )
            )
    _nodes(changes, findings)
    _others(changes, findings)
    _trusts(changes, findings)
    _pulls(changes, findings)
    _scripts(changes, findings)


def _pods(assembly: EnvironmentAssembly, cluster: Cluster) -> Roles:
    spaces = cluster.namespaces_of_ray
    roles: Roles = {}
    for key, resource in assembly.of_type(_ASSOCIATION):
        properties = resource.get("Properties", {})
        namespace = str(properties.get("Namespace"))
        role = role_of(key, assembly)
        if namespace in spaces or namespace == names.GUARD or namespace.startswith("hyperpod-ns-"):
            allowed = None if role is None else _allowed(role, assembly)
            roles[namespace, str(properties.get("ServiceAccount"))] = allowed
    return roles


def _allowed(role: Key, assembly: EnvironmentAssembly) -> set[Grant]:
    """What a role and the policies attached to it allow."""
    reader = Reader(assembly)
    resource = assembly.resource(role) or {}
    granted = set(of_resource(resource, assembly.stacks[role.stack], reader, trust=False))
    attached = {
        reference.key for reference in references(resource.get("Properties", {}), assembly.stacks[role.stack], assembly)
    }
    for key, policy in assembly.all():
        if policy["Type"] not in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}:
            continue
        stack = assembly.stacks[key.stack]
        roles = references(policy.get("Properties", {}).get("Roles"), stack, assembly)
        if key in attached or any(reference.key == role for reference in roles):
            granted |= set(of_resource(policy, stack, reader))
    return {grant for grant in granted if grant.effect == "Allow"}


def _taken(before: set[Grant], after: set[Grant]) -> list[Grant]:
    return sorted(grant for grant in before - after if not covered(grant, after))


def _words(taken: Iterable[Grant]) -> str:
    by_resource: dict[str, list[str]] = {}
    for grant in taken:
        by_resource.setdefault(grant.resource, []).append(grant.action)
    parts = [f"{', '.join(sorted(set(actions)))} on {resource}" for resource, actions in by_resource.items()]
    return first_few(parts, most=_SHOWN, between="; ")


def _nodes(changes: Changes, findings: Findings) -> None:
    """Rights of the nodes' roles that go, and what they are of stays. `_pulls` says which images."""
    gone = _gone(changes)
    taken = [
        grant
        for grant in _taken(_execution(changes.base), _execution(changes.head))
        if not grant.action.startswith("ecr:") and not grant.resource.startswith(gone)
    ]
    if taken and _execution(changes.head):
        findings.add(
            Row(
                code="right-taken",
                what="role of the nodes",
                change=f"no longer: {_words(taken)}",
                consequence="In force within seconds, on nodes that run too: AWS refuses what a node does with it.",
                unavailable="AWS rights of the nodes",
                **severity.of_class("right-taken"),
            )
        )


def _gone(changes: Changes) -> tuple[str, ...]:
    """How statements begin to name what goes or is replaced: with it go the rights on it."""
    titles = [change.title for change in changes.of_kind(Kind.REMOVED, Kind.REPLACED)]
    return tuple(f"${{{title}{end}" for title in titles for end in (".", "}"))


_WHOEVER = {Grant("Allow", "*", "*", "*", "")}
"""What a VPC endpoint lets through that has no policy."""
_ENDPOINT = "AWS::EC2::VPCEndpoint"
_OF_RESOURCES = {"AWS::SNS::TopicPolicy", "AWS::KMS::Key", "AWS::Logs::ResourcePolicy"}
"""Policies by which services of AWS publish, encrypt and log: whoever is on call notices, and no job."""


def _others(changes: Changes, findings: Findings) -> None:
    """Rights of other roles, of buckets, keys, queues and endpoints that go, and what is denied from now on."""
    gone = _gone(changes)
    judged = _judged(changes)
    for change in changes.of_type(*DOCUMENTS, _ENDPOINT):
        if change.kind not in {Kind.CHANGED, Kind.ADDED} or is_new(change, changes) or _goes(change, changes):
            continue
        before, after = _sides(change, changes)
        taken = _taken(before, after) if judged.isdisjoint({change.key, *owners(change, changes)}) else []
        taken = [grant for grant in taken if grant.effect == "Allow" and grant.action != _BY_ISSUER]
        denied = [
            grant
            for grant in sorted(after - before)
            if grant.effect == "Deny"
            and not covered(grant, before)
            and '"aws:SecureTransport": "false"' not in grant.condition
        ]
        taken = [grant for grant in taken if not (grant.resource.startswith(gone) or grant.principal.startswith(gone))]
        if taken or denied:
            services = change.type in _OF_RESOURCES and not denied and all(map(_of_a_service, taken))
            words = [f"no longer: {_words(taken)}"] * bool(taken) + [f"denied: {_words(denied)}"] * bool(denied)
            findings.add(
                Row(
                    code="publisher-taken" if services else "right-taken",
                    what=f"{change.type.rpartition('::')[2]} {change.title}",
                    change="; ".join(words),
                    consequence="In force within seconds: what these services send does not arrive, without a word."
                    if services
                    else "In force within seconds, for what runs too: AWS refuses it from then on.",
                    where=change.title,
                    unavailable="" if services else "what these rights are for",
                    **severity.of_class("publisher-taken" if services else "right-taken"),
                )
            )


def _judged(changes: Changes) -> set[Key]:
    """Roles of pods and of nodes, whose rights `find` compares as a whole."""
    roles = {role_of(key, changes.base) for key, _ in changes.base.of_type(_ASSOCIATION)}
    for key, resource in changes.base.of_type("AWS::SageMaker::Cluster"):
        listed = [group.get("ExecutionRole") for group in groups(resource).values()]
        roles |= {reference.key for reference in references(listed, changes.base.stacks[key.stack], changes.base)}
    return {role for role in roles if role is not None}


def _goes(change: ResourceChange, changes: Changes) -> bool:
    """Whether it is of functions and builds of the deployment alone, or comes with what it is of."""
    roles = [change.key] if change.type == "AWS::IAM::Role" else list(owners(change, changes))
    of_roles = "::IAM::" in change.type and bool(roles)
    return of_roles and all(severity.used_by_helpers(role, changes) or _collects(role, changes) for role in roles)


def _collects(role: Key, changes: Changes) -> bool:
    """Whether it is of the add-on that collects metrics: its rows say what it does no more."""
    users = [changes.base.resource(user) or {} for user in changes.base_users.get(role, [])]
    return any(user.get("Properties", {}).get("AddonName") == names.OBSERVABILITY_ADDON for user in users)


def _sides(change: ResourceChange, changes: Changes) -> tuple[set[Grant], set[Grant]]:
    """What a policy says before and after; of a role, what all its policies say after."""
    stack = change.key.stack
    sides: list[set[Grant]] = []
    for resource, assembly in ((change.base, changes.base), (change.head, changes.head)):
        reader = Reader(assembly)
        if resource is None:
            sides.append(set())
        elif change.type == _ENDPOINT:
            document = resource.get("Properties", {}).get("PolicyDocument")
            said = set(of_document(document, assembly.stacks[stack], reader))
            sides.append(said if document else set(_WHOEVER))
        else:
            sides.append(set(of_resource(resource, assembly.stacks[stack], reader)))
    if "::IAM::" in change.type:
        for role in [change.key] if change.type == "AWS::IAM::Role" else owners(change, changes):
            sides[1] |= _allowed(role, changes.head)
    return sides[0], sides[1]


def _of_a_service(grant: Grant) -> bool:
    return grant.principal.endswith(".amazonaws.com")


def _trusts(changes: Changes, findings: Findings) -> None:
    """Roles that service accounts took by a token of the cluster's issuer, and take no more."""
    for change in changes.of_type("AWS::IAM::Role"):
        if change.base is None or change.head is None:
            continue
        stack = change.key.stack
        before, after = (
            {
                grant
                for grant in of_resource(side, assembly.stacks[stack], Reader(assembly))
                if grant.action == _BY_ISSUER
            }
            for side, assembly in ((change.base, changes.base), (change.head, changes.head))
        )
        if taken := [grant for grant in _taken(before, after) if grant.action == _BY_ISSUER]:
            findings.add(
                Row(
                    code="trust-taken",
                    what=f"role {change.title}",
                    change=f"no longer taken by tokens of {', '.join(sorted({grant.principal for grant in taken}))}",
                    consequence="Pods that have credentials of it keep them for an hour at most, and get none after "
                    "that.",
                    unavailable=f"AWS rights of {change.title}",
                    where=change.title,
                    **severity.of_class("trust-taken"),
                )
            )


def _pulls(changes: Changes, findings: Findings) -> None:
    """Repositories from which nodes could pull and cannot any more."""
    before, after = (_execution(side) for side in (changes.base, changes.head))
    old_images, images = (
        [image for k8s_object in cluster.objects.values() for image in _images(k8s_object.data)]
        for cluster in (changes.base_cluster, changes.head_cluster)
    )
    repositories = []
    for grant in _taken(before, after):
        name = grant.resource.rpartition(":repository/")[2]
        if grant.action != _PULL or name in {"", "*"}:
            continue
        words = [f"/{name}:", f"/{name}@", *_references_to(name, changes.base)]
        used, uses = (any(word in text for word in words for text in texts) for texts in (old_images, images))
        if used and not uses:
            continue  # its image goes with it
        repositories.append(grant.resource)
    if repositories:
        findings.add(
            Row(
                code="pull-taken",
                what="images that nodes may pull",
                change=f"no longer: {', '.join(repositories[:_SHOWN])}",
                consequence="Pods that run keep their image. A pod with an image of it that is created later, also for "
                "one that a fault took, does not start on a node without it.",
                unavailable="images of these repositories, for pods created later",
                **severity.of_class("pull-taken"),
            )
        )


def _images(value: Any) -> Iterator[str]:
    """Every container image of an object."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "image" and isinstance(inner, str):
                yield f"{inner}:"
            else:
                yield from _images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _images(inner)


def _references_to(name: str, assembly: EnvironmentAssembly) -> Iterator[str]:
    """How Kubernetes objects name a repository of the templates."""
    for key, resource in assembly.of_type("AWS::ECR::Repository"):
        if resource.get("Properties", {}).get("RepositoryName") == name:
            yield f"${{{assembly.title(key)}"


def _execution(assembly: EnvironmentAssembly) -> set[Grant]:
    """What the role of the nodes allows."""
    granted: set[Grant] = set()
    for key, resource in assembly.of_type("AWS::SageMaker::Cluster"):
        roles = [group.get("ExecutionRole") for group in groups(resource).values()]
        for role in {reference.key for reference in references(roles, assembly.stacks[key.stack], assembly)}:
            granted |= _allowed(role, assembly)
    return granted


def _scripts(changes: Changes, findings: Findings) -> None:
    """Write rights on the bucket of the lifecycle scripts that nobody had before."""
    buckets = set(_script_buckets(changes.head))
    if not buckets:
        return
    before, after = (
        {grant for _, resource, stack, reader in _policies(side) for grant in of_resource(resource, stack, reader)}
        for side in (changes.base, changes.head)
    )
    opened = [
        grant
        for grant in sorted(after - before)
        if grant.effect == "Allow"
        and any(allows(grant.action, action) for action in _WRITES)
        and any(_reaches(grant.resource, bucket) for bucket in buckets)
        and not covered(grant, before)
    ]
    if opened:
        findings.add(
            Row(
                code="scripts-writable",
                what="scripts that every node runs as root",
                change=f"new: {_words(opened)}",
                consequence="Whoever has this right decides what every node runs as root when it is created or "
                "replaced. Give rights on a bucket of your own.",
                **severity.of_class("scripts-writable"),
            )
        )


def _policies(assembly: EnvironmentAssembly) -> Iterator[tuple[Key, dict[str, Any], Any, Reader]]:
    reader = Reader(assembly)
    types = {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role", "AWS::S3::BucketPolicy"}
    for key, resource in assembly.all():
        if resource["Type"] in types:
            yield key, resource, assembly.stacks[key.stack], reader


def _script_buckets(assembly: EnvironmentAssembly) -> Iterator[str]:
    """Buckets of the scripts, by name and as a policy refers to them."""
    reader = Reader(assembly)
    for key, resource in assembly.of_type("AWS::SageMaker::Cluster"):
        stack = assembly.stacks[key.stack]
        for group in groups(resource).values():
            uri = (group.get("LifeCycleConfig") or {}).get("SourceS3Uri")
            yield reader.text(uri, stack).removeprefix("s3://").partition("/")[0]
            for reference in references(uri, stack, assembly):
                bucket = assembly.resource(reference.key) or {}
                yield f"${{{assembly.title(reference.key)}"
                name = bucket.get("Properties", {}).get("BucketName")
                if name is not None:
                    yield reader.text(name, assembly.stacks[reference.key.stack])


def _reaches(resource: str, bucket: str) -> bool:
    if bucket.startswith("${"):
        return resource.startswith((f"{bucket}.Arn}}", f"{bucket}}}"))
    pattern = resource.replace("${AWS::Partition}", "aws")
    return fnmatchcase(f"arn:aws:s3:::{bucket}/on_create.sh", pattern)
