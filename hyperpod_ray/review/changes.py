"""What changes between two versions of one environment: resources added, removed, changed, replaced and why.

A replacement is followed: a resource whose create-only property refers to a replaced one is replaced too, in whatever
stack it is (`Fn::ImportValue`, `Fn::GetStackOutput`, parameters and outputs of nested stacks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from hyperpod_ray.review import schemas
from hyperpod_ray.review.assembly import EnvironmentAssembly, Key, Stack
from hyperpod_ray.review.facts import extra_create_only, facts
from hyperpod_ray.review.kubernetes import Cluster
from hyperpod_ray.review.references import Reader, Reference, imports, references, users

_ASSET = re.compile(r"[0-9a-f]{64}")
_MISSING = object()


class Kind(Enum):
    """What happens to a resource."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REPLACED = "replaced"
    ASSET_ONLY = "asset"
    """Differs in content hashes of uploaded files alone."""


@dataclass(kw_only=True)
class ResourceChange:
    """One resource that differs between base and head."""

    key: Key
    kind: Kind
    type: str
    title: str
    base: dict[str, Any] | None
    head: dict[str, Any] | None
    changed: list[tuple[str, ...]] = field(default_factory=list)
    """Pointers of the properties that differ."""
    because: list[tuple[str, ...]] = field(default_factory=list)
    """Create-only pointers that cause the replacement."""
    after: list[Key] = field(default_factory=list)
    """Replaced resources that this one's create-only properties refer to."""
    perhaps: bool = False
    """The schema calls the property conditional: the service decides."""
    same_name: tuple[str, ...] = ()
    """Custom names that stay the same, so that CloudFormation cannot make the new one beside the old one."""

    def before(self, *pointer: str) -> Any:
        """Value of a property in the base; None when there is none."""
        return schemas.at((self.base or {}).get("Properties", {}), pointer)

    def now(self, *pointer: str) -> Any:
        """Value of a property in the head; None when there is none."""
        return schemas.at((self.head or {}).get("Properties", {}), pointer)

    def differs(self, *pointer: str) -> bool:
        """Whether the property differs."""
        return bool(self.before(*pointer) != self.now(*pointer))

    @property
    def kept(self) -> bool:
        """Whether CloudFormation leaves the old resource in the account when it goes."""
        if self.kind is Kind.REPLACED:
            policy = (self.head or {}).get("UpdateReplacePolicy")
        else:
            policy = (self.base or {}).get("DeletionPolicy")
        return policy in {"Retain", "RetainExceptOnCreate", "Snapshot"}


@dataclass(kw_only=True)
class Changes:
    """Everything that differs in one environment."""

    base: EnvironmentAssembly
    head: EnvironmentAssembly
    resources: dict[Key, ResourceChange]
    added_stacks: list[Stack]
    removed_stacks: list[Stack]
    changed_exports: dict[str, list[str]]
    """Exports whose value changes while stacks import it → those stacks' names."""
    removed_exports: dict[str, list[str]]
    """Exports that go while stacks of the base import them (and of the head no more) → those stacks' names."""
    base_reader: Reader
    head_reader: Reader

    def of_type(self, *types: str) -> Iterator[ResourceChange]:
        """Changes of resources of a type."""
        return (change for change in self.resources.values() if change.type in types)

    def text(self, change: ResourceChange, name: str) -> str:
        """A property of the base as text."""
        return self.base_reader.text(change.before(name), self.base.stacks[change.key.stack])

    def of_kind(self, *kinds: Kind) -> Iterator[ResourceChange]:
        """Changes of a kind."""
        return (change for change in self.resources.values() if change.kind in kinds)

    @cached_property
    def base_cluster(self) -> Cluster:
        """What the base puts into Kubernetes."""
        return Cluster(self.base, self.base_reader)

    @cached_property
    def head_cluster(self) -> Cluster:
        """What the head puts into Kubernetes."""
        return Cluster(self.head, self.head_reader)

    @cached_property
    def base_users(self) -> dict[Key, list[Key]]:
        """Resources of the base, each with those that refer to it."""
        return users(self.base)

    @property
    def asset_only(self) -> list[ResourceChange]:
        """Resources that differ in asset hashes alone."""
        return list(self.of_kind(Kind.ASSET_ONLY))

    @property
    def empty(self) -> bool:
        """Whether nothing at all differs."""
        exports = self.changed_exports or self.removed_exports
        return not (self.resources or self.added_stacks or self.removed_stacks or self.protection or exports)

    @property
    def protection(self) -> list[Stack]:
        """Stacks of the head whose termination protection differs: no template shows it."""
        return [
            stack
            for key, stack in self.head.stacks.items()
            if key in self.base.stacks and self.base.stacks[key].protected != stack.protected
        ]


