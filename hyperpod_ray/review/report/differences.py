"""What every report shows below the tables: objects and values as YAML, templates as CloudFormation has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperpod_ray.review.changes import Kind, ResourceChange
from hyperpod_ray.review.effects.in_place import only_tags
from hyperpod_ray.review.kubernetes import MANIFEST_TYPE, RELEASE_TYPE, pairs, yaml_diff
from hyperpod_ray.review.review import EnvironmentReview

_SIGNS = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~", Kind.REPLACED: "±"}


def kubernetes(environment: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every object that differs."""
    if environment.changes is None:
        return
    for before, after in pairs(environment.changes.base_cluster, environment.changes.head_cluster):
        k8s_object = after or before
        assert k8s_object is not None  # noqa: S101  (one of the two has it)
        yield str(k8s_object.id), yaml_diff(before and before.data, after and after.data)


def helm(environment: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every release whose chart or values differ."""
    if environment.changes is None:
        return
    base, head = environment.changes.base_cluster.releases, environment.changes.head_cluster.releases
    for key in {**base, **head}:
        before, after = base.get(key), head.get(key)
        if before == after:
            continue
        lines = yaml_diff(
            before and {"chart": before.chart, "version": before.version, "values": before.values},
            after and {"chart": after.chart, "version": after.version, "values": after.values},
        )
        if lines:
            yield str(after or before), lines


def cloudformation(environment: EnvironmentReview) -> Iterator[tuple[str, list[str]]]:
    """Title and YAML diff of every other resource that differs, without assets and manifests."""
    if environment.changes is None:
        return
    for change in environment.changes.resources.values():
        if change.kind is Kind.ASSET_ONLY or change.type in {MANIFEST_TYPE, RELEASE_TYPE} or only_tags(change):
            continue  # a row says which tags change, of how many resources
        yield f"{_SIGNS[change.kind]} {change.type} {change.title}", _lines(change, environment)


def together(blocks: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Differences of which many are equal, each once with the titles of all."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for title, lines in blocks:
        titles.setdefault(tuple(line for line in lines if not line.startswith("@@")), []).append(title)
    for lines_, named in titles.items():
        rest = f" and {len(named) - 1} more: {', '.join(named[1:4])}{'…' if len(named) > 4 else ''}"
        yield named[0] + (rest if len(named) > 1 else ""), list(lines_)


def _lines(change: ResourceChange, environment: EnvironmentReview) -> list[str]:
    assert environment.changes is not None  # noqa: S101  (the caller has looked)
    stacks = {**environment.changes.base.stacks, **environment.changes.head.stacks}
    before = change.base and environment.changes.base_reader.plain(
        _shown(change.base), environment.changes.base.stacks[change.key.stack]
    )
    after = change.head and environment.changes.head_reader.plain(_shown(change.head), stacks[change.key.stack])
    return yaml_diff(before, after, context=2)


def _shown(resource: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in resource.items() if key not in {"Metadata", "DependsOn"}}
