"""Rules about what an image build reaches: its base, its package index, its wheels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path as FilePath

from hyperpod_ray.core import image_packages, image_sets
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped
from hyperpod_ray.core.image_build import PYPI_HOSTS, base_repository, index_host
from hyperpod_ray.core.image_sets import default_image
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray_rules.arns import arn_of

HASHED_BYTES = 64 * 1024 * 1024
"""Larger wheels are compared by name and version here, and by hash by pip in the build."""
OF_THE_BASE = "ray"
"""The base has it in the version of the set: pip asks for no file."""
MOST = 5


@rule("image")
def one_index_is_named(plan: CommonPlan) -> Iterator[Finding]:
    """A build asks one index, or none.

    https://pip.pypa.io/en/stable/cli/pip_install/#cmdoption-index-url
    """
    image = plan.built_image
    if image is None:
        return
    package_index = image.index
    if package_index is not None and bool(package_index.codeartifact_arn) == bool(package_index.url):
        yield error(
            "image",
            "index",
            what="two addresses" if package_index.url else "no address",
            expected="codeartifact_arn or url, one of them",
            fix="remove one" if package_index.url else "name one, or remove index",
        )
    elif package_index is not None and package_index.secret_arn and not package_index.url:
        yield error(
            "image",
            "index",
            "secret_arn",
            what="a secret for CodeArtifact, whose token the build takes by its role",
            expected="a secret with url only",
            fix="remove secret_arn",
        )
    if image.no_index and package_index is not None:
        yield error(
            "image", "index", what="an index, and no_index is true", expected="one of the two", fix="remove one"
        )
    if image.no_index and image.wheels is None:
        yield error(
            "image",
            "no_index",
            what="no index, and no folder of wheels",
            expected="image.wheels, a folder with every file that the locks name",
            fix="name it, or remove no_index",
        )


@rule("image", "network", "region")
def a_build_in_a_closed_network_reaches_its_sources(plan: CommonPlan) -> Iterator[Finding]:
    """In a closed network a build reaches endpoints of its own Region, and neither Docker Hub nor PyPI.

    https://docs.aws.amazon.com/codebuild/latest/userguide/use-vpc-endpoints-with-codebuild.html
    """
    image, region = plan.built_image, plan.settings.region
    if image is None or not image.in_vpc or not plan.settings.network.closed or image.folder != image_sets.FOLDER:
        return
    base, package_index = base_repository(image), image.index
    if base is None or base.ecr is None or base.ecr[1] != region:
        yield error(
            "image",
            *(("base",) if image.base else ("in_vpc",)),
            what=f"the build has no way to {image.base or 'the base of the image set'}",
            expected=f"image.base in Amazon ECR in {region}",
            fix="copy the base image there, and name the copy by digest",
        )
    if package_index is None and not image.no_index:
        yield error(
            "image",
            "in_vpc",
            what="the build has no way to pypi.org",
            expected="image.index, or image.wheels with no_index",
            fix="name a repository of CodeArtifact in index.codeartifact_arn",
        )
    if package_index is None:
        return
    if package_index.url and index_host(package_index) in PYPI_HOSTS:
        yield error(
            "image",
            "index",
            "url",
            what=f"the build has no way to {index_host(package_index)}",
            expected="an index with an address inside the network",
            fix="name a repository of CodeArtifact in index.codeartifact_arn",
        )
    for name in ("codeartifact_arn", "secret_arn"):
        arn = getattr(package_index, name)
        if arn and arn_of(arn).region != region:
            yield error(
                "image",
                "index",
                name,
                what=f"of {arn_of(arn).region}; a closed network has endpoints of {region} only",
                expected=f"one of {region}",
                fix="name one of that Region",
            )


@rule("image", "network", needs="repository", stage="deploy", title="EFA installer")
def the_installer_travels_where_nothing_is_reached(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """In a closed network a build reaches no site of AWS's EFA installer: archive, signature and key travel with it.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-verify.html
    """
    image = plan.built_image
    closed = image is not None and image.in_vpc and plan.settings.network.closed
    if image is None or repository.root is None or not closed or image.folder != image_sets.FOLDER:
        yield skipped("no build of the project's image in a closed network")
        return
    folder = repository.root / image.wheels if image.wheels else None
    missing = [name for name in image_sets.installer_files() if folder is None or not (folder / name).is_file()]
    if not missing:
        yield fine("image", "wheels", what="the EFA installer, its signature and AWS's key travel with the build")
        return
    yield error(
        "image",
        *(("wheels",) if image.wheels else ("in_vpc",)),
        what=f"the build has no way to efa-installer.amazonaws.com, and no {', '.join(missing)}",
        expected="these files in the folder of image.wheels",
        fix=f"download them from https://efa-installer.amazonaws.com to {image.wheels or 'a folder, and name it'}",
    )


@rule("image", needs="repository")
def wheels_are_what_the_locks_name(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """A build without an index finds each locked file in the folder; no file there is one that no lock names.

    https://pip.pypa.io/en/stable/topics/secure-installs/#hash-checking-mode
    """
    image = plan.built_image
    if image is None or image.wheels is None or repository.root is None or image.folder != image_sets.FOLDER:
        return
    path, folder = ("image", "wheels"), repository.root / image.wheels
    if not folder.is_dir():
        yield error(
            *path,
            what=f"'{image.wheels}' is no folder of the project",
            expected="a folder with wheels",
            fix="create it, or correct the path; it is relative to the project",
        )
        return
    built = default_image(image.folder, image.set)
    if built is None:
        return
    locked = _locked(image, built.name, repository.root)
    usable: set[tuple[str, str]] = set()
    unusable = 0
    for file in image_packages.distributions(folder):
        release = image_packages.of_file(file.name)
        problem = _unusable(file, locked.get(release), built.architecture)
        if not problem:
            usable.add(release)
        elif (unusable := unusable + 1) <= MOST:
            yield error(
                *path,
                what=f"{file.name} {problem}",
                expected=f"files that a lock of image set '{built.name}' names, for Linux on {built.architecture}",
                fix=f"remove it, or lock it: hyperpod-ray image lock {plan.name}",
            )
    missing = sorted(release for release in set(locked) - usable if release[0] != OF_THE_BASE)
    if image.no_index and missing:
        names = ", ".join(f"{name} {version}" for name, version in missing[:MOST])
        remainder = f" and {len(missing) - MOST} more" if len(missing) > MOST else ""
        yield error(
            *path,
            what=f"{image.wheels} lacks {names}{remainder}",
            expected="every file that the locks name, as no_index is true",
            fix="download them with `pip download` (docs/packages-and-images.md)",
        )


def _locked(image: BuiltImage, name: str, root: FilePath) -> dict[tuple[str, str], set[str]]:
    """What the build installs, by package and version, with the hashes that its locks allow."""
    files = [image_sets.requirements_of(name), *image_sets.shared_requirements()]
    if image.requirements is not None:
        files.append(image_packages.lock_of(root / image.requirements))
    digests: dict[tuple[str, str], set[str]] = {}
    for file in files:
        if file.is_file():
            for release, hashes in image_packages.hashes(file.read_text(encoding="utf-8")).items():
                digests.setdefault(release, set()).update(hashes)
    return digests


def _unusable(file: FilePath, hashes: set[str] | None, architecture: str) -> str:
    """Why a file is of no use to the build; empty where it is."""
    if hashes is None:
        return "is in no lock"
    if file.name.endswith(".whl"):
        platform = file.stem.rpartition("-")[2]
        if platform != "any" and not ("linux" in platform and platform.endswith(architecture)):
            return f"is for {platform}"
    if file.stat().st_size <= HASHED_BYTES and hashlib.sha256(file.read_bytes()).hexdigest() not in hashes:
        return "has another hash than its lock"
    return ""
