"""What every report shows below the tables: objects and values as YAML, templates as CloudFormation has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperpod_ray.review.changes import Kind, ResourceChange
from hyperpod_ray.review.effects.general import only_tags
from hyperpod_ray.review.kubernetes import MANIFEST_TYPE, RELEASE_TYPE, pairs, yaml_diff
from hyperpod_ray.review.review import EnvironmentReview

_SIGNS = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~", Kind.REPLACED: "±"}


def kubernetes(one: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every object that differs."""
    if one.changes is None:
        return
    for before, now in pairs(one.changes.base_cluster, one.changes.head_cluster):
        shown = now or before
        assert shown is not None  # noqa: S101  (one of the two has it)
        yield str(shown.id), yaml_diff(before and before.data, now and now.data)


def helm(one: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every release whose chart or values differ."""
    if one.changes is None:
        return
    base, head = one.changes.base_cluster.releases, one.changes.head_cluster.releases
    for key in {**base, **head}:
        before, now = base.get(key), head.get(key)
        if before == now:
            continue
        lines = yaml_diff(
            before and {"chart": before.chart, "version": before.version, "values": before.values},
            now and {"chart": now.chart, "version": now.version, "values": now.values},
        )
        if lines:
            yield str(now or before), lines


def cloudformation(one: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every other resource that differs, without assets and manifests."""
    if one.changes is None:
        return
    for change in one.changes.resources.values():
        if change.kind is Kind.ASSET_ONLY or change.type in {MANIFEST_TYPE, RELEASE_TYPE} or only_tags(change):
            continue  # a row says which tags change, of how many resources
        yield f"{_SIGNS[change.kind]} {change.type} {change.title}", _lines(change, one)


def together(blocks: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Differences of which many are equal, each once with the titles of all."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for title, lines in blocks:
        titles.setdefault(tuple(line for line in lines if not line.startswith("@@")), []).append(title)
    for lines_, named in titles.items():
        more = f" and {len(named) - 1} more: {', '.join(named[1:4])}{'…' if len(named) > 4 else ''}"
        yield named[0] + (more if len(named) > 1 else ""), list(lines_)


def _lines(change: ResourceChange, one: EnvironmentReview) -> list[str]:
    assert one.changes is not None  # noqa: S101  (the caller has looked)
    stacks = {**one.changes.base.stacks, **one.changes.head.stacks}
    before = change.base and one.changes.base_reader.plain(
        _shown(change.base), one.changes.base.stacks[change.key.stack]
    )
    now = change.head and one.changes.head_reader.plain(_shown(change.head), stacks[change.key.stack])
    return yaml_diff(before, now, context=2)


def _shown(resource: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in resource.items() if key not in {"Metadata", "DependsOn"}}
