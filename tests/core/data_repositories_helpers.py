"""What tests of `data_repositories`, `needs_page` share."""

from __future__ import annotations

from typing import Any


def linked(*links: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"storage/data_repositories": list(links), **{f"storage/{key}": value for key, value in more.items()}}
