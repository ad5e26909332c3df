"""Loads every shipped environment file, for gates without the command line; people use `hyperpod-ray env check`."""

from __future__ import annotations

import sys

from core.loader import EnvironmentFileError, environment_names, load


def main() -> int:
    """Print what is wrong; 2 when a file is refused."""
    code = 0
    for name in environment_names():
        try:
            load(name)
        except EnvironmentFileError as error:
            code = 2
            sys.stderr.write(f"{error}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
