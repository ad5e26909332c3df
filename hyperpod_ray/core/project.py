"""Where files are: those that the product ships, and those of the user's project.

The user's project is the folder that holds `cdk.json`, with `environments/` in it. It follows from the folder of
environment files, or from the current folder; never from where this package is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.names import PROGRAM

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of this package."""
FOLDER_NAME = "environments"
CONFIGURATION = "cdk.json"
"""The file that makes a folder a project."""
DISTRIBUTIONS = ("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_sandbox", "hyperpod_ray_training")
"""The packages of the product's distributions; a path in settings may begin with the name of one."""
LOCKS = ("charts.lock.yaml", "charts.contents.yaml", "images.lock.yaml")
"""Lock files that the product ships. A file of that name in the user's project comes first."""
LIFECYCLE = "lifecycle"
"""Folder of the nodes' lifecycle scripts, likewise."""
_FILE = re.compile(r"^[a-z][a-z0-9-]*\.yaml$")


class FolderError(ProjectError):
    """The user's project, or its folder of environment files, cannot be known; the command exits with code 2."""


def environments(start: Path | None = None) -> Path | None:
    """The folder of environment files: the nearest `environments/` at or above `start`.

    Args:
        start: Folder to begin at. Default: the current folder.

    Returns:
        The folder; None where there is none.

    Raises:
        FolderError: several folders above each other hold environment files, and the nearest is not beside `cdk.json`.
    """
    origin = (start or Path.cwd()).resolve()
    candidates = [
        folder / FOLDER_NAME for folder in (origin, *origin.parents) if holds_environments(folder / FOLDER_NAME)
    ]
    # one below the project's is no less meant: an answer from the other would be a wrong one without a word
    if candidates and (candidates[0].parent / CONFIGURATION).is_file():
        return candidates[0]
    if len(candidates) > 1:
        raise FolderError(
            f"{len(candidates)} folders of environment files: {', '.join(map(str, candidates))}",
            expected=f"one, or {CONFIGURATION} beside the nearest",
            fix=f"give {PROGRAM} --environments FOLDER",
        )
    return candidates[0] if candidates else None


def root(folder: Path | None = None) -> Path | None:
    """The user's project: the nearest folder with `cdk.json` at or above one, else at or above the current folder.

    Args:
        folder: Folder of environment files. Default: none.

    Returns:
        The project; None where there is none.
    """
    for start in ([folder.resolve()] if folder else []) + [Path.cwd()]:
        for candidate in (start, *start.parents):
            if (candidate / CONFIGURATION).is_file():
                return candidate
    return None


def ships(project: Path | None) -> bool:
    """Whether a project is the product's own checkout, whose lock files are those of the package."""
    return project is not None and project.resolve() == PACKAGE.parent


def file(project: Path | None, name: str) -> Path:
    """The file or folder that a setting names, relative to the user's project.

    Where the project has none: a lock file that the product ships, or what lies in one of its distributions
    (`hyperpod_ray_sandbox/…`).

    Args:
        project: The user's project, if there is one.
        name: A relative path.

    Returns:
        The path; it need not exist.
    """
    project_file = project / name if project is not None else None
    if project_file is not None and project_file.exists():
        return project_file
    if (shipped := _shipped(name)) is not None and shipped.exists():
        return shipped
    return project_file or Path(name)


def shipped(name: str) -> Path:
    """A file of the product's distributions, by its path from the folder of their packages."""
    return _shipped(name) or PACKAGE / name


def _shipped(name: str) -> Path | None:
    if name in LOCKS:
        return PACKAGE / "locks" / name
    top_folder, _, rest = name.partition("/")
    if top_folder == LIFECYCLE:
        return PACKAGE / name
    if top_folder == PACKAGE.name:
        return PACKAGE / rest
    if top_folder not in DISTRIBUTIONS:
        return None
    spec = importlib.util.find_spec(top_folder)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) / rest if places else None


def not_installed(name: str) -> bool:
    """Whether a path lies in a distribution of the product that is not installed here, such as the sandbox's.

    Only who synthesizes needs it: a light installation reads the file of a rehearsed environment without.
    """
    top_folder = name.partition("/")[0]
    return top_folder in DISTRIBUTIONS and importlib.util.find_spec(top_folder) is None


def owner(path: Path) -> Path | None:
    """The package of the product in which a path lies, as installed; None for any other path."""
    folders = [PACKAGE.with_name(name) for name in DISTRIBUTIONS]
    folders += [_shipped(f"{name}/") or PACKAGE for name in DISTRIBUTIONS]
    return next((folder for folder in folders if path.is_relative_to(folder)), None)


def to_write(project: Path | None, name: str) -> Path:
    """Where a lock file is written: the user's own copy; in the product's checkout, the package's.

    Raises:
        FolderError: there is no project.
    """
    if project is None:
        raise FolderError(
            f"{name} belongs to a project, and there is none at {Path.cwd()} or above it",
            expected=f"a folder with {CONFIGURATION}",
            fix=f"change to the project's folder, or {PROGRAM} init FOLDER",
        )
    return PACKAGE / "locks" / name if ships(project) else project / name


def names_environment(file: str) -> bool:
    """Whether the name of a file is that of an environment."""
    return _FILE.match(file) is not None


def holds_environments(folder: Path) -> bool:
    """Whether a folder has files of environments: another tool's folder of that name does not count."""
    try:
        return any(_FILE.match(path.name) for path in folder.iterdir())
    except OSError:
        return False


def cache(name: str, *, project: Path | None = None) -> Path:
    """A folder for files that can be written again: in the user's project, else in the user's cache.

    Args:
        name: Name of the folder.
        project: The user's project. Default: that of the current folder.

    Returns:
        A folder that may not exist yet. An existing `.cache/NAME` of the project is used even if it is read-only.
    """
    top = project or root()
    if top is not None and ((project_cache := top / ".cache" / name).is_dir() or os.access(top, os.W_OK)):
        return project_cache
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return base / PROGRAM / name
