"""One synth of an environment for all tests that look at it: of every file, of every worker, of the next run.

An assembly is kept under `.cache/assemblies` by the content of all that it is made of. Processes that want the same one
at the same time wait for the first. One that fails is not kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = (
    "app.py", "cdk.json", "charts", "constructs", "environments",
    *(f"hyperpod_ray/{room}" for room in ("charts", "core", "guard", "image", "locks", "pricing")),
    "hyperpod_ray_rules", "hyperpod_ray_training", "jobs", "k8s", "lifecycle", "stacks",
)  # fmt: skip
"""Everything that an assembly is made of."""
PACKAGES = ("aws-cdk-lib", "cdk8s", "jsii")
KEEP = 3
"""Versions of the sources whose assemblies are kept."""


def kept(key: object, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` fills, once for all processes and runs with these sources.

    :param key: what else it depends on, as JSON.
    """
    folder = _of_these_sources() / _digest(key)
    if not folder.is_dir():
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                part = Path(tempfile.mkdtemp(dir=folder.parent, prefix="part-"))
                try:
                    make(part)
                except BaseException:
                    shutil.rmtree(part, ignore_errors=True)
                    raise
                part.rename(folder)
    return folder


def synthesized(
    name: str,
    text: str,
    *,
    path: Path,
    validation: bool,
    uploads: bool = False,
    project: Callable[[], Path] = lambda: PROJECT,
    changes: object = None,
) -> Path:
    """Return the assembly of an environment file's text.

    :param path: where messages say that the text is from.
    :param validation: whether the CDK's own validation must have passed.
    :param uploads: whether the files to upload stay in it. They are most of it, and only the cdk CLI looks at them.
    :param project: makes a copy of the project's uploaded folders with these `changes`.
    """

    def make(folder: Path) -> None:
        from hyperpod_ray.stacks.app import feature_flags, use_pinned_node

        use_pinned_node()
        import aws_cdk as cdk

        from hyperpod_ray.core import loader
        from hyperpod_ray.stacks.environment import EnvironmentStage

        plan = loader.parse_any(text, name=name, path=path).plan
        if not uploads:
            for asset, is_folder in _removed.items():
                (folder / asset).mkdir() if is_folder else (folder / asset).touch()
        cdk_app = cdk.App(
            context=feature_flags(PROJECT),
            outdir=str(folder),
            builtin_cloud_formation_validation=validation,
            stack_traces=validation,
            tree_metadata=uploads,  # a file for the CDK's own tools: a seventh of the synthesis
        )
        source = project()
        with _package_of(source):
            EnvironmentStage(cdk_app, plan=plan, project=source)
            cdk_app.synth()
        if not uploads:
            _without_uploads(folder)

    return kept([name, text, validation, uploads, changes], make)


@contextmanager
def _package_of(project: Path) -> Iterator[None]:
    """The image is built from the product's own files: those of the copy, where the project is one."""
    from hyperpod_ray.image import context

    with pytest.MonkeyPatch.context() as patched:
        if project != PROJECT:
            patched.setattr(context, "PACKAGE", project / "hyperpod_ray")
            patched.setattr(context, "_library", lambda: project / context.LIBRARY)
        yield


_removed: dict[str, bool] = {}
"""Uploads that assemblies lost, 57 MB in each; true: a folder. The CDK copies none whose name is there already."""


def _without_uploads(assembly: Path) -> None:
    for asset in list(assembly.glob("**/asset.*")):
        if not asset.exists() or (asset / "Chart.yaml").is_file():
            continue
        is_folder = asset.is_dir()
        if asset.parent == assembly:
            _removed[asset.name] = is_folder
        shutil.rmtree(asset) if is_folder else asset.unlink()


@functools.cache
def _of_these_sources() -> Path:
    digest = hashlib.sha256(json.dumps([version(package) for package in PACKAGES]).encode())
    for name in SOURCES:
        place = PROJECT / name
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(PROJECT)).encode() + b"\0" + file.read_bytes() + b"\0")
    parent = PROJECT / ".cache" / "assemblies"
    folder = parent / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    # a few, as another run may be at work with other sources
    ages = []
    for place in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another run was faster to remove it
            ages.append((place.stat().st_mtime, place))
    for _, old in sorted(ages)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
