"""One review: every environment of two assemblies, compared by all rules."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from hyperpod_ray.core import today
from hyperpod_ray.review import assembly, locks
from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.changes import Changes, compare
from hyperpod_ray.review.effects import RULES
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.money import HOURS_PER_MONTH, Money, hourly, money, of_new
from hyperpod_ray.review.renames import copies, moved
from hyperpod_ray.review.schedule import Schedule, first_deploy, schedule
from hyperpod_ray.review.security import remarks

if TYPE_CHECKING:
    from hyperpod_ray.review.worktrees import Sides

LOCKS = "lock files"
"""In the place of an environment: what all of them share."""


@dataclass(kw_only=True)
class EnvironmentReview:
    """What a change does to one environment."""

    name: str
    changes: Changes | None
    """None when the environment is new or left the app."""
    rows: list[Row]
    remarks: list[Remark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    money: Money | None = None
    schedule: Schedule | None = None
    head: EnvironmentAssembly | None = None

    @property
    def effect(self) -> Effect:
        """The worst of its rows and remarks."""
        return max(self.effects, default=Effect.SAFE)

    @property
    def effects(self) -> set[Effect]:
        """Every effect that it has."""
        weakens = {Effect.WEAKENS for remark in self.remarks if remark.weakens}
        return {row.effect for row in self.rows} | weakens

    @property
    def only_tags(self) -> bool:
        """Whether nothing but tags changes: one row says it all."""
        paid = self.money is not None and self.money.changed
        return [row.code for row in self.rows] == ["retagged"] and not self.remarks and not paid

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report."""
        return not self.rows and not self.remarks and (self.changes is None or self.changes.empty)


@dataclass(kw_only=True)
class Review:
    """The whole review."""

    environments: list[EnvironmentReview]
    base_name: str
    head_name: str
    seconds: float = 0.0

    @property
    def effect(self) -> Effect:
        """The worst of all environments."""
        return max((environment.effect for environment in self.environments), default=Effect.SAFE)

    @property
    def empty(self) -> bool:
        """Whether base and head are the same."""
        return all(environment.empty for environment in self.environments)


def review(
    base: Path,
    head: Path,
    *,
    only: str | None = None,
    base_name: str = "base",
    head_name: str = "head",
    day: date | None = None,
    sides: Sides | None = None,
) -> Review:
    """Compare two cloud assemblies.

    Args:
        sides: What is known beside the assemblies where both were synthesized for this: lock files, notes.
        only: Name of the one environment to look at. Default: all.
        day: For which to say what it costs: EKS asks more for an old version. Default: today, in UTC, or the
            day of `HYPERPOD_RAY_DATE`.

    Raises:
        ReviewError: When an assembly cannot be read or has no environment of that name.
    """
    started = time.perf_counter()
    before, after = assembly.read(base), assembly.read(head)
    unchanged = sides.unchanged if sides is not None else []
    names = [*unchanged, *({**after, **before})]
    if only is not None:
        if only not in names:
            raise ReviewError(
                f"environment: '{only}'",
                expected=f"one of {', '.join(names) or 'none'}",
                fix="correct the name, or synthesize it",
            )
        names = [only]
    day = day or today.today()
    reviews = [
        EnvironmentReview(name=name, changes=None, rows=[])
        if name in unchanged
        else _environment(name, before.get(name), after.get(name), day)
        for name in names
    ]
    _add(reviews, copies(before, after, day))
    if sides is not None:
        lock_rows = locks.rows(sides.base_locks, sides.head_locks)
        if lock_rows or sides.notes:
            reviews.append(EnvironmentReview(name=LOCKS, changes=None, rows=lock_rows, notes=sides.notes))
    return Review(environments=reviews, base_name=base_name, head_name=head_name, seconds=time.perf_counter() - started)


def review_deploy(
    base: EnvironmentAssembly | None, head: EnvironmentAssembly, *, base_name: str, head_name: str
) -> Review:
    """Compare one environment as it is deployed with the assembly that is to be deployed.

    Args:
        base: The deployed side (`hyperpod_ray.review.deployed`); None for an environment that is new.
        head: The assembly.
        base_name: What the report calls the deployed side.
        head_name: What the report calls the assembly.
    """
    started = time.perf_counter()
    comparison = _environment(head.name, base, head, today.today())
    return Review(
        environments=[comparison], base_name=base_name, head_name=head_name, seconds=time.perf_counter() - started
    )


def _environment(
    name: str, base: EnvironmentAssembly | None, head: EnvironmentAssembly | None, day: date
) -> EnvironmentReview:
    if base is None or head is None:
        return _new_or_left(name, base, head, day)
    if (row := moved(base, head, day)) is not None:
        return EnvironmentReview(
            name=name, changes=None, rows=[row], notes=_refusals(head), schedule=first_deploy(head), head=head
        )
    changes = compare(base, head)
    findings = Findings()
    if not changes.empty:
        for rule in RULES:
            rule(changes, findings)
    if not changes.empty:
        for remark in remarks(changes):
            findings.remark(remark)
    rows = sorted(findings.rows, key=lambda row: -row.effect)  # stable: rules' order within an effect
    return EnvironmentReview(
        name=name,
        changes=changes,
        rows=rows,
        remarks=findings.remarks,
        notes=[] if changes.empty else [*_refusals(head, base), *findings.notes],
        money=None if changes.empty else money(changes, day=day),
        schedule=None if changes.empty else schedule(changes),
        head=head,
    )


