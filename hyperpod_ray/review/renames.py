"""Environments that move, are renamed or copied: what two templates of one environment do not show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from hyperpod_ray.review import schemas
from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Row, first_few
from hyperpod_ray.review.instance_groups import groups
from hyperpod_ray.review.money import hourly
from hyperpod_ray.review.references import Reader

_OF_ACCOUNT = {"AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::S3::Bucket"}
"""Types whose names are taken in every Region of the account."""
_INSIDE = {"AWS::Logs::MetricFilter", "AWS::EKS::Addon", "AWS::EKS::AccessEntry", "AWS::Logs::ResourcePolicy"}
"""Types whose names are part of another resource's."""
_NAMED = 4

Name = tuple[str, str, str]
"""Where it is taken, resource type, name."""


def moved(base: EnvironmentAssembly, head: EnvironmentAssembly, day: date) -> Row | None:
    """The one row of an environment that goes to another account or Region; None where it stays."""
    before, after = _place(base), _place(head)
    if before == after or not all((*before, *after)):
        return None
    return Row(
        effect=Effect.INTERRUPTS,
        code="environment-moved",
        what=f"environment {head.name}",
        change=f"account {before[0]}, {before[1]} → account {after[0]}, {after[1]}",
        consequence=f"Another environment: {len(head.stacks)} stacks are created there, with an empty file system, and "
        f"cost {hourly(head, day)}. The old one stays deployed and unmanaged in {before[1]} of account {before[0]}, "
        f"with its nodes and data, and costs {hourly(base, day)}. Nothing was compared.",
        unavailable="data and checkpoints, until they are copied",
    )


def copies(
    before: Mapping[str, EnvironmentAssembly], after: Mapping[str, EnvironmentAssembly], day: date
) -> dict[str, list[Row]]:
    """Rows of environments that take another one's names: a file that is renamed or copied, or a name that is taken."""
    rows: dict[str, list[Row]] = {}
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    if len(after) + len(removed) < 2:
        return rows
    names = {name: _names(environment) for name, environment in after.items()}
    names_before = {name: _names(environment) for name, environment in before.items()}
    for name, environment in after.items():
        for other_name in removed:
            if name in added and (
                _shape(environment) == _shape(before[other_name]) or names[name] & names_before[other_name]
            ):
                rows.setdefault(name, []).append(
                    _renamed(other_name, name, names[name] & names_before[other_name], before[other_name], day)
                )
        for other_name in after:
            shared = names[name] & names[other_name]
            already = (
                name in names_before
                and other_name in names_before
                and shared <= names_before[name] & names_before[other_name]
            )
            if other_name != name and shared and not already and (name in added or other_name not in added):
                rows.setdefault(name, []).append(_taken(name, other_name, shared))
    return rows


def _renamed(gone: str, new_name: str, shared: set[Name], base: EnvironmentAssembly, day: date) -> Row:
    refused = f" The new one is refused: {_words(shared)} exist." if shared else ""
    return Row(
        effect=Effect.REJECTED if shared else Effect.INTERRUPTS,
        code="environment-renamed",
        what=f"environment {new_name}",
        change=f"{gone} is renamed to {new_name}",
        consequence=f"There is no rename: stacks are named by the environment. The {len(base.stacks)} stacks of {gone} "
        f"stay deployed and unmanaged, with nodes and data, and cost {hourly(base, day)}.{refused}",
        unavailable="data and checkpoints, in the new environment",
        source=source("custom-name") if shared else "",
    )


def _taken(name: str, owner: str, shared: set[Name]) -> Row:
    return Row(
        effect=Effect.REJECTED,
        code="name-taken",
        what=f"environment {name}",
        change=f"has names of environment {owner}: {_words(shared)}",
        consequence="Both are of one account. The service refuses the second one. Give each its own names.",
        source=source("custom-name"),
    )


def _words(shared: set[Name]) -> str:
    words = sorted({f"{resource_type.rpartition('::')[2]} '{name}'" for _, resource_type, name in shared})
    return first_few(words, most=_NAMED)


def _place(assembly: EnvironmentAssembly) -> tuple[str, str]:
    return next(((stack.account, stack.region) for stack in assembly.stacks.values()), ("", ""))


def _names(assembly: EnvironmentAssembly) -> set[Name]:
    """Names that the templates set, as text without references."""
    reader = Reader(assembly)
    unique_names: set[Name] = set()
    account, region = _place(assembly)
    for key, resource in assembly.all():
        resource_type = resource["Type"]
        if resource_type in _INSIDE:
            continue
        stack = assembly.stacks[key.stack]
        scope = account if resource_type in _OF_ACCOUNT else f"{account}/{region}"
        for identifiers in schemas.rules(resource_type, region).identifiers:
            values = [schemas.at(resource.get("Properties", {}), pointer) for pointer in identifiers]
            texts = [reader.text(value, stack) for value in values if value is not None]
            if len(texts) == len(identifiers) and not any("${" in text for text in texts):
                unique_names.add((scope, resource_type, "/".join(texts)))
    return unique_names


def _shape(assembly: EnvironmentAssembly) -> list[object]:
    """What it is made of, without its name."""
    plain = [
        {name: (group.get("InstanceType"), group.get("InstanceCount")) for name, group in groups(resource).items()}
        for _, resource in assembly.of_type("AWS::SageMaker::Cluster")
    ]
    types = sorted(resource["Type"] for _, resource in assembly.all())
    return [_place(assembly), plain, types]
