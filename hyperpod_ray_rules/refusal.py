"""What every rule answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One reason for which a service refuses a request."""

    rule: str
    """Name of the rule, unique within its service."""
    message: str
    """The reason in the words of the service's API."""
    expected: str = ""
    """What the service accepts, where the message does not name it; continues the sentence "Expected …"."""
    index: int | None = None
    """Position in the list that the rule looks at, for example of an instance group."""
    member: str = ""
    """Member of the request, or of the item at `index`."""


Rule = Callable[..., Iterator[Refusal]]


def named(rules: Sequence[Rule]) -> dict[str, Rule]:
    """Rules by their names."""
    return {rule.__name__: rule for rule in rules}
