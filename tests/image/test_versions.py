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
from tests.image.image_helpers import pinned, pins

ROOT = Path(__file__).parents[2]


SETS = sorted(read()[1])


DIGEST = "sha256:" + "0f" * 32


SHA256 = "1e" * 32


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


def test_image_set_is_plain_data() -> None:
    assert all(isinstance(getattr(choose(), field.name), str) for field in dataclasses.fields(ImageSet))
