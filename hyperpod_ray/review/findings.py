"""The words of a review: effects, rows of the impact table, remarks on security."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class Effect(IntEnum):
    """What a change does, from harmless to worst; the number is the order."""

    SAFE = 0
    WEAKENS = 1
    INTERRUPTS = 2
    REJECTED = 3
    LOSES_NODES = 4
    LOSES_DATA = 5

    @property
    def words(self) -> str:
        """As the verdict line says it."""
        return _WORDS[self]

    @property
    def code(self) -> str:
        """As `--fail-on`, the JSON output and the scenarios say it."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, code: str) -> Effect:
        """The effect called `code`. ValueError when there is none."""
        for effect in cls:
            if effect.code == code:
                return effect
        raise ValueError(f"got effect '{code}'; allowed are {', '.join(effect.code for effect in cls)}")


_WORDS = {
    Effect.SAFE: "safe",
    Effect.WEAKENS: "weakens security, recovery or alarms",
    Effect.INTERRUPTS: "interrupts training",
    Effect.REJECTED: "will be rejected by the service",
    Effect.LOSES_NODES: "loses nodes",
    Effect.LOSES_DATA: "loses data",
}


def first_few(names: Sequence[str], *, most: int, between: str = ", ") -> str:
    """The first few of many names, and how many more there are: `a, b and 2 more`."""
    rest = len(names) - most
    last = between if between != ", " else " "
    return between.join(names[:most]) + (f"{last}and {rest} more" if rest > 0 else "")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the impact table."""

    effect: Effect
    code: str
    """What happens, as a stable word for scenarios and JSON: `group-renamed`, `file-system-shrunk`, …"""
    what: str
    """The resource, group or object, in the field's words."""
    change: str
    """What differs: `count 9 → 4`."""
    consequence: str
    """What that does, in one or two sentences."""
    unavailable: str = ""
    """What cannot be used during the change; empty when everything can."""
    source: str = ""
    """Where the rule is written; empty when the registry schema or the templates say so."""
    where: str = ""
    """Construct path."""
    lost: tuple[tuple[str, int], ...] = ()
    """What goes, with its number: `(("ml.p5.48xlarge node", 9),)`. The headline has the sum. 0: not known."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """One line of the security section."""

    direction: str
    """`broadened`, `narrowed`, `switched off`, `switched on`, `changed`, or `new` of what nothing had before."""
    what: str
    """Principal, policy, security group or setting."""
    detail: str
    """The statement, rule or value."""
    subject: str = ""
    """What a report groups it by; empty for `what` itself."""

    @property
    def weakens(self) -> bool:
        """Whether the change weakens security, recovery or alarms."""
        return self.direction in {"broadened", "switched off"}


@dataclass(kw_only=True)
class Findings:
    """What the rules found in one environment."""

    rows: list[Row] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row, once."""
        if row not in self.rows:
            self.rows.append(row)

    def remark(self, remark: Remark) -> None:
        """Add a remark, once."""
        if remark not in self.remarks:
            self.remarks.append(remark)
