"""Reads `versions.yaml`, the one source of what goes into the image, and turns a set into Docker build arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.image_build import PYPI
from hyperpod_ray.core.image_sets import fields_of
from hyperpod_ray.core.needs import base_digest
from hyperpod_ray.core.project import ships
from hyperpod_ray.core.project_files import read_mapping

FILE = Path(__file__).with_name("versions.yaml")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ImageError(ProjectError, ValueError):
    """The parameter set is wrong or incomplete; the command exits with code 2."""


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """One consistent choice of base image, Ray, torch and CUDA.

    Args:
        name: The set's name, which is also in the name of its requirements file.
        ray: Ray's version; must be the environment's `ray.version`.
        base: Base image without tag.
        tag: Its tag.
        digest: Its digest, or empty where it is not known yet; an image is not built without.
        python: Python of the base, `major.minor`.
        torch: torch's version.
        cuda: CUDA that base and torch are built for, `major.minor`.
        architecture: Processor architecture of the base, `x86_64` or `arm64`.
        accelerator: What its frameworks are built for, `nvidia` or `neuron`.
        origin: The set whose entry has base and digest: its own name, or that of the set which it extends.
        efa_version: Version of AWS's EFA installer.
        efa_sha256: Its sha256, or empty where it is not known yet; an image is not built without.
    """

    name: str
    ray: str
    base: str
    tag: str
    digest: str
    python: str
    torch: str
    cuda: str
    architecture: str
    accelerator: str
    origin: str
    efa_version: str
    efa_sha256: str

    @property
    def requirements(self) -> Path:
        """The hash-pinned requirements of this set."""
        return FILE.with_name(f"requirements-{self.name}.txt")

    def build_args(self, *, base: str | None = None, index_url: str = PYPI, no_index: bool = False) -> dict[str, str]:
        """Docker build arguments, complete or not.

        Args:
            base: Image by digest that replaces the set's base.
            index_url: Package index, without credentials.
            no_index: Whether pip asks no index.
        """
        name, digest = self._base(base)
        return {
            "BASE_IMAGE": name,
            "BASE_DIGEST": digest,
            "EFA_VERSION": self.efa_version,
            "EFA_SHA256": self.efa_sha256,
            "REQUIREMENTS": self.requirements.name,
            "RAY_VERSION": self.ray,
            "TORCH_VERSION": self.torch,
            "PIP_INDEX_URL": "" if no_index else index_url,
            "PIP_NO_INDEX": "1" if no_index else "",
        }

    def require_complete(self, *, base: str | None = None) -> None:
        """ImageError while the base's digest, or the sha256 of the EFA installer, is not known."""
        _, digest = self._base(base)
        if not _DIGEST.fullmatch(digest):
            raise ImageError(
                f"{FILE.name}: sets.{self.name}.digest: {self.digest!r}",
                expected="sha256: and 64 hex digits, because a tag can be moved",
                fix="hyperpod-ray image pin",
            )
        if not _SHA256.fullmatch(self.efa_sha256):
            raise ImageError(
                f"{FILE.name}: efa.sha256: {self.efa_sha256!r}",
                expected=f"the 64 hex digits of aws-efa-installer-{self.efa_version}.tar.gz",
                fix="hyperpod-ray image pin",
            )

    def _base(self, base: str | None) -> tuple[str, str]:
        """Name and digest of the base."""
        name, _, digest = base.partition("@") if base else (f"{self.base}:{self.tag}", "", self.digest)
        return name, digest


