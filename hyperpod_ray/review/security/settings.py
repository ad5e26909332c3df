"""Encryption, logging and guards switched off or on: the settings of `severity.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind
from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.instance_groups import groups


def remarks(changes: Changes) -> Iterator[Remark]:
    """Remarks on every guarded setting that differs, and on guards that go."""
    for change in changes.resources.values():
        if change.kind is Kind.ASSET_ONLY:
            continue
        guard = severity.entry(change.type).get("guard", "")
        if change.kind is Kind.REMOVED and guard:
            followed = severity.followed(change, changes)
            yield Remark(
                direction="changed" if followed else "switched off",
                what=guard,
                detail=f"{change.title} removed" + (", another one takes its place" if followed else ""),
            )
        for setting in severity.settings(change, changes):
            if not setting.directed:
                continue  # it has a row
            yield Remark(
                direction="switched on" if setting.better else "switched off",
                what=f"{setting.what} of {change.title}",
                detail=f"{setting.property} {_word(setting.before)} → {_word(setting.now)}",
            )
    yield from _volume_keys(changes)


def _volume_keys(changes: Changes) -> Iterator[Remark]:
    """Keys of HyperPod groups' volumes that go or come."""
    for change in changes.of_type("AWS::SageMaker::Cluster"):
        before, after = groups(change.base), groups(change.head)
        for name in set(before) & set(after):
            key_before, key_after = (_key(group) for group in (before[name], after[name]))
            if bool(key_before) != bool(key_after):
                yield Remark(
                    direction="switched on" if key_after else "switched off",
                    what=f"own encryption key of group {name}'s volumes",
                    detail=f"{key_before or 'a key that AWS owns'} → {key_after or 'a key that AWS owns'}",
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
