"""Service models are parsed once in a test process; the product's commands, each a process, parse theirs once as well.

botocore's loader keeps what it parsed for one session. Tests that run a hundred commands in one process would parse
the same megabytes of JSON a hundred times.
"""

from __future__ import annotations

import functools
from typing import Any

from botocore.loaders import JSONFileLoader


def share() -> None:
    """Let all sessions of this process share what was parsed. A second call does nothing."""
    original: Any = JSONFileLoader.load_file
    if hasattr(original, "__wrapped__"):
        return
    plain = JSONFileLoader()
    once = functools.cache(lambda path: original(plain, path))

    @functools.wraps(original)
    def load_file(_self: JSONFileLoader, path: str) -> Any:
        return once(path)

    setattr(JSONFileLoader, "load_file", load_file)  # noqa: B010  (mypy lets no method be assigned)
