"""Packages of an environment's own: locked by the real uv from an index on disk, and judged when a file is checked."""

from __future__ import annotations

import zipfile
from pathlib import Path

from hyperpod_ray.core.checks.image import set_is_known
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import text_of

ROOT = Path(__file__).resolve().parents[2]


def wheel(folder: Path, name: str, version: str, *needs: str) -> None:
    """A package without code, as an index has it."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {one}" for one in needs)]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def test_another_folder_takes_neither_a_set_nor_packages() -> None:
    plan = parse(text_of({}), name="test", path=Path("environments/test.yaml")).plan
    image = BuiltImage(folder="jobs", set="cu130", requirements="ours.in")
    settings = plan.settings.model_copy(update={"image": image})
    found = list(set_is_known(Plan(name="test", settings=settings), Repository(root=ROOT)))
    assert [one.path for one in found] == [("image", "set"), ("image", "requirements")]
