"""What tests of `image_build` share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.image.versions import ImageSet, choose
from hyperpod_ray.stacks import image
from tests.stacks.assembled import Assembly
from tests.support import assemblies
from tests.support.references import References

VARIANTS = Path(__file__).parent / "variants"
ACCOUNT, REGION = "111122223333", "us-west-2"
SHA256 = "1e" * 32


@pytest.fixture(scope="module")
def closed() -> Assembly:
    """As after `make pin`: without the EFA installer's sha256 a build is incomplete."""

    def pinned(name: str | None = None, *, project: Path | None = None) -> ImageSet:
        return replace(choose(name, project=project), efa_sha256=SHA256)

    path = VARIANTS / "closed-build.yaml"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(image, "choose", pinned)
        made = assemblies.synthesized(
            path.stem, path.read_text(encoding="utf-8"), path=path, validation=False, changes={"efa_sha256": SHA256}
        )
    return Assembly(name=path.stem, folder=made)


@pytest.fixture(scope="module")
def project(closed: Assembly) -> dict[str, Any]:
    references = References(closed.templates, account=ACCOUNT, region=REGION)
    found: dict[str, Any] = references.resolve("closed-build-Image", closed.one("AWS::CodeBuild::Project"))
    return found
