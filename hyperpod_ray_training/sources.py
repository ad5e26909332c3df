"""Whose code a file is: Python's own, an installed package's, or the user's."""

from __future__ import annotations

import os
import sys
import sysconfig

_FOLDERS = ("site-packages", "dist-packages")
"""Where packages are installed; the second is Debian's, and that of images built on it, such as NVIDIA's.
https://wiki.debian.org/Python#Deviations_from_upstream"""
_STANDARD = (sysconfig.get_paths()["stdlib"] + os.sep, "<frozen")
_PROGRAMS = os.path.join(sys.base_prefix, "bin") + os.sep  # noqa: PTH118 - compared as text


def of_package(file: str, *names: str) -> bool:
    """Whether a file belongs to an installed package.

    Args:
        file: Path of a module, as its code object has it.
        names: The packages that count. Default: any.
    """
    places = [f"{os.sep}{folder}{os.sep}" for folder in _FOLDERS]
    if names:
        places = [f"{place}{name}{os.sep}" for place in places for name in names]
    return any(place in file for place in places)


def of_python(file: str) -> bool:
    """Whether a file belongs to Python's standard library; packages may be installed below it."""
    return file.startswith(_STANDARD) and not of_package(file)


def installed(file: str) -> bool:
    """Whether a file is none that a user writes: of Python, of a package, or a program beside Python."""
    return of_package(file) or of_python(file) or file.startswith(_PROGRAMS)
