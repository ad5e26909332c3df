"""What tests of `image`, `versions` share."""

from __future__ import annotations

import re
from pathlib import Path

pinned = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)")


def pins(path: Path) -> dict[str, str]:
    return {m[1].lower(): m[2] for line in path.read_text().splitlines() if (m := pinned.match(line))}
