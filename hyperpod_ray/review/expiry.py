"""What lifecycle rules of a bucket or of a repository delete, and whether other rules delete more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

_ARCHIVES = {"GLACIER", "Glacier", "DEEP_ARCHIVE"}
"""Storage classes whose objects nobody reads before they are restored, as CloudFormation spells them."""


class Expiry(NamedTuple):
    """One thing that a rule does with what it covers."""

    action: str
    after: float
    """Days, or images that stay: fewer delete more."""
    prefix: str
    narrowed_by: frozenset[str]
    """Conditions that an object or image must fulfil beside the prefix; fewer cover more."""


def more_objects(before: Any, after: Any) -> bool | None:
    """Whether rules of a bucket delete objects or versions that the ones before kept; None when neither does."""
    return _more(set(_of_objects(before, "expire")), set(_of_objects(after, "expire")))


def more_archived(before: Any, after: Any) -> bool | None:
    """Whether rules of a bucket move objects, that the ones before did not, to where nobody reads them at once."""
    return _more(set(_of_objects(before, "archive")), set(_of_objects(after, "archive")))


def more_images(before: Any, after: Any) -> bool | None:
    """Whether rules of a repository delete images that the ones before kept; None when neither does."""
    return _more(set(_of_images(before)), set(_of_images(after)))


def fewest(rules: Any, read: str) -> str:
    """What rules do, in a few words."""
    words = {
        "objects": lambda: {f"{_days(rule)}{_where(rule)}" for rule in _of_objects(rules, "expire")},
        "archived": lambda: {f"{_days(rule)}{_where(rule)}" for rule in _of_objects(rules, "archive")},
        "images": lambda: {f"{rule.after:g}{' days' if rule.action == 'age' else ''}" for rule in _of_images(rules)},
    }[read]()
    return ", ".join(sorted(words)) or "none"


def _days(rule: Expiry) -> str:
    return rule.action.removeprefix("at ") if rule.action.startswith("at ") else f"{rule.after:g}"


def _where(rule: Expiry) -> str:
    return f" ({rule.prefix})" if rule.prefix else ""


def _more(before: set[Expiry], after: set[Expiry]) -> bool | None:
    more = any(not any(_covers(old, new) for old in before) for new in after)
    fewer = any(not any(_covers(new, old) for new in after) for old in before)
    return True if more else False if fewer else None


def _covers(rule: Expiry, other: Expiry) -> bool:
    """Whether a rule does what the other one does, to at least as much and at least as early."""
    return (
        rule.action == other.action
        and rule.after <= other.after
        and other.prefix.startswith(rule.prefix)
        and rule.narrowed_by <= other.narrowed_by
    )


def _of_objects(rules: Any, action: str) -> Iterator[Expiry]:
    for rule in rules or []:
        if not isinstance(rule, dict) or rule.get("Status") != "Enabled":
            continue
        conditions = {json.dumps(tag, sort_keys=True) for tag in rule.get("TagFilters") or []}
        conditions |= {
            f"{name} {rule[name]}" for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan") if name in rule
        }
        prefix = str(rule.get("Prefix") or "")
        for name, days, spared in _expire(rule) if action == "expire" else _archive(rule):
            yield Expiry(name, days, prefix, frozenset(conditions | spared))


def _expire(rule: dict[str, Any]) -> Iterator[tuple[str, float, set[str]]]:
    if "ExpirationInDays" in rule:
        yield "delete", _number(rule["ExpirationInDays"]), set()
    if "ExpirationDate" in rule:
        yield f"at {rule['ExpirationDate']}", 0, set()
    versions = rule.get("NoncurrentVersionExpiration") or {}
    days = versions.get("NoncurrentDays", rule.get("NoncurrentVersionExpirationInDays"))
    if days is not None:
        newest = int(_number(versions.get("NewerNoncurrentVersions")))
        yield "delete old versions", _number(days), {f"not the newest {number}" for number in range(1, newest + 1)}


def _archive(rule: dict[str, Any]) -> Iterator[tuple[str, float, set[str]]]:
    listed = [*(rule.get("Transitions") or []), *([rule["Transition"]] if "Transition" in rule else [])]
    for transition in listed:
        if transition.get("StorageClass") in _ARCHIVES:
            date = transition.get("TransitionDate")
            yield (f"at {date}", 0, set()) if date else ("archive", _number(transition.get("TransitionInDays")), set())


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) or str(value).isdigit() else 0.0


def _of_images(text: Any) -> Iterator[Expiry]:
    """What rules of a repository delete.

    Untagged images too: one whose tag a later push took is still the image of pods that name it by digest.
    """
    try:
        rules = json.loads(text)["rules"] if isinstance(text, str) else []
    except (ValueError, KeyError, TypeError):
        return
    for rule in rules:
        selection = rule.get("selection") or {}
        if rule.get("action", {}).get("type", "expire") != "expire":
            continue
        tags = {*(selection.get("tagPrefixList") or []), *(selection.get("tagPatternList") or [])}
        if (status := selection.get("tagStatus")) in ("tagged", "untagged"):
            tags.add(f"({status})")
        action = {"imageCountMoreThan": "count"}.get(str(selection.get("countType")), "age")
        yield Expiry(action, _number(selection.get("countNumber")), "", frozenset(tags))
