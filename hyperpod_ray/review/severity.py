"""How bad it is that a resource goes or that one of its settings is lowered: `severity.yaml`, for every type."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import expiry
from hyperpod_ray.review.assembly import EnvironmentAssembly, Key
from hyperpod_ray.review.changes import Changes, ResourceChange
from hyperpod_ray.review.facts import load_yaml, source
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.references import Reader, references

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
    if (named := type_entry.get("named")) and change.before(named["property"]) is not None:
        return Effect.of(named["effect"])
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
    return used_by_helpers(change.key, changes)


def used_by_helpers(key: Key, changes: Changes) -> bool:
    """The same of any resource of the base."""
    types = {_type(changes.base, user) for user in changes.base_users.get(key, [])} - _POLICIES
    return bool(types) and all(name in table()["helpers"] or name.startswith("Custom::") for name in types)


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
    directed: bool
    """Whether one of both values is known to guard more; otherwise it only differs."""


def settings(change: ResourceChange, changes: Changes) -> Iterator[Lowered]:
    """The settings of a resource that guard less or more."""
    if change.base is None or change.head is None:
        return
    for guard in entry(change.type).get("settings", []):
        pointer = tuple(guard["property"].split("/"))
        before, after = change.before(*pointer), change.now(*pointer)
        if by := guard.get("by"):
            before, after = (
                [{by: Reader(side).by_name(element.get(by), side.stacks[change.key.stack])} for element in listed or []]
                for listed, side in ((before, changes.base), (after, changes.head))
            )
        better = None if before == after else _better(guard, before, after)
        if better is not None:
            yield Lowered(
                what=guard["what"],
                property=guard["property"].replace("/", "."),
                before=_shown(guard, before),
                now=_shown(guard, after),
                better=better,
                effect=Effect.of(guard.get("effect", "weakens")),
                loses=guard.get("loses", ""),
                source=guard.get("source", ""),
                lost=guard.get("lost", ""),
                code=guard.get("code", ""),
                directed=guard["kind"] != "any",
            )


_EXPIRES: dict[str, tuple[Callable[[Any, Any], bool | None], str]] = {
    "images": (expiry.more_images, "images"),
    "expiry": (expiry.more_objects, "objects"),
    "archive": (expiry.more_archived, "archived"),
}


def _better(guard: dict[str, Any], before: Any, after: Any) -> bool | None:  # noqa: PLR0911  (one for each kind)
    """Whether the new value guards more; None when they guard alike."""
    measure = guard["kind"]
    if measure == "any":
        grows = isinstance(before, list) and isinstance(after, list) and all(element in after for element in before)
        return None if grows or (after is None and guard.get("unset") == "better") else False
    if measure in _EXPIRES:
        more = _EXPIRES[measure][0](before, after)
        return None if more is None else not more
    if measure == "number":
        none = 0.0 if guard.get("zero") else float("inf")
        amount_before, amount_after = (_amount(value, none) for value in (before, after))
        return None if amount_before == amount_after else amount_after > amount_before
    if measure == "logs":
        return _more_of(*({str(element.get("Type")) for element in value or []} for value in (before, after)))
    if measure == "items":
        return _more_of(
            *({json.dumps(element, sort_keys=True) for element in value or []} for value in (before, after))
        )
    if measure == "pattern":
        return wider_pattern(before, after)
    if measure == "value":
        good_values = guard["good"] if isinstance(guard["good"], list) else [guard["good"]]
        return None if (before in good_values) == (after in good_values) else after in good_values
    had, has = before not in (None, [], {}), after not in (None, [], {})
    return None if had == has else has


def _amount(value: Any, none: float) -> float:
    return float(value) if isinstance(value, int | float) or str(value).isdigit() else none


def _more_of(before: set[str], after: set[str]) -> bool | None:
    if before - after:
        return False
    return True if after - before else None


def wider_pattern(before: Any, after: Any) -> bool | None:
    """Whether a pattern of events takes all that the one before took: fewer fields, or more values of a field.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None if before is None else False
    return all(_takes_all(before.get(name), values) for name, values in after.items())


def _takes_all(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return all(_takes_all(before.get(name), values) for name, values in after.items())
    return isinstance(before, list) and isinstance(after, list) and all(value in after for value in before)


def _shown(guard: dict[str, Any], value: Any) -> Any:
    return expiry.fewest(value, _EXPIRES[guard["kind"]][1]) if guard["kind"] in _EXPIRES else value


# --- changed in place ------------------------------------------------------------------------------------------------

_POLICY_ATTRIBUTES = {"DeletionPolicy", "UpdateReplacePolicy", "Condition"}


def unknown_properties(change: ResourceChange) -> list[str]:
    """Changed properties of which nothing here says what a change in place does to what uses the resource.

    The registry schema says that a property changes in place, and not that nobody notices. The table's types are those
    of this project's templates, whose properties have rules of their own, and stores of other people.
    """
    type_entry = table()["types"].get(change.type)
    if type_entry is not None and "harmless" not in type_entry:
        return []
    judged = {guard["property"].partition("/")[0] for guard in (type_entry or {}).get("settings", [])}
    harmless = {*((type_entry or {}).get("harmless") or []), *judged, *_POLICY_ATTRIBUTES}
    return sorted({pointer[0] for pointer in change.changed} - harmless)


def when_added(change: ResourceChange) -> Effect:
    """What it means that a resource comes: some cut off what is there."""
    added = entry(change.type).get("added")
    if added is None or any(change.now(name) != value for name, value in (added.get("where") or {}).items()):
        return Effect.SAFE
    return Effect.of(added["effect"])
