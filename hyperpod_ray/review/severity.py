"""How bad it is that a resource goes or that one of its settings is lowered: `severity.yaml`, for every type."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core import names
from hyperpod_ray.review.facts import load_yaml, source
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.references import references

if TYPE_CHECKING:
    from hyperpod_ray.review.assembly import EnvironmentAssembly, Key
    from hyperpod_ray.review.changes import Changes, ResourceChange

_POLICIES = {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}
_KEEPS = {"Retain", "RetainExceptOnCreate", "Snapshot"}


@functools.cache
def table() -> dict[str, Any]:
    """The whole file."""
    return load_yaml("severity.yaml")


def entry(resource_type: str) -> dict[str, Any]:
    """What the table has of a type. A type that it lacks interrupts when it goes."""
    found: dict[str, Any] = table()["types"].get(resource_type, {"removed": "interrupts"})
    return found


def of_class(name: str) -> dict[str, Any]:
    """`effect` and `source` of a class of changes, as a row takes them. KeyError when there is none."""
    found = table()["classes"][name]
    return {"effect": Effect.of(found["effect"]), "source": source(found["source"])}


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
    found = entry(resource_type)
    removed = found.get("removed", "interrupts")
    return Effect.of(found.get("kept", removed) if kept else removed)


def when_replaced(change: ResourceChange) -> Effect:
    """The same of a replaced resource: a guard that is replaced guards on."""
    effect = when_gone(change.type, kept=change.kept)
    return Effect.SAFE if effect is Effect.WEAKENS else effect


def when_removed(change: ResourceChange, changes: Changes) -> Effect:
    """The same of a removed resource, by what used it."""
    found = entry(change.type)
    if change.kept:
        return when_gone(change.type, kept=True)
    of_guard = change.before("Namespace") == names.GUARD  # its identity: `effects.guard` reports what goes with it
    if of_guard or ("guard" in found and followed(change, changes)):
        return Effect.SAFE
    if (only := found.get("only_for")) and changes.text(change, only["property"]).endswith(only["ends"]):
        return Effect.of(only["effect"])
    if "helper" in found and of_helpers(change, changes):
        return Effect.of(found["helper"])
    if "unused" in found and not _used(change, changes):
        return Effect.of(found["unused"])
    return when_gone(change.type, kept=False)


def followed(change: ResourceChange, changes: Changes) -> bool:
    """Whether as many of its type come into its stack as leave it: another subscriber, a renamed alarm."""
    same = [one for one in changes.of_type(change.type) if one.key.stack == change.key.stack]
    return sum(one.base is None for one in same) >= sum(one.head is None for one in same)


def when_unkept(change: ResourceChange) -> Effect | None:
    """What it means that a deletion policy changes; None when it keeps as before."""
    before, now = ((side or {}).get("DeletionPolicy") in _KEEPS for side in (change.base, change.head))
    if before == now:
        return None
    return Effect.of(entry(change.type).get("policy", "safe")) if before else Effect.SAFE


def users(assembly: EnvironmentAssembly) -> dict[Key, list[Key]]:
    """Resource → those that refer to it, in whatever stack."""
    found: dict[Key, list[Key]] = {}
    for key, resource in assembly.all():
        for reference in references(resource.get("Properties"), assembly.stacks[key.stack], assembly):
            if reference.key != key and key not in found.setdefault(reference.key, []):
                found[reference.key].append(key)
    return found


def of_helpers(change: ResourceChange, changes: Changes) -> bool:
    """Whether only functions, builds and their policies refer to it."""
    types = {_type(changes.base, key) for key in changes.base_users.get(change.key, [])} - _POLICIES
    return bool(types) and types <= set(table()["helpers"])


def _used(change: ResourceChange, changes: Changes) -> bool:
    """Whether something that stays refers to it; of a policy: whether a role that has it stays."""
    near = list(changes.base_users.get(change.key, []))
    if change.type in _POLICIES:
        stack = changes.base.stacks[change.key.stack]
        near += [one.key for one in references(change.before("Roles"), stack, changes.base)]
    return any(
        changes.head.resource(key) is not None
        for key in near
        if change.type in _POLICIES or _type(changes.base, key) not in _POLICIES
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
        before, now = (read(get(*pointer)) for get in (change.before, change.now))
        better = None if before == now else _better(guard, before, now)
        if better is not None:
            yield Lowered(
                what=guard["what"],
                property=guard["property"].replace("/", "."),
                before=before,
                now=now,
                better=better,
                effect=Effect.of(guard.get("effect", "weakens")),
                loses=guard.get("loses", ""),
                source=guard.get("source", ""),
                lost=guard.get("lost", ""),
                code=guard.get("code", ""),
            )


def _better(guard: dict[str, Any], before: Any, now: Any) -> bool | None:
    """Whether the new value guards more; None when they guard alike."""
    kind = guard["kind"]
    if kind in {"number", "images", "expiry"}:
        none = 0.0 if guard.get("zero") else float("inf")
        old, new = (float(value) if isinstance(value, int | float) else none for value in (before, now))
        return None if old == new else new > old
    if kind == "logs":
        old_items, new_items = ({str(item.get("Type")) for item in value or []} for value in (before, now))
        if old_items - new_items:
            return False
        return True if new_items - old_items else None
    if kind == "value":
        good = guard["good"] if isinstance(guard["good"], list) else [guard["good"]]
        return None if (before in good) == (now in good) else now in good
    had, has = before not in (None, [], {}), now not in (None, [], {})
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
