"""The cases of all test files of a folder: a file that is new is not forgotten."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


def cases_of(folder: str, pattern: str) -> list[Any]:
    """`CASES` of each module below `tests/` whose file matches, in the order of the names.

    Args:
        folder: The folder below `tests/`, such as `core/account`.
        pattern: Of the files' names, such as `test_account_*.py`.
    """
    package = ".".join(("tests", *folder.split("/")))
    modules = [importlib.import_module(f"{package}.{path.stem}") for path in sorted((TESTS / folder).glob(pattern))]
    return [case for module in modules for case in getattr(module, "CASES", ())]
