"""What `test_one_command.py`, `test_options.py` share."""

from __future__ import annotations

import re
import shlex


def words(text: str) -> list[str]:
    plain = re.sub(r"\{[^{}]*\}", "1", text.rstrip("\\"))  # what a message fills in
    plain = re.sub(r"\$\([^)]*\)|\$\{?\w+\}?", "1", plain)
    try:
        return shlex.split(plain)
    except ValueError:
        return shlex.split(plain.replace('"', "").replace("'", ""))