def _add(reviews: list[EnvironmentReview], additions: Mapping[str, Sequence[Row]]) -> None:
    for environment in reviews:
        environment.rows = sorted(
            [*environment.rows, *additions.get(environment.name, [])], key=lambda row: -row.effect
        )


def _new_or_left(
    name: str, base: EnvironmentAssembly | None, head: EnvironmentAssembly | None, day: date
) -> EnvironmentReview:
    if head is not None:
        row = Row(
            effect=Effect.SAFE,
            code="environment-added",
            what=f"environment {name}",
            change="new",
            consequence=f"{len(head.stacks)} stacks are created; nothing runs there yet. It costs {hourly(head, day)}.",
        )
        return EnvironmentReview(
            name=name,
            changes=None,
            rows=[row],
            notes=_refusals(head),
            money=of_new(head, day=day),
            schedule=first_deploy(head),
            head=head,
        )
    assert base is not None  # noqa: S101  (one of the two has it)
    row = Row(
        effect=Effect.SAFE,
        code="environment-left",
        what=f"environment {name}",
        change="no longer part of the app",
        consequence=f"The CDK destroys nothing that left the app: its {len(base.stacks)} stacks stay deployed and "
        f"unmanaged, and cost {hourly(base, day)}, until someone deletes them.",
    )
    return EnvironmentReview(name=name, changes=None, rows=[row])


def _refusals(head: EnvironmentAssembly, base: EnvironmentAssembly | None = None) -> list[str]:
    """Stacks that cannot be deployed; those of which that holds before the change in one short note."""
    before = refusals(base) if base is not None else []
    notes = []
    for name, why in refusals(head):
        if (name, why) in before:
            continue
        suffix = "; versions and values were compared, the chart's content was not" if "chart" in why else ""
        notes.append(f"{name} cannot be deployed as synthesized here ({why}){suffix}")
    if any("chart" in why for _, why in before):
        notes.append("charts were not fetched: versions and values were compared, contents were not")
    return notes


def refusals(head: EnvironmentAssembly) -> list[tuple[str, str]]:
    """Stacks whose templates refuse any deployment, whatever the parameters, and why: charts that were not fetched."""
    refused = []
    for stack in head.stacks.values():
        for rule in stack.template.get("Rules", {}).values():
            for assertion in rule.get("Assertions", []):
                compared = assertion.get("Assert", {}).get("Fn::Equals")
                if (
                    isinstance(compared, list)
                    and all(isinstance(operand, str) for operand in compared)
                    and len(set(compared)) > 1
                ):
                    refused.append((stack.name, str(assertion.get("AssertDescription"))))
    return refused


@dataclass(frozen=True, kw_only=True)
class CostLimit:
    """How much more a change may cost per month: an amount, or a part of what the environments cost before."""

    usd: float | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> CostLimit | None:
        """The limit in `costs=10%` or `costs=5000`; None for another text."""
        match = re.fullmatch(r"costs=(\d+(?:\.\d+)?)(%?)", text)
        if match is None:
            return None
        number = float(match.group(1))
        return cls(percent=number) if match.group(2) else cls(usd=number)

    def exceeded(self, result: Review) -> bool:
        """Whether the review's environments cost more; what nobody knows counts as more."""
        paid = [priced.money for priced in result.environments if priced.money is not None and priced.money.changed]
        if not paid:
            return False
        differences = [priced.per_month if priced.most_per_month is None else priced.most_per_month for priced in paid]
        unknown = any(line.difference is None and line.before != line.after for priced in paid for line in priced.lines)
        increase, before = sum(differences), sum(priced.before for priced in paid) * HOURS_PER_MONTH
        limit = self.usd if self.usd is not None else before * (self.percent or 0.0) / 100
        return unknown or any(priced.most_per_month is None for priced in paid) or increase > limit


def fails(result: Review, limit: str) -> bool:
    """Whether a review is what a limit names, or worse.

    Args:
        result: The review.
        limit: An effect's code, `any-weakened`, `any-rejected`, `any-change`, `never`, `costs=10%` or `costs=5000`.
    """
    if (costs := CostLimit.parse(limit)) is not None:
        return costs.exceeded(result)
    match limit:
        case "never":
            return False
        case "any-change":
            return not result.empty
        case "any-rejected":
            return any(Effect.REJECTED in environment.effects for environment in result.environments)
        case "any-weakened":
            return any(Effect.WEAKENS in environment.effects for environment in result.environments)
        case _:
            return result.effect >= Effect.of(limit)


def unaccepted(result: Review, accepted: Collection[Effect]) -> list[Effect]:
    """Effects of a review that a deploy may not have, worst first.

    Args:
        result: The review.
        accepted: Effects that the deploy may have. One that is accepted accepts what is milder. A rejection by the
            service is no degree of loss: only its own name accepts it.
    """
    limit = max((effect for effect in accepted if effect is not Effect.REJECTED), default=Effect.SAFE)
    effects = {effect for environment in result.environments for effect in environment.effects}
    refused = {
        effect for effect in effects if (effect not in accepted if effect is Effect.REJECTED else effect > limit)
    }
    return sorted(refused, reverse=True)
