"""The lock of an environment's own packages: resolved with the image set as a constraint, with hashes, wheels only."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from hyperpod_ray.core import image_packages
from hyperpod_ray.image.versions import FILE, ImageError, ImageSet

PLATFORM = "x86_64-manylinux_2_28"
"""Of the base image: Ubuntu 22.04 or newer, x86-64."""
LOCK_SECONDS = 300


def lock(requirements: Path, *, chosen: ImageSet, wheels: Path | None = None, no_index: bool = False) -> Path:
    """Write the lock beside a requirements file; only packages that the set does not have are in it.

    Args:
        wheels: Folder whose wheels the resolver knows besides the index. Default: none.
        no_index: Whether the resolver asks no index.

    Raises:
        ImageError: A requirement contradicts the set, or nothing satisfies all of them.
    """
    content = requirements.read_text(encoding="utf-8")
    set_lock = chosen.requirements.read_text(encoding="utf-8")
    theirs = image_packages.pins(set_lock)
    _agree(requirements, content, theirs, chosen)
    written = image_packages.lock_of(requirements)
    command = [
        _uv(), "pip", "compile", "--quiet", "--generate-hashes", "--strip-extras", "--no-header", "--no-annotate",
        "--python-version", chosen.python, "--python-platform", PLATFORM, "--only-binary", ":all:",
        "--constraint", str(chosen.requirements), "--constraint", str(FILE.with_name("requirements-tiered.txt")),
        *(word for name in theirs for word in ("--no-emit-package", name)),
        *(("--find-links", str(wheels)) if wheels else ()), *(("--no-index",) if no_index else ()),
        str(requirements),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOCK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ImageError(
            f"{requirements}: no answer of the package index in {LOCK_SECONDS} s",
            expected="the index to answer",
            fix="set UV_INDEX_URL to a mirror that this machine reaches",
        ) from None
    if done.returncode:
        reason = " ".join(done.stderr.split())[-700:]
        raise ImageError(
            f"{requirements} with image set '{chosen.name}': {reason}",
            expected="versions that go together",
            fix="loosen a requirement, or choose another image.set",
        )
    body = "\n".join(line for line in done.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    head = image_packages.stamp(content, set_lock)
    fresh = written.with_suffix(".new")
    fresh.write_text(
        f"{head}\n# for image set {chosen.name}; `hyperpod-ray image lock` writes it\n{body}\n", encoding="utf-8"
    )
    fresh.replace(written)
    return written


def _agree(file: Path, text: str, theirs: dict[str, str], chosen: ImageSet) -> None:
    """Refuse a requirement that excludes the set's version, with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        try:
            requirement = Requirement(words)
        except InvalidRequirement:
            raise ImageError(
                f"{file}:{number}: '{words[:80]}'",
                expected="NAME, or NAME with a version: no options, no addresses",
                fix="correct the line",
            ) from None
        if requirement.url:
            raise ImageError(
                f"{file}:{number}: '{words[:80]}' is an address",
                expected="a package of an index, which has hashes",
                fix="publish it to an index, or give it to the job as py_modules",
            )
        set_version = theirs.get(image_packages.normalized(requirement.name))
        if set_version is not None and not requirement.specifier.contains(set_version, prereleases=True):
            raise ImageError(
                f"{file}:{number}: '{words[:80]}', and image set '{chosen.name}' has {requirement.name} {set_version}",
                expected=f"a requirement that {set_version} satisfies",
                fix="change the line, or choose another image.set",
            )


def _uv() -> str:
    program = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if program is None:
        raise ImageError(
            "'uv' is not installed",
            expected="it beside this program",
            fix="pip install uv",
        )
    return program
