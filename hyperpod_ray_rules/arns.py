"""Amazon Resource Names. Botocore has a parser too, which takes longer to import than all checks together."""

from __future__ import annotations

from typing import NamedTuple


class Arn(NamedTuple):
    """The parts of an ARN."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @property
    def name(self) -> str:
        """What stands behind the last slash of the resource, or all of it."""
        return self.resource.rpartition("/")[2]


def arn_of(text: str) -> Arn:
    """The parts of an ARN.

    Raises:
        ValueError: it has fewer than six parts.
    """
    parts = text.split(":", 5)
    if len(parts) < 6 or parts[0] != "arn":
        raise ValueError(f"no ARN: {text!r}. Expected arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE")
    return Arn(*parts[1:])
