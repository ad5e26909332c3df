"""Replacements, removals, names and exports: what holds for every resource type."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hyperpod_ray.review import schemas, severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.effects import in_place
from hyperpod_ray.review.effects.words import number
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row, first_few
from hyperpod_ray.review.instance_groups import inventory
from hyperpod_ray.review.instance_groups import lost as lost_nodes
from hyperpod_ray.review.kubernetes import MANIFEST_TYPE, RELEASE_TYPE
from hyperpod_ray.review.severity import holds

_NAMED_IN_LIST = 8
_IMAGES = "Image/Repository"
_LOGS = ("Network/FlowLogs", "Health/Events")


def find(changes: Changes, findings: Findings) -> None:
    """Rows for replaced, removed, added and otherwise changed resources, for exports and stacks."""
    _replaced(changes, findings)
    _removed(changes, findings)
    _added(changes, findings)
    in_place.find(changes, findings)
    _closed(changes, findings)
    _images(changes, findings)
    _exports(changes, findings)
    _stacks(changes, findings)
    _policies(changes, findings)


def names(changes: Iterable[ResourceChange]) -> str:
    """Construct paths of some resources, the first few of many."""
    return first_few(sorted({change.title for change in changes}), most=_NAMED_IN_LIST)


def _way_out(change: ResourceChange) -> str:
    """The setting that keeps a resource under the name that it has; empty where no setting does."""
    if change.because == [("RepositoryName",)] and change.title.endswith(_IMAGES):
        name = change.before("RepositoryName")
        return f"image.repository_name: {name}" if isinstance(name, str) else ""
    if change.because == [("LogGroupName",)] and change.title.endswith(_LOGS):
        return f"log_group_names: {'fixed' if change.before('LogGroupName') else 'generated'}"
    return ""


def _ways_out(changes: Iterable[ResourceChange]) -> str:
    """What keeps resources, as a sentence that follows others; empty where nothing does."""
    settings = sorted({setting for change in changes if (setting := _way_out(change))})
    return f" To keep what is there, set {' and '.join(settings)}." if settings else ""


def _replaced(changes: Changes, findings: Findings) -> None:
    followers: dict[Effect, list[ResourceChange]] = {}
    for change in changes.of_kind(Kind.REPLACED):
        effect = severity.when_replaced(change)
        exclusive = _exclusive(change)
        root = not change.after
        if change.same_name:
            findings.add(_refused_by_name(change, effect))
        elif exclusive and root:
            findings.add(_refused_as_exclusive(change, effect, exclusive))
        elif holds(change.type) or root:
            findings.add(_replacement(change, effect, changes))
        else:
            followers.setdefault(effect, []).append(change)
    for effect, group in followers.items():
        roots = sorted({changes.head.title(key) for change in group for key in change.after})
        findings.add(
            Row(
                effect=effect,
                code="replaced-with-it",
                what=number(len(group), "more resource"),
                change=f"refer to what is replaced ({', '.join(roots[:4])}{'…' if len(roots) > 4 else ''})",
                consequence=f"replaced too: {names(group)}.",
            )
        )


def _lost(change: ResourceChange, effect: Effect) -> tuple[tuple[str, int], ...]:
    if effect <= Effect.REJECTED:
        return ()
    if change.type == "AWS::SageMaker::Cluster":
        return lost_nodes(change.base)
    word = severity.noun(change.type)
    return ((word, 1),) if word else ()


def _replacement(change: ResourceChange, effect: Effect, changes: Changes) -> Row:
    fate = "The old one stays in the account, unmanaged and paid for." if change.kept else "The old one is deleted."
    lost = inventory(change.base) if change.type == "AWS::SageMaker::Cluster" else holds(change.type)
    with_it = f" With it {'goes out of use' if change.kept else 'goes'}: {lost}." if lost else ""
    perhaps = "May be replaced (the schema calls the property conditional): " if change.perhaps else ""
    return Row(
        effect=effect,
        code="replaced",
        what=f"{change.type} {change.title}",
        change=_because(change, changes),
        consequence=f"{perhaps}A new one is created, then everything moves to it. {fate}{with_it}{_ways_out([change])}",
        unavailable=f"{change.title} and what uses it" if effect is not Effect.SAFE else "",
        source=facts()["create_only"].get(change.type, {}).get("source", ""),
        where=change.title,
        lost=_lost(change, effect),
    )


def _because(change: ResourceChange, changes: Changes) -> str:
    parts = []
    for pointer in change.because:
        before, after = change.before(*pointer), change.now(*pointer)
        stack = changes.head.stacks[change.key.stack]
        was, is_now = changes.base_reader.text(before, stack), changes.head_reader.text(after, stack)
        name = ".".join(pointer)
        parts.append(
            f"{name} {_short(was)} → {_short(is_now)}" if was != is_now else f"{name} refers to what is replaced"
        )
    return "; ".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= 90 else text[:87] + "…"


def _refused_by_name(change: ResourceChange, effect: Effect) -> Row:
    lost = inventory(change.base) if change.type == "AWS::SageMaker::Cluster" else holds(change.type)
    would = (
        f" Under another name it would be replaced, and with it would go: {lost}."
        if lost and effect > Effect.SAFE
        else ""
    )
    because = ", ".join(".".join(pointer) for pointer in change.because)
    return Row(
        effect=Effect.REJECTED,
        code="custom-name",
        what=f"{change.type} {change.title}",
        change=f"{because} is create-only, and its name '{'/'.join(change.same_name)}' stays",
        consequence="CloudFormation cannot make the new one beside the old one of the same name and fails the "
        f"update.{would}",
        source=source("custom-name"),
        where=change.title,
    )


def _exclusive(change: ResourceChange) -> str:
    """The property that old and new would both have, where two may not; empty otherwise."""
    rule = facts()["exclusive"].get(change.type)
    if rule is None or change.perhaps or change.differs(rule["within"]):
        return ""
    return next((name for name in rule["properties"] if not change.differs(name) and change.now(name)), "")


def _refused_as_exclusive(change: ResourceChange, effect: Effect, name: str) -> Row:
    rule = facts()["exclusive"][change.type]
    because = ", ".join(f"{'.'.join(p)} {change.before(*p)} → {change.now(*p)}" for p in change.because)
    return Row(
        effect=max(Effect.REJECTED, effect),
        code="exclusive",
        what=f"{change.type} {change.title}",
        change=f"{because}, {name} stays {change.now(name)}",
        consequence=f"Replaced, and refused: {rule['why']}.",
        source=rule["source"],
        where=change.title,
    )


def _removed(changes: Changes, findings: Findings) -> None:
    by_effect: dict[Effect, list[ResourceChange]] = {}
    for change in changes.of_kind(Kind.REMOVED):
        if change.type in {MANIFEST_TYPE, RELEASE_TYPE}:
            continue  # reported by their objects
        effect = severity.when_removed(change, changes)
        twin = _twin(change, changes)
        if twin is not None:
            findings.add(
                Row(
                    effect=Effect.REJECTED,
                    code="already-exists",
                    what=f"{change.type} {change.title}",
                    change=f"its id becomes {twin.title}, its name stays",
                    consequence="For CloudFormation this is a new resource, created before the old one is deleted: "
                    "refused, because the "
                    "name exists. Without that it would go: "
                    f"{inventory(change.base) or holds(change.type) or change.title}.",
                    source=source("custom-name"),
                    where=change.title,
                )
            )
        elif holds(change.type) and (effect > Effect.SAFE or change.kept):
            lost = inventory(change.base) if change.type == "AWS::SageMaker::Cluster" else holds(change.type)
            after = (
                "It stays in the account, unmanaged and paid for." if change.kept else f"Deleted, and with it: {lost}."
            )
            findings.add(
                Row(
                    effect=effect,
                    code="removed",
                    what=f"{change.type} {change.title}",
                    change="removed from the template",
                    consequence=after,
                    unavailable=change.title if effect is not Effect.SAFE else "",
                    where=change.title,
                    lost=_lost(change, effect),
                )
            )
        else:
            by_effect.setdefault(effect, []).append(change)
    for effect, group in by_effect.items():
        findings.add(
            Row(
                effect=effect,
                code="removed",
                what=number(len(group), "resource"),
                change="removed from the templates",
                consequence=f"Deleted: {names(group)}.",
            )
        )


def _twin(change: ResourceChange, changes: Changes) -> ResourceChange | None:
    """An added resource of the same type and the same custom name: the construct's id was changed."""
    region = changes.base.stacks[change.key.stack].region
    for added in changes.of_kind(Kind.ADDED):
        if added.type != change.type:
            continue
        for identifiers in schemas.rules(change.type, region).identifiers:
            values = [(change.before(*pointer), added.now(*pointer)) for pointer in identifiers]
            if all(before is not None and before == after for before, after in values):
                return added
    return None


