"""Packages that an environment adds to its image: a requirements file, and its lock beside it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

STAMP = "# lock of requirements and image set: "
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)")

INSTALLER = "aws-efa-installer-"


def lock_of(requirements: Path) -> Path:
    """Where the lock of a requirements file is."""
    return requirements.with_suffix(".txt")


def entries(text: str) -> list[str]:
    """The requirements of a file, each on one line, without comments."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def distributions(folder: Path) -> list[Path]:
    """The wheels and source distributions of a folder; the EFA installer beside them is neither."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and file.name.endswith((".whl", ".tar.gz")) and not file.name.startswith(INSTALLER)
    )


def of_file(name: str) -> tuple[str, str]:
    """Package and version of a wheel or source distribution, by its name; empty where that is neither's.

    https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
    """
    if name.endswith(".whl"):
        package, version, *_ = (*name.split("-"), "", "")
    else:
        package, _, version = name.removesuffix(".tar.gz").rpartition("-")
    return normalized(package), version


def hashes(text: str) -> dict[tuple[str, str], set[str]]:
    """Package and version to the SHA-256 hashes that a lock allows."""
    return {
        (normalized(pin[1]), pin[2]): set(_HASH.findall(line)) for line in entries(text) if (pin := _PIN.match(line))
    }


def normalized(name: str) -> str:
    """A package's name as indexes compare it.

    https://packaging.python.org/en/latest/specifications/name-normalization/
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Package to version, of the entries that pin one."""
    return {normalized(pin[1]): pin[2] for line in entries(text) if (pin := _PIN.match(line))}


def unsafe(text: str) -> list[str]:
    """Entries of a lock that are no version with its hashes: an option, an address, a range."""
    return [line for line in entries(text) if not _PIN.match(line) or "--hash=sha256:" not in line]


def stamp(requirements: str, set_lock: str) -> str:
    """The first line of a lock: it changes when the requirements or the image set change."""
    digest = hashlib.sha256(f"{requirements}\0{set_lock}".encode()).hexdigest()
    return f"{STAMP}{digest[:32]}"
