"""Rows and remarks that say the same of many things, as one: what is read in thirty seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hyperpod_ray.review.findings import Effect, Remark, Row, first_few
from hyperpod_ray.review.review import EnvironmentReview

_NAMED = 4
_OF_IAM = ("allows ", "denies ", "no longer ")
_DETAIL = 260


@dataclass(frozen=True, kw_only=True)
class RemarkGroup:
    """Remarks on one subject with one direction."""

    direction: str
    what: str
    details: tuple[str, ...]
    weakens: bool

    @property
    def text(self) -> str:
        """The details in one line, as many as have room."""
        fitting: list[str] = []
        length = 0
        for detail in self.details:
            if fitting and length + len(detail) > _DETAIL:
                break
            fitting.append(detail)
            length += len(detail) + 2
        omitted = len(self.details) - len(fitting)
        text = "; ".join(fitting)
        text = text if len(text) <= 2 * _DETAIL else text[: 2 * _DETAIL] + "…"
        return text + (f"; and {omitted} more" if omitted else "")


def remarks(all_remarks: Iterable[Remark]) -> list[RemarkGroup]:
    """Remarks by subject, what weakens first: one user's rights in a namespace are one."""
    grouped: dict[tuple[str, str], list[Remark]] = {}
    for remark in sorted(all_remarks, key=lambda remark: not remark.weakens):
        grouped.setdefault((remark.direction, remark.subject or remark.what), []).append(remark)
    return [
        RemarkGroup(
            direction=direction,
            what=_subject(subject, items),
            details=tuple(_details(items)),
            weakens=items[0].weakens,
        )
        for (direction, subject), items in grouped.items()
    ]


def _subject(subject: str, items: Sequence[Remark]) -> str:
    """Whom it is about: the principal rather than its group."""
    return next((remark.what for remark in items if remark.what.startswith("access to ")), subject)


def _details(items: Sequence[Remark]) -> list[str]:
    """Details, rights of a Kubernetes role by resource instead of one by one."""
    roles = [
        remark
        for remark in items
        if remark.what.startswith(("Role ", "ClusterRole ")) and not remark.detail.startswith(_OF_IAM)
    ]
    plain = [remark.detail for remark in items if remark not in roles]
    verbs: dict[str, list[str]] = {}
    for remark in roles:
        verb, _, resource = remark.detail.partition(" ")
        verbs.setdefault(resource, []).append(verb)
    resources: dict[str, list[str]] = {}
    for resource, allowed in verbs.items():
        resources.setdefault(", ".join(allowed), []).append(resource.partition(".")[0])
    return [*dict.fromkeys(plain), *(f"{allowed}: {', '.join(listed)}" for allowed, listed in resources.items())]


def rows(all_rows: Sequence[Row]) -> list[Row]:
    """Rows, those that say the same of many things as one."""
    grouped: dict[tuple[Effect, str, str, str], list[Row]] = {}
    for row in all_rows:
        grouped.setdefault((row.effect, row.code, row.change, row.consequence), []).append(row)
    return [items[0] if len(items) == 1 else _one(items) for items in grouped.values()]


def _one(items: Sequence[Row]) -> Row:
    names = [row.what for row in items]
    kinds = {name.partition(" ")[0] for name in names}
    word = f"{kinds.pop()}s" if len(kinds) == 1 else "objects"
    return replace(items[0], what=f"{len(names)} {word}: {first_few(names, most=_NAMED)}", where="")


def lost(environment: EnvironmentReview) -> dict[Effect, str]:
    """Of each effect, what is lost: `9 ml.p5.48xlarge nodes, 1 file system`; without that, how many rows have it."""
    counted: dict[Effect, Counter[str]] = {}
    uncounted: dict[Effect, dict[str, None]] = {}
    numbers: Counter[Effect] = Counter()
    for row in environment.rows:
        numbers[row.effect] += 1
        for noun, number in row.lost:
            if number:
                counted.setdefault(row.effect, Counter())[noun] += number
            else:
                uncounted.setdefault(row.effect, {})[noun] = None
    weakened = sum(group.weakens for group in remarks(environment.remarks))
    texts = {effect: str(number) for effect, number in numbers.items()}
    if weakened:
        rows_too = sum(
            row.effect is Effect.WEAKENS and row.code not in {"removed", "node-recovery-off", "deep-checks-off"}
            for row in environment.rows
        )
        texts[Effect.WEAKENS] = str(max(weakened, rows_too))
    for effect in {**counted, **uncounted}:
        parts = [f"{number} {_plural(noun, number)}" for noun, number in counted.get(effect, Counter()).items()]
        parts += [f"1 autoscaled group of {_plural(noun, 0)}" for noun in uncounted.get(effect, {})]
        texts[effect] = ", ".join(parts)
    return texts


def _plural(noun: str, number: int) -> str:
    if number == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
