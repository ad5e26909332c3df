"""Environments that move, are renamed or copied: what two templates of one environment do not show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from hyperpod_ray.review import schemas
from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.effects.groups import groups
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Row
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
    before, now = _place(base), _place(head)
    if before == now or not all((*before, *now)):
        return None
    return Row(
        effect=Effect.INTERRUPTS,
        code="environment-moved",
        what=f"environment {head.name}",
        change=f"account {before[0]}, {before[1]} → account {now[0]}, {now[1]}",
        consequence=f"Another environment: {len(head.stacks)} stacks are created there, with an empty file system, and "
        f"cost {hourly(head, day)}. The old one stays deployed and unmanaged in {before[1]} of account {before[0]}, "
        f"with its nodes and data, and costs {hourly(base, day)}. Nothing was compared.",
        unavailable="data and checkpoints, until they are copied",
    )


def copies(
    before: Mapping[str, EnvironmentAssembly], after: Mapping[str, EnvironmentAssembly], day: date
) -> dict[str, list[Row]]:
    """Rows of environments that take another one's names: a file that is renamed or copied, or a name that is taken."""
    found: dict[str, list[Row]] = {}
    added = [name for name in after if name not in before]
    left = [name for name in before if name not in after]
    if len(after) + len(left) < 2:
        return found
    names = {name: _names(one) for name, one in after.items()}
    old = {name: _names(one) for name, one in before.items()}
    for name, one in after.items():
        for other in left:
            if name in added and (_shape(one) == _shape(before[other]) or names[name] & old[other]):
                found.setdefault(name, []).append(_renamed(other, name, names[name] & old[other], before[other], day))
        for other in after:
            shared = names[name] & names[other]
            already = name in old and other in old and shared <= old[name] & old[other]
            if other != name and shared and not already and (name in added or other not in added):
                found.setdefault(name, []).append(_taken(name, other, shared))
    return found


def _renamed(old: str, new: str, shared: set[Name], base: EnvironmentAssembly, day: date) -> Row:
    refused = f" The new one is refused: {_words(shared)} exist." if shared else ""
    return Row(
        effect=Effect.REJECTED if shared else Effect.INTERRUPTS,
        code="environment-renamed",
        what=f"environment {new}",
        change=f"{old} is renamed to {new}",
        consequence=f"There is no rename: stacks are named by the environment. The {len(base.stacks)} stacks of {old} "
        f"stay deployed and unmanaged, with nodes and data, and cost {hourly(base, day)}.{refused}",
        unavailable="data and checkpoints, in the new environment",
        source=source("custom-name") if shared else "",
    )


def _taken(name: str, other: str, shared: set[Name]) -> Row:
    return Row(
        effect=Effect.REJECTED,
        code="name-taken",
        what=f"environment {name}",
        change=f"has names of environment {other}: {_words(shared)}",
        consequence="Both are of one account. The service refuses the second one. Give each its own names.",
        source=source("custom-name"),
    )


def _words(shared: set[Name]) -> str:
    words = sorted({f"{kind.rpartition('::')[2]} '{name}'" for _, kind, name in shared})
    return ", ".join(words[:_NAMED]) + (f" and {len(words) - _NAMED} more" if len(words) > _NAMED else "")


def _place(assembly: EnvironmentAssembly) -> tuple[str, str]:
    return next(((stack.account, stack.region) for stack in assembly.stacks.values()), ("", ""))


def _names(assembly: EnvironmentAssembly) -> set[Name]:
    """Names that the templates set, as text without references."""
    reader = Reader(assembly)
    found: set[Name] = set()
    account, region = _place(assembly)
    for key, resource in assembly.all():
        kind = resource["Type"]
        if kind in _INSIDE:
            continue
        stack = assembly.stacks[key.stack]
        place = account if kind in _OF_ACCOUNT else f"{account}/{region}"
        for identifiers in schemas.rules(kind, region).identifiers:
            values = [schemas.at(resource.get("Properties", {}), pointer) for pointer in identifiers]
            texts = [reader.text(value, stack) for value in values if value is not None]
            if len(texts) == len(identifiers) and not any("${" in text for text in texts):
                found.add((place, kind, "/".join(texts)))
    return found


def _shape(assembly: EnvironmentAssembly) -> list[object]:
    """What it is made of, without its name."""
    plain = [
        {name: (one.get("InstanceType"), one.get("InstanceCount")) for name, one in groups(resource).items()}
        for _, resource in assembly.of_type("AWS::SageMaker::Cluster")
    ]
    types = sorted(resource["Type"] for _, resource in assembly.all())
    return [_place(assembly), plain, types]