def _added(changes: Changes, findings: Findings) -> None:
    added = [change for change in changes.of_kind(Kind.ADDED) if change.type not in {MANIFEST_TYPE, RELEASE_TYPE}]
    _existing(added, changes, findings)
    for change in [change for change in added if severity.when_added(change) > Effect.SAFE]:
        added.remove(change)
        findings.add(
            Row(
                effect=severity.when_added(change),
                code="added-restricts",
                what=f"{change.type} {change.title}",
                change="new",
                consequence="It takes something from what is there as soon as it is created: compare what it stops.",
                where=change.title,
            )
        )
    if added:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="added",
                what=number(len(added), "resource"),
                change="new",
                consequence=f"Created beside what runs: {names(added)}.",
            )
        )


_BY_NAME = {"AWS::Logs::LogGroup": "LogGroupName", "AWS::ECR::Repository": "RepositoryName"}
"""Types that the templates also use where another stack, a service or somebody has created them."""


def _existing(added: list[ResourceChange], changes: Changes, findings: Findings) -> None:
    """New resources whose names the templates before used of what exists already: nothing can be created by them."""
    for change in added:
        name = change.now(_BY_NAME[change.type]) if change.type in _BY_NAME else None
        if isinstance(name, str) and _known(name, change.type, changes):
            findings.add(
                Row(
                    code="name-taken",
                    what=f"{change.type} {change.title}",
                    change=f"new, with the name {name}",
                    consequence="The templates before use one of this name that exists and belongs to no stack. "
                    "CloudFormation cannot create a second one, and the deploy fails. Leave the setting as it was, or "
                    "remove what exists first.",
                    where=change.title,
                    **severity.of_class("name-taken"),
                )
            )


