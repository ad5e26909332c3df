"""Rules of the user's own: installed packages register them under an entry point group."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points

from hyperpod_ray.core.errors import ProjectError

GROUP = "hyperpod_ray.checks"
"""Entry point group: each entry names a module whose functions carry `@rule` of `hyperpod_ray.core.findings`."""


class OwnCheckError(ProjectError):
    """A package's rules cannot be imported; the command exits with code 2, because a rule would be missing."""


@functools.cache
def load() -> tuple[str, ...]:
    """Import every module of the group, once; their names.

    Raises:
        OwnCheckError: one of them fails.
    """
    names = []
    for entry_point in entry_points(group=GROUP):
        try:
            entry_point.load()
        except Exception as error:
            raise OwnCheckError(
                f"checks of '{entry_point.value}' cannot be imported: {type(error).__name__}: {error}",
                expected=f"a module that the entry point '{entry_point.name}' of {GROUP} names",
                fix="correct the package, or uninstall it",
            ) from error
        names.append(entry_point.value)
    return tuple(names)
