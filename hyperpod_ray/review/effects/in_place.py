"""Resources that change in place: what is known to be harmless, what deletes or guards less, and what nobody knows."""

from __future__ import annotations

from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.effects.words import number
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Row, first_few
from hyperpod_ray.review.kubernetes import MANIFEST_TYPE, RELEASE_TYPE

_IN_DETAIL = {
    "AWS::SageMaker::Cluster",
    "AWS::FSx::FileSystem",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::EKS::Cluster",
    "AWS::EKS::Addon",
    MANIFEST_TYPE,
    RELEASE_TYPE,
}
"""Types whose changes in place have rules of their own."""
_NAMED_IN_LIST = 8
_TAGS = {"Tags", "HostedZoneTags", "ResourceTags"}


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each resource that stays and differs."""
    _tags(changes, findings)
    safe = []
    for change in changes.of_kind(Kind.CHANGED):
        if change.type in _IN_DETAIL or only_tags(change):
            continue
        if _fixed(change):
            findings.add(_unchangeable(change))
        elif unknown := [name for name in severity.unknown_properties(change) if name not in _TAGS]:
            findings.add(_unknown(change, unknown))
        else:
            safe.append(change)
    if safe:
        parts = sorted({f"{change.title} ({', '.join(sorted({p[0] for p in change.changed}))})" for change in safe})
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="in-place",
                what=number(len(safe), "resource"),
                change="properties that the registry schema lets change",
                consequence=f"Updated in place: {first_few(parts, most=_NAMED_IN_LIST)}.",
            )
        )
    _lowered(changes, findings)


def only_tags(change: ResourceChange) -> bool:
    """Whether nothing but tags changes: no service restarts anything for it."""
    return change.kind is Kind.CHANGED and {pointer[0] for pointer in change.changed} <= _TAGS


def _tags(changes: Changes, findings: Findings) -> None:
    retagged = [change for change in changes.resources.values() if only_tags(change)]
    if not retagged:
        return
    differences: dict[str, None] = {}
    for change in retagged:
        tags_property = next((pointer[0] for pointer in change.changed), "Tags")
        before, after = _tag_map(change.before(tags_property)), _tag_map(change.now(tags_property))
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                differences[f"{key} {before.get(key, 'none')} → {after.get(key, 'none')}"] = None
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="retagged",
            what=number(len(retagged), "resource"),
            change="tags: " + (", ".join(list(differences)[:6]) or "their order"),
            consequence="In place; nothing restarts. Cost reports and policies by these tags see the new ones.",
        )
    )


def _tag_map(tags: object) -> dict[str, str]:
    if isinstance(tags, dict):
        return {str(key): str(value) for key, value in tags.items()}
    if isinstance(tags, list):
        return {str(tag.get("Key")): str(tag.get("Value")) for tag in tags if isinstance(tag, dict)}
    return {}


def _fixed(change: ResourceChange) -> list[str]:
    """Properties that change, and that CloudFormation refuses to change."""
    properties = facts()["fixed"].get(change.type, {}).get("properties", [])
    return [name for name in properties if change.differs(name)]


def _unchangeable(change: ResourceChange) -> Row:
    return Row(
        effect=Effect.REJECTED,
        code="fixed",
        what=f"{change.type} {change.title}",
        change=", ".join(f"{name} {change.before(name)} → {change.now(name)}" for name in _fixed(change)),
        consequence="CloudFormation does not support this update and fails it. A new logical ID makes a new resource, "
        "and deletes this one with what it holds.",
        source=facts()["fixed"][change.type]["source"],
        where=change.title,
    )


def _unknown(change: ResourceChange, unknown: list[str]) -> Row:
    custom = change.type.startswith("Custom::") or change.type == "AWS::CloudFormation::CustomResource"
    return Row(
        effect=Effect.INTERRUPTS,
        code="in-place-unknown",
        what=f"{change.type} {change.title}",
        change=", ".join(unknown),
        consequence="Its function decides what becomes of it: read the function before you deploy."
        if custom
        else "CloudFormation updates it in place. What uses it may notice: this project has no rule for the type. Read "
        "the type's page before you deploy.",
        where=change.title,
    )


def _lowered(changes: Changes, findings: Findings) -> None:
    """Settings whose lowering deletes something or ends work; those that only guard less are remarks."""
    for change in changes.of_kind(Kind.CHANGED, Kind.REPLACED):
        for setting in severity.settings(change, changes):
            if setting.better or setting.code or (setting.directed and setting.effect <= Effect.WEAKENS):
                continue
            helper = change.type == "AWS::Logs::LogGroup" and severity.of_helpers(change, changes)
            findings.add(
                Row(
                    effect=Effect.SAFE if helper else setting.effect,
                    code="setting-lowered" if setting.directed else "setting-changed",
                    what=f"{setting.what} of {change.title}",
                    change=f"{setting.property.rpartition('.')[2]} {_or_all(setting.before)} → {_or_all(setting.now)}",
                    consequence=f"{setting.loses}.",
                    source=source(setting.source) if setting.source else "",
                    where=change.title,
                    lost=((setting.lost, 1),) if setting.lost and not helper else (),
                )
            )


def _or_all(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 90 else text[:87] + "…"