def _known(name: str, resource_type: str, changes: Changes) -> bool:
    """Whether the base uses one of this name that it does not create."""
    if any(resource.get("Properties", {}).get(_BY_NAME[resource_type]) == name
           for _, resource in changes.base.of_type(resource_type)):  # fmt: skip
        return False
    logs = resource_type == "AWS::Logs::LogGroup"
    if logs and any(
        name == f"/aws/eks/{resource.get('Properties', {}).get('Name')}/cluster"
        for _, resource in changes.base.of_type("AWS::EKS::Cluster")
    ):
        return True  # EKS creates it as soon as it logs
    marks = [f'"{name}"', f":log-group:{name}"] if logs else [f":repository/{name}", f"/{name}:", f"/{name}@"]
    return any(mark in json.dumps(resource) for _, resource in changes.base.all() for mark in marks)


def _closed(changes: Changes, findings: Findings) -> None:
    """Rules that leave a security group: what went by them stops."""
    from hyperpod_ray.review.security import network  # only here

    for change in changes.of_type("AWS::EC2::SecurityGroup"):
        if change.kind is not Kind.CHANGED:
            continue
        gone = network.closed(change, changes)
        if gone:
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="rule-closed",
                    what=f"security group {change.title}",
                    change=f"no longer lets through: {'; '.join(str(rule) for rule in gone[:4])}"
                    + ("…" if len(gone) > 4 else ""),
                    consequence="In force at once. Nodes and pods that reached something by it fail at the next "
                    "connection: images, AWS services, the API server or each other.",
                    unavailable=f"what {change.title} let through",
                    where=change.title,
                )
            )


