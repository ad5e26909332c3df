"""Amazon Resource Names, by botocore's parser."""

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
        InvalidArnException: it has fewer than six parts.
    """
    from botocore.utils import ArnParser  # noqa: PLC0415  (slow to import, and most files name no ARN)

    return Arn(**ArnParser().parse_arn(text))