def read(file: Path = FILE) -> tuple[str, dict[str, ImageSet]]:
    """The default set's name and all sets. ImageError with file and key where the file is wrong."""
    content: Any = read_mapping(file)
    try:
        sets = {
            name: ImageSet(
                name=name,
                ray=str(content["ray"]),
                origin=str(fields.get("extends", name)),
                efa_version=str(content["efa"]["version"]),
                efa_sha256=str(content["efa"]["sha256"]),
                **{key: str(value) for key, value in fields_of(content["sets"], name).items()},
            )
            for name, fields in content["sets"].items()
        }
        default = str(content["default"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ImageError(
            f"{file.name}: {error}",
            expected="efa, ray, default and sets of base, tag, digest, python, torch, cuda, architecture, accelerator",
            fix="correct the file",
        ) from error
    if default not in sets:
        raise ImageError(
            f"{file.name}: default: {default!r}", expected=f"one of {', '.join(sets)}", fix="correct the line"
        )
    return default, sets


def choose(name: str | None = None, *, project: Path | None = None) -> ImageSet:
    """A set by name, the default without.

    Args:
        name: Name of the set.
        project: The user's project: the digest that its `images.lock.yaml` records for the base comes first.
    """
    default, sets = read()
    if (name or default) not in sets:
        raise ImageError(f"image set: {name!r}", expected=f"one of {', '.join(sets)}", fix="correct the name")
    chosen = sets[name or default]
    if project is None or ships(project):
        return chosen
    recorded_digest = base_digest(f"{chosen.base}:{chosen.tag}", project)
    efa = base_digest(f"aws-efa-installer-{chosen.efa_version}.tar.gz", project)
    return replace(chosen, digest=recorded_digest or chosen.digest, efa_sha256=efa or chosen.efa_sha256)


def record_digest(chosen: ImageSet, digest: str, *, update: bool = False, file: Path = FILE) -> str:
    """Write a base's digest into the file, comments and all else untouched; what was done, in words.

    Args:
        update: Replace a recorded digest by another one.

    Raises:
        ImageError: Another digest is recorded (the tag was moved), or the file has no line for it.
    """
    if chosen.digest == digest:
        return "still what hyperpod_ray/image/versions.yaml says"
    if chosen.digest and not update:
        raise ImageError(
            f"{chosen.base}:{chosen.tag} now has digest {digest}: the tag was moved; builds still use the recorded one",
            expected=f"{chosen.digest}, as in {file.name}",
            fix="to use the new one: hyperpod-ray image pin --update",
        )
    line = re.compile(rf"(^  {re.escape(chosen.origin)}:\n(?:    .*\n)*?    digest: )\"[^\"\n]*\"", re.M)
    return _written(file, line, digest, where=f"sets.{chosen.name}", key="digest")


def record_installer(chosen: ImageSet, sha256: str, *, update: bool = False, file: Path = FILE) -> str:
    """Write the sha256 of the EFA installer into the file; what was done, in words.

    Raises:
        ImageError: Another one is recorded and `update` is not set, or the file has no line for it.
    """
    if chosen.efa_sha256 == sha256:
        return "still what hyperpod_ray/image/versions.yaml says"
    if chosen.efa_sha256 and not update:
        raise ImageError(
            f"aws-efa-installer-{chosen.efa_version}.tar.gz has sha256 {sha256}; builds expect the recorded one",
            expected=f"{chosen.efa_sha256}, as in {file.name}",
            fix="to use the new one: hyperpod-ray image pin --only installer --update",
        )
    line = re.compile(r"(^efa:\n(?:  .*\n)*?  sha256: )\"[^\"\n]*\"", re.M)
    return _written(file, line, sha256, where="efa", key="sha256")


def _written(file: Path, line: re.Pattern[str], value: str, *, where: str, key: str) -> str:
    changed, count = line.subn(rf'\g<1>"{value}"', file.read_text(encoding="utf-8"))
    if count != 1:
        raise ImageError(
            f"{file.name}: {where}: no line for {value}",
            expected=f'a line `{key}: "…"`',
            fix="add it, empty",
        )
    fresh = file.with_suffix(".new")
    fresh.write_text(changed, encoding="utf-8")
    fresh.replace(file)
    return "recorded in hyperpod_ray/image/versions.yaml; commit it"
