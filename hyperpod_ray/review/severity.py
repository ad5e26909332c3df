"""How bad it is that a resource goes or that one of its settings is lowered: `severity.yaml`, for every type."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review.assembly import EnvironmentAssembly, Key
from hyperpod_ray.review.changes import Changes, ResourceChange
from hyperpod_ray.review.facts import load_yaml, source
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.references import references

_POLICIES = {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}
_NAMING = _POLICIES | {"AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy", "AWS::KMS::Key"}
"""Types that name a role and do not act as it."""


@functools.cache
def table() -> dict[str, Any]:
    """The whole file."""
    return load_yaml("severity.yaml")


def entry(resource_type: str) -> dict[str, Any]:
    """What the table has of a type. A type that it lacks interrupts when it goes."""
    type_entry: dict[str, Any] = table()["types"].get(resource_type, {"removed": "interrupts"})
    return type_entry


def of_class(name: str) -> dict[str, Any]:
    """`effect` and `source` of a class of changes, as a row takes them. KeyError when there is none."""
    class_entry = table()["classes"][name]
    return {"effect": Effect.of(class_entry["effect"]), "source": source(class_entry["source"])}


def holds(resource_type: str) -> str:
    """What such a resource holds, in words; empty when nothing in particular."""
    words: str = entry(resource_type).get("holds", "")
    return words


def noun(resource_type: str) -> str:
    """What a headline counts such resources as; empty when it does not."""
    word: str = entry(resource_type).get("noun", "")
    return word


def when_gone(resource_type: str, *, kept: bool) -> Effect:
    """What it means that a resource goes; `kept` when its deletion policy keeps the old one."""
    type_entry = entry(resource_type)
    removed = type_entry.get("removed", "interrupts")
    return Effect.of(type_entry.get("kept", removed) if kept else removed)


def when_replaced(change: ResourceChange) -> Effect:
    """The same of a replaced resource: a guard that is replaced guards on."""
    effect = when_gone(change.type, kept=change.kept)
    return Effect.SAFE if effect is Effect.WEAKENS else effect


def when_removed(change: ResourceChange, changes: Changes) -> Effect:
    """The same of a removed resource, by what used it."""
    type_entry = entry(change.type)
    if change.kept:
        return when_gone(change.type, kept=True)
    of_guard = change.before("Namespace") == names.GUARD  # its identity: `effects.guard` reports what goes with it
    if of_guard or ("guard" in type_entry and followed(change, changes)):
        return Effect.WEAKENS if of_guard and guard_runs(changes) else Effect.SAFE
    if (only := type_entry.get("only_for")) and changes.text(change, only["property"]).endswith(only["ends"]):
        return Effect.of(only["effect"])
    if "helper" in type_entry and of_helpers(change, changes):
        return Effect.of(type_entry["helper"])
    unused = "unused" in type_entry and not _used(change, changes)
    return Effect.of(type_entry["unused"]) if unused else when_gone(change.type, kept=False)


def guard_runs(changes: Changes) -> bool:
    """Whether the node guard has pods afterwards."""
    return any(name.kind == "Deployment" and name.namespace == names.GUARD for name in changes.head_cluster.objects)


def followed(change: ResourceChange, changes: Changes) -> bool:
    """Whether as many of its type come into its stack as leave it: another subscriber, a renamed alarm."""
    same = [sibling for sibling in changes.of_type(change.type) if sibling.key.stack == change.key.stack]
    return sum(sibling.base is None for sibling in same) >= sum(sibling.head is None for sibling in same)


def of_helpers(change: ResourceChange, changes: Changes) -> bool:
    """Whether only functions, builds and their policies refer to it."""
    types = {_type(changes.base, key) for key in changes.base_users.get(change.key, [])} - _POLICIES
    return bool(types) and types <= set(table()["helpers"])


def _used(change: ResourceChange, changes: Changes) -> bool:
    """Whether something that stays refers to it; of a policy: whether a role that has it stays."""
    near = list(changes.base_users.get(change.key, []))
    if change.type in _POLICIES:
        stack = changes.base.stacks[change.key.stack]
        near += [reference.key for reference in references(change.before("Roles"), stack, changes.base)]
    return any(
        changes.head.resource(key) is not None
        for key in near
        if change.type in _POLICIES or _type(changes.base, key) not in _NAMING
    )


def _type(assembly: EnvironmentAssembly, key: Key) -> str:
    return str((assembly.resource(key) or {}).get("Type"))


# --- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A setting that guards less or more than before."""

    what: str
    property: str
    before: Any
    now: Any
    better: bool
    effect: Effect
    """What it means that it guards less."""
    loses: str
    source: str
    """Name in `facts.yaml`."""
    lost: str
    """What a headline counts it as."""
    code: str
    """Code of the row that another rule makes; empty when this table makes it."""


def settings(change: ResourceChange) -> Iterator[Lowered]:
    """The settings of a resource that guard less or more."""
    if change.base is None or change.head is None:
        return
    for guard in entry(change.type).get("settings", []):
        pointer = tuple(guard["property"].split("/"))
        read = _READ.get(guard["kind"], _as_it_is)
        before, after = (read(get(*pointer)) for get in (change.before, change.now))
        better = None if before == after else _better(guard, before, after)
        if better is not None:
            yield Lowered(
                what=guard["what"],
                property=guard["property"].replace("/", "."),
                before=before,
                now=after,
                better=better,
                effect=Effect.of(guard.get("effect", "weakens")),
                loses=guard.get("loses", ""),
                source=guard.get("source", ""),
                lost=guard.get("lost", ""),
                code=guard.get("code", ""),
            )


def _better(guard: dict[str, Any], before: Any, after: Any) -> bool | None:
    """Whether the new value guards more; None when they guard alike."""
    measure = guard["kind"]
    if measure in {"number", "images", "expiry"}:
        none = 0.0 if guard.get("zero") else float("inf")
        amount_before, amount_after = (
            float(value) if isinstance(value, int | float) else none for value in (before, after)
        )
        return None if amount_before == amount_after else amount_after > amount_before
    if measure == "logs":
        old_items, new_items = ({str(element.get("Type")) for element in value or []} for value in (before, after))
        if old_items - new_items:
            return False
        return True if new_items - old_items else None
    if measure == "value":
        good_values = guard["good"] if isinstance(guard["good"], list) else [guard["good"]]
        return None if (before in good_values) == (after in good_values) else after in good_values
    had, has = before not in (None, [], {}), after not in (None, [], {})
    return None if had == has else has


def _number_of_images(text: Any) -> int | None:
    """How many images a lifecycle policy keeps; None when it keeps all."""
    try:
        rules = json.loads(text)["rules"] if isinstance(text, str) else []
    except (ValueError, KeyError, TypeError):
        return None
    counts = [
        int(rule["selection"]["countNumber"])
        for rule in rules
        if rule.get("selection", {}).get("countType") == "imageCountMoreThan"
        and rule["selection"].get("tagStatus") != "untagged"
    ]
    return min(counts, default=None)


def _days_until_expiry(rules: Any) -> int | None:
    """Days after which a bucket's rules delete what is in it; None when they never do."""
    days = [
        int(rule["ExpirationInDays"])
        for rule in rules or []
        if isinstance(rule, dict) and rule.get("Status") == "Enabled" and "ExpirationInDays" in rule
    ]
    return min(days, default=None)


def _as_it_is(value: Any) -> Any:
    return value


_READ: dict[str, Callable[[Any], Any]] = {"images": _number_of_images, "expiry": _days_until_expiry}
