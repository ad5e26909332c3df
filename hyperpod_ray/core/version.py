"""The product's version, and the commit of a build that is no release."""

from __future__ import annotations

import functools
import re
from pathlib import Path

__version__ = "0.3.0"
"""The release that this source is, or becomes."""
_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 10


@functools.cache
def full_version() -> str:
    """The version of what runs: `0.3.0` for a release, `0.3.0.dev0+g1234567` for any other commit.

    A release is a commit with the tag `v0.3.0`, or a distribution that was built from one. `.dirty` says that files
    differ from the commit. A copy of the source without its history is `0.3.0.dev0`.
    """
    if (_ROOT / ".git").exists():
        return _of_checkout(_ROOT)
    if (_ROOT / "pyproject.toml").is_file():
        information = _ROOT / "PKG-INFO"  # of an unpacked source distribution
        text = information.read_text(encoding="utf-8") if information.is_file() else ""
        recorded = re.search(r"^Version: (\S+)$", text, re.MULTILINE)
        return recorded.group(1) if recorded else f"{__version__}.dev0"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hyperpod-ray")
    except PackageNotFoundError:
        return f"{__version__}.dev0"


def _of_checkout(folder: Path) -> str:
    """The version of a checkout, by its tag or its commit."""
    import subprocess

    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=7", "--exclude", "*"]
    try:
        tags = subprocess.run(
            ["git", "-C", str(folder), "tag", "--points-at", "HEAD"],
            capture_output=True, text=True, timeout=_SECONDS, check=True,
        ).stdout.split()  # fmt: skip
        described = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):  # no git, or a repository without a commit
        return f"{__version__}.dev0"
    commit, _, changed = described.partition("-")
    if f"v{__version__}" in tags and not changed:
        return __version__
    return f"{__version__}.dev0+g{commit}{'.dirty' if changed else ''}"


def release(version: str) -> tuple[int, ...]:
    """The three numbers of a version, to compare with another's."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
