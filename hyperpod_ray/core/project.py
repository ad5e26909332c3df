"""Where files are: the source tree, the environments a command works with, and a folder for caches."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hyperpod_ray.core.names import PROGRAM

SOURCE = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, or `site-packages` of a light installation."""
PACKAGE = SOURCE / "hyperpod_ray"
"""The folder of this package."""
OWN_ENVIRONMENTS = SOURCE / "environments"
"""The environments of the checkout that this code belongs to."""
EXAMPLES = OWN_ENVIRONMENTS / "examples"
FOLDER_NAME = "environments"
_FILE = re.compile(r"^[a-z][a-z0-9-]*\.yaml$")


def is_checkout() -> bool:
    """Whether the code runs from a checkout, which has the CDK app and the container image beside it."""
    return (SOURCE / "cdk.json").is_file() and (SOURCE / "app.py").is_file()


def environments(start: Path | None = None) -> Path | None:
    """The folder of environment files: the nearest `environments/` at or above `start`, else the checkout's own.

    Args:
        start: Folder to begin at. Default: the current folder.

    Returns:
        The folder; None where there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        candidate = folder / FOLDER_NAME
        if holds_environments(candidate):
            return candidate
    return OWN_ENVIRONMENTS if holds_environments(OWN_ENVIRONMENTS) else None


def names_environment(file: str) -> bool:
    """Whether the name of a file is that of an environment."""
    return _FILE.match(file) is not None


def holds_environments(folder: Path) -> bool:
    """Whether a folder has files of environments: another tool's folder of that name does not count."""
    try:
        return any(_FILE.match(path.name) for path in folder.iterdir())
    except OSError:
        return False


def cache(name: str) -> Path:
    """A folder for files that can be written again: in the checkout, or in the user's cache where that is read-only.

    Args:
        name: Name of the folder.

    Returns:
        A folder that may not exist yet. An existing `.cache/NAME` of the checkout is used even if it is read-only.
    """
    own = SOURCE / ".cache" / name
    if own.is_dir() or (is_checkout() and os.access(SOURCE, os.W_OK)):
        return own
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return base / PROGRAM / name