def _images(changes: Changes, findings: Findings) -> None:
    """Images that are built again: of another folder, where only the hash of an upload differs, or in another way."""
    for change in (*changes.of_kind(Kind.ASSET_ONLY), *changes.of_kind(Kind.CHANGED)):
        if change.type == "Custom::CDKContainerImageBuild":
            findings.add(
                Row(
                    effect=Effect.SAFE,
                    code="image-built",
                    what=f"image {change.title}",
                    change="content of its folder"
                    if change.kind is Kind.ASSET_ONLY and not change.differs("buildCommand")
                    else "how it is built: base, package index, wheels or arguments",
                    consequence="Rebuilt during the deploy and pushed beside the old one; running pods keep theirs.",
                    where=change.title,
                )
            )


def _exports(changes: Changes, findings: Findings) -> None:
    if changes.changed_exports:
        count, users = len(changes.changed_exports), _users(changes.changed_exports)
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="export-in-use",
                what=number(count, "exported value"),
                change=f"{_exports_in_words(changes.changed_exports)} change while {users} import them",
                consequence="CloudFormation refuses to change an export in use: the exporting stack's update "
                "fails and rolls back, "
                "and nothing after it is deployed. What the other rows plan happens only if someone works around that."
                f"{_ways_out(changes.of_kind(Kind.REPLACED))}",
                source=source("export-in-use"),
            )
        )
    if changes.removed_exports:
        count, users = len(changes.removed_exports), _users(changes.removed_exports)
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="export-removed",
                what=number(count, "exported value"),
                change=f"{_exports_in_words(changes.removed_exports)} go while the deployed {users} still import them",
                consequence="The exporting stack is deployed first and is refused. Deploy the importing stacks "
                "first, each with "
                "'cdk deploy --exclusively STACK', then the rest.",
                source=source("export-in-use"),
            )
        )


def _users(exports: dict[str, list[str]]) -> str:
    return ", ".join(sorted({name for users in exports.values() for name in users}))


def _exports_in_words(exports: dict[str, list[str]]) -> str:
    words = sorted(name.partition(":")[2] or name for name in exports)
    return first_few(words, most=3)


def _stacks(changes: Changes, findings: Findings) -> None:
    for stack in changes.removed_stacks:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="stack-left",
                what=f"stack {stack.name}",
                change="no longer part of the app",
                consequence=f"The CDK destroys no stack that left the app: its {len(stack.resources)} resources "
                "stay deployed, "
                "unmanaged and paid for, until someone deletes the stack.",
                where=stack.path,
            )
        )
    for stack in changes.added_stacks:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="stack-added",
                what=f"stack {stack.name}",
                change="new",
                consequence=f"{len(stack.resources)} resources are created.",
                where=stack.path,
            )
        )


def _policies(changes: Changes, findings: Findings) -> None:
    """Protection against deletion that goes or comes: of resources that hold data, and of stacks."""
    for change in changes.of_kind(Kind.CHANGED, Kind.REPLACED):
        before, after = (change.base or {}).get("DeletionPolicy"), (change.head or {}).get("DeletionPolicy")
        if before == after or not holds(change.type):
            continue
        protected = after in {"Retain", "RetainExceptOnCreate", "Snapshot"}
        if protected == (before in {"Retain", "RetainExceptOnCreate", "Snapshot"}):
            continue
        detail = f"DeletionPolicy {before or 'Delete'} → {after or 'Delete'}: "
        detail += f"'cdk destroy' {'keeps' if protected else 'deletes'} {holds(change.type)}"
        findings.remark(
            Remark(
                direction="switched on" if protected else "switched off",
                what=f"retention of {change.title}",
                detail=detail,
            )
        )
    for key, stack in changes.head.stacks.items():
        stack_before = changes.base.stacks.get(key)
        if stack_before is not None and stack_before.protected != stack.protected:
            findings.remark(
                Remark(
                    direction="switched on" if stack.protected else "switched off",
                    what=f"termination protection of {stack.name}",
                    detail="the stack can be deleted by one call"
                    if not stack.protected
                    else "the stack cannot be deleted by one call",
                )
            )
