"""What a command printed and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)
