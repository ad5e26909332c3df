"""Whose code a file is: Python's own, an installed package's, or the user's."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
import sysconfig
from pathlib import Path

_FOLDERS = ("site-packages", "dist-packages")
"""Where packages are installed; the second is Debian's, and that of images built on it, such as NVIDIA's.
https://wiki.debian.org/Python#Deviations_from_upstream"""
_STANDARD = (sysconfig.get_paths()["stdlib"] + os.sep, "<frozen")
_PROGRAMS = os.path.join(sys.base_prefix, "bin") + os.sep  # noqa: PTH118 - compared as text


def of_package(file: str, *names: str) -> bool:
    """Whether a file belongs to an installed package, also where `pip install --target` has put it.

    Args:
        file: Path of a module, as its code object has it.
        names: The packages that count. Default: any.
    """
    places = [f"{os.sep}{folder}{os.sep}" for folder in _FOLDERS]
    if names:
        places = [f"{place}{name}{os.sep}" for place in places for name in names]
    if any(place in file for place in places):
        return True
    for folder, packages in _targets(tuple(sys.path)):
        if file.startswith(folder):
            package = file[len(folder) :].partition(os.sep)[0].removesuffix(".py")
            if package in packages and (not names or package in names):
                return True
    return False


@functools.lru_cache(maxsize=16)
def _targets(path: tuple[str, ...]) -> tuple[tuple[str, frozenset[str]], ...]:
    """Other folders of Python's path that pip has installed into, and the packages in each.

    A user's program may lie beside them, so a folder alone tells nothing.
    """
    targets = []
    for entry in path:
        if os.path.basename(entry) not in _FOLDERS and Path(entry).is_dir():  # noqa: PTH119 - compared as text
            files = [
                file
                for about in Path(entry).glob("*.dist-info")
                for file in importlib.metadata.Distribution.at(about).files or ()
            ]
            packages = {file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"}
            if packages:
                targets.append((os.path.abspath(entry) + os.sep, frozenset(packages)))  # noqa: PTH100 - links stay
    return tuple(targets)


def of_python(file: str) -> bool:
    """Whether a file belongs to Python's standard library; packages may be installed below it."""
    return file.startswith(_STANDARD) and not of_package(file)


def installed(file: str) -> bool:
    """Whether a file is none that a user writes: of Python, of a package, or a program beside Python."""
    return of_package(file) or of_python(file) or file.startswith(_PROGRAMS)