def compare(base: EnvironmentAssembly, head: EnvironmentAssembly) -> Changes:
    """Compare two versions of an environment."""
    resource_changes: dict[Key, ResourceChange] = {}
    for stack_id in {**base.stacks, **head.stacks}:
        before, after = base.stacks.get(stack_id), head.stacks.get(stack_id)
        if after is None:
            continue  # a stack that left the app stays as it is deployed
        _compare_stack(before, after, resource_changes, base=base, head=head)
    _spread(resource_changes, head)
    for change in resource_changes.values():
        if change.kind is Kind.REPLACED:
            change.same_name = _same_name(change, head)

    def new_value(reference: Reference) -> bool:
        change = resource_changes.get(reference.key)
        if change is None:
            return False
        # a literal name stays what it is; everything else of a replaced resource is new
        return (change.kind is Kind.REPLACED and not change.perhaps) or _attribute_changes(change, reference.attribute)

    changed_exports, removed_exports = _exports(base, head, new_value)
    return Changes(
        base=base,
        head=head,
        resources=resource_changes,
        added_stacks=[stack for key, stack in head.stacks.items() if key not in base.stacks],
        removed_stacks=[stack for key, stack in base.stacks.items() if key not in head.stacks],
        changed_exports=changed_exports,
        removed_exports=removed_exports,
        base_reader=Reader(base),
        head_reader=Reader(head, changed=new_value),
    )


# --- one stack -------------------------------------------------------------------------------------------------------


def _compare_stack(
    before: Stack | None,
    after: Stack | None,
    resource_changes: dict[Key, ResourceChange],
    *,
    base: EnvironmentAssembly,
    head: EnvironmentAssembly,
) -> None:
    stack = after or before
    assert stack is not None  # noqa: S101  (one of the two has it)
    resources_before, resources_after = (before.resources if before else {}), (after.resources if after else {})
    for logical_id in {**resources_before, **resources_after}:
        was, is_now = resources_before.get(logical_id), resources_after.get(logical_id)
        if was == is_now:
            continue
        key = Key(stack.id, logical_id)
        title = (head if is_now else base).title(key)
        change = _compare_resource(key, title, was, is_now, stack)
        if change is not None:
            resource_changes[key] = change


def _compare_resource(
    key: Key, title: str, was: dict[str, Any] | None, is_now: dict[str, Any] | None, stack: Stack
) -> ResourceChange | None:
    resource_type = (is_now or was or {})["Type"]
    common: dict[str, Any] = {"key": key, "title": title, "type": resource_type, "base": was, "head": is_now}
    if was is None:
        return ResourceChange(kind=Kind.ADDED, **common)
    if is_now is None:
        return ResourceChange(kind=Kind.REMOVED, **common)
    if was["Type"] != is_now["Type"]:
        return ResourceChange(kind=Kind.REPLACED, because=[("Type",)], **common)
    before, after = was.get("Properties", {}), is_now.get("Properties", {})
    changed = [(*pointer,) for pointer in differing(before, after)]
    policies = [
        name for name in ("DeletionPolicy", "UpdateReplacePolicy", "Condition") if was.get(name) != is_now.get(name)
    ]
    if not changed and not policies:
        return None  # Metadata alone
    if _without_assets(before) == _without_assets(after) and not policies:
        return ResourceChange(kind=Kind.ASSET_ONLY, changed=changed, **common)
    change = ResourceChange(kind=Kind.CHANGED, changed=changed or [(name,) for name in policies], **common)
    registry = schemas.rules(resource_type, stack.region)
    for pointer in (*registry.create_only, *extra_create_only(resource_type)):
        if change.differs(*pointer):
            change.kind = Kind.REPLACED
            change.because.append(pointer)
    if change.kind is Kind.CHANGED:
        conditional = [pointer for pointer in registry.conditional if change.differs(*pointer)]
        if conditional:
            change.kind, change.because, change.perhaps = Kind.REPLACED, conditional, True
    return change


