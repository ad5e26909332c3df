from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.charts import executable
from hyperpod_ray.core.images import Reference


@pytest.fixture(scope="module", autouse=True)
def helm() -> Path:
    found = executable.helm()
    if found is None:
        pytest.skip("no helm on PATH, and none in the kubectl layer's wheel for this machine")
    return found


OURS, CHINA = "111122223333.dkr.ecr.eu-west-1.amazonaws.com", "961992271922.dkr.ecr.cn-northwest-1.amazonaws.com.cn"


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "ecr"),
    [
        ("redis", "docker.io", "library/redis", "", None),
        ("bitnami/redis:7", "docker.io", "bitnami/redis", "7", None),
        ("localhost:5000/a/b:1", "localhost:5000", "a/b", "1", None),
        (f"{OURS}/x/y:1", OURS, "x/y", "1", ("111122223333", "eu-west-1")),
        (f"{CHINA}/eks/pause", CHINA, "eks/pause", "", ("961992271922", "cn-northwest-1")),
        (f"evil.example/{OURS}/x", "evil.example", f"{OURS}/x", "", None),
    ],
)
def test_references(text: str, registry: str, repository: str, tag: str, ecr: tuple[str, str] | None) -> None:
    for suffix in ("", f"@sha256:{'0' * 64}"):
        found = Reference.parse(text + suffix)
        assert (found.registry, found.repository, found.tag, found.ecr) == (registry, repository, tag, ecr)
        assert Reference.parse(str(found)) == found
