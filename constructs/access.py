"""What Ray's pods may use in AWS, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class BucketAccess:
    """A bucket, or what is below a prefix of it.

    Args:
        bucket: Name of the bucket.
        prefix: Prefix that ends with `/`. Default: the whole bucket.
        mode: `read`: list and read objects. `write`: also write and delete them.
    """

    bucket: str
    prefix: str = ""
    mode: Literal["read", "write"] = "read"
