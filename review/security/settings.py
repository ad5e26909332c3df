"""Encryption, logging and guards switched off or on: one table, `guards.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from review.changes import Changes, Kind, ResourceChange
from review.facts import load_yaml
from review.findings import Remark


def remarks(changes: Changes) -> Iterator[Remark]:
    """Remarks on every guarded setting that differs, and on guards that go."""
    table = load_yaml("guards.yaml")
    for change in changes.resources.values():
        if change.kind is Kind.ASSET_ONLY:
            continue
        if change.kind is Kind.REMOVED and change.type in table["removed"]:
            yield Remark(direction="switched off", what=table["removed"][change.type], detail=f"{change.title} removed")
        if change.base is None or change.head is None:
            continue
        for guard in table["settings"].get(change.type, []):
            yield from _guard(guard, change)
    yield from _volume_keys(changes)


def _guard(guard: dict[str, Any], change: ResourceChange) -> Iterator[Remark]:
    pointer = tuple(guard["property"].split("/"))
    before, now = change.before(*pointer), change.now(*pointer)
    if before == now:
        return
    better = _better(guard, before, now)
    if better is None:
        return
    yield Remark(
        direction="switched on" if better else "switched off",
        what=f"{guard['what']} of {change.title}",
        detail=f"{guard['property'].replace('/', '.')} {_word(before)} → {_word(now)}",
    )


def _better(guard: dict[str, Any], before: Any, now: Any) -> bool | None:
    """Whether the new value guards more; None when they guard alike."""
    kind = guard["kind"]
    if kind == "number":
        old, new = (float(value) if isinstance(value, int | float) else float("inf") for value in (before, now))
        return None if old == new else new > old
    if kind == "logs":
        old_items, new_items = ({str(item.get("Type")) for item in value or []} for value in (before, now))
        if old_items - new_items:
            return False
        return True if new_items - old_items else None
    if kind == "value":
        good = guard["good"]
        return None if (before == good) == (now == good) else now == good
    had, has = before not in (None, [], {}), now not in (None, [], {})
    return None if had == has else has


def _volume_keys(changes: Changes) -> Iterator[Remark]:
    """Keys of HyperPod groups' volumes that go or come."""
    from review.effects.groups import groups  # effects import nothing of security

    for change in changes.of_type("AWS::SageMaker::Cluster"):
        before, now = groups(change.base), groups(change.head)
        for name in set(before) & set(now):
            old, new = (_key(group) for group in (before[name], now[name]))
            if bool(old) != bool(new):
                yield Remark(
                    direction="switched on" if new else "switched off",
                    what=f"own encryption key of group {name}'s volumes",
                    detail=f"{old or 'a key that AWS owns'} → {new or 'a key that AWS owns'}",
                )


def _key(group: dict[str, Any]) -> str:
    for volume in group.get("InstanceStorageConfigs") or []:
        key = (volume.get("EbsVolumeConfig") or {}).get("VolumeKmsKeyId")
        if key:
            return str(key)
    return ""


def _word(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "…"