def differing(before: Any, after: Any, pointer: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Pointers of the smallest parts that differ; lists are compared as a whole."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and not _intrinsic(before) and not _intrinsic(after):
        for name in {**before, **after}:
            yield from differing(before.get(name, _MISSING), after.get(name, _MISSING), (*pointer, name))
        return
    yield pointer


def _intrinsic(value: dict[str, Any]) -> bool:
    return len(value) == 1 and (next(iter(value)) == "Ref" or next(iter(value)).startswith("Fn::"))


def _without_assets(value: Any) -> Any:
    if isinstance(value, str):
        return _ASSET.sub("<asset>", value)
    if isinstance(value, list):
        return [_without_assets(part) for part in value]
    if isinstance(value, dict):
        return {key: _without_assets(part) for key, part in value.items()}
    return value


# --- across stacks ---------------------------------------------------------------------------------------------------


def _spread(resource_changes: dict[Key, ResourceChange], head: EnvironmentAssembly) -> None:
    """Follow replacements until nothing new is replaced."""
    pending = [key for key, change in resource_changes.items() if change.kind is Kind.REPLACED]
    if not pending:
        return
    dependents = _create_only_references(head)
    while pending:
        replaced = pending.pop()
        for key, pointer, stack in dependents.get(replaced, []):
            change = resource_changes.get(key)
            if change is None or change.kind is Kind.ASSET_ONLY:
                resource = head.resource(key)
                assert resource is not None  # noqa: S101  (it came from the head)
                change = ResourceChange(
                    key=key,
                    kind=Kind.CHANGED,
                    type=resource["Type"],
                    title=stack.title(key.logical_id),
                    base=resource,
                    head=resource,
                )
                resource_changes[key] = change
            if change.kind is Kind.ADDED:
                continue
            if pointer not in change.because:
                change.because.append(pointer)
            if replaced not in change.after:
                change.after.append(replaced)
            if resource_changes[replaced].perhaps and change.kind is not Kind.REPLACED:
                change.perhaps = True
            if change.kind is not Kind.REPLACED:
                change.kind = Kind.REPLACED
                pending.append(key)


def _create_only_references(head: EnvironmentAssembly) -> dict[Key, list[tuple[Key, tuple[str, ...], Stack]]]:
    """Resource → those whose create-only properties refer to it."""
    dependents: dict[Key, list[tuple[Key, tuple[str, ...], Stack]]] = {}
    for stack in head.stacks.values():
        for logical_id, resource in stack.resources.items():
            registry = schemas.rules(resource["Type"], stack.region)
            for pointer in (*registry.create_only, *extra_create_only(resource["Type"])):
                value = schemas.at(resource.get("Properties", {}), pointer)
                for reference in references(value, stack, head):
                    dependent = (Key(stack.id, logical_id), pointer, stack)
                    listed = dependents.setdefault(reference.key, [])
                    if dependent not in listed:
                        listed.append(dependent)
    return dependents


def _same_name(change: ResourceChange, head: EnvironmentAssembly) -> tuple[str, ...]:
    """Names that the template sets and that stay, of a resource that is to be replaced: empty when none does."""
    region = head.stacks[change.key.stack].region if change.key.stack in head.stacks else ""
    for identifiers in schemas.rules(change.type, region).identifiers:
        names = [(change.before(*pointer), change.now(*pointer)) for pointer in identifiers]
        stays = all(before is not None and before == after for before, after in names)
        # what refers to a replaced resource is a new name even where the text is the same
        fresh = any(pointer in change.because for pointer in identifiers)
        if stays and not fresh:
            reader = Reader(head)
            return tuple(reader.text(after, head.stacks[change.key.stack]) for _, after in names)
    return ()


def _attribute_changes(change: ResourceChange, attribute: str) -> bool:
    """Whether an attribute of a custom resource changes because one of its properties does."""
    causes = facts()["attributes"].get(change.type, {}).get(attribute, [])
    return any(change.differs(cause) for cause in causes) and change.kind is not Kind.ADDED


def _exports(
    base: EnvironmentAssembly, head: EnvironmentAssembly, new_value: Any
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Exports in use whose value changes, and exports that go although a deployed stack still imports them."""
    users = _users(base)
    changed: dict[str, list[str]] = {}
    removed: dict[str, list[str]] = {}
    for name, (owner, before) in base.exports.items():
        if name not in users or owner.id not in head.stacks:
            continue  # a stack that left the app stays as it is deployed, with its exports
        if name not in head.exports:
            removed[name] = users[name]
            continue
        stack, value = head.exports[name]
        if value != before or any(new_value(reference) for reference in references(value, stack, head)):
            changed[name] = users[name]
    return changed, removed


def _users(assembly: EnvironmentAssembly) -> dict[str, list[str]]:
    importers: dict[str, list[str]] = {}
    for stack in assembly.stacks.values():
        for name in set(imports(stack.template.get("Resources", {}))) | set(imports(stack.template.get("Outputs", {}))):
            importers.setdefault(name, []).append(stack.name)
    return importers
