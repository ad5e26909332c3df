from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import image_packages
from hyperpod_ray.image import own
from hyperpod_ray.image.context import OWN, stage
from hyperpod_ray.image.versions import ImageError, choose

SET = choose()


NUMPY = image_packages.pins(SET.requirements.read_text())["numpy"]


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


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of four packages; numpy also in a version that the set does not have."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "tiny-lib", "1.4", "numpy>=1", "tiny-dep")
    wheel(folder, "tiny-dep", "2.0")
    wheel(folder, "tiny-old", "0.1", "numpy<1")
    for version in ("0.9", NUMPY, "99.0"):
        wheel(folder, "numpy", version)
    for name in ("UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def test_the_lock_has_what_the_set_lacks_with_hashes(index: Path, tmp_path: Path) -> None:
    asked = tmp_path / "ours.in"
    asked.write_text("tiny-lib>=1  # ours\n")
    text = own.lock(asked, chosen=SET).read_text()
    assert image_packages.pins(text) == {"tiny-lib": "1.4", "tiny-dep": "2.0"}
    assert image_packages.unsafe(text) == []
    assert text.startswith(image_packages.stamp(asked.read_text(), SET.requirements.read_text()) + "\n")
    stage(tmp_path / "context", chosen=SET, own_lock=tmp_path / "ours.txt")
    assert (tmp_path / "context" / OWN).read_text() == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch==2.9.0", f"ours.in:2: 'torch==2.9.0', and image set '{SET.name}' has torch {SET.torch}"),
        ("Scikit_Learn<1", "ours.in:2: 'Scikit_Learn<1', and image set"),
        ("git+https://example.com/x.git", "ours.in:2: 'git+https://example.com/x.git'. Expected NAME"),
        ("x @ https://example.com/x.whl", "is an address"),
        ("-r other.in", "ours.in:2: '-r other.in'"),
        ("tiny-old", "'cu130': "),
        ("not-in-the-index", "not-in-the-index"),
    ],
)
def test_what_cannot_be_locked_is_refused_with_its_line(index: Path, tmp_path: Path, line: str, words: str) -> None:
    asked = tmp_path / "ours.in"
    asked.write_text(f"# ours\n{line}\n")
    with pytest.raises(ImageError) as refused:
        own.lock(asked, chosen=SET)
    assert words in str(refused.value)
    assert not (tmp_path / "ours.txt").exists()


def test_a_private_wheel_is_locked_from_its_folder(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of `image.wheels` is what the resolver knows besides the index."""
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/never-asked")
    asked = tmp_path / "ours.in"
    asked.write_text("tiny-dep\n")
    text = own.lock(asked, chosen=SET, wheels=index, no_index=True).read_text()
    assert image_packages.pins(text) == {"tiny-dep": "2.0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, set()),
        ({"wheels": Path("wheels")}, {"--find-links"}),
        ({"no_index": True}, {"--no-index"}),
        ({"wheels": Path("wheels"), "no_index": True}, {"--find-links", "--no-index"}),
    ],
)
def test_the_resolver_is_asked_for_what_the_image_can_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: set[str]
) -> None:
    """Each word of the command is one that `uv pip compile` documents."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "tiny-lib==1.4 --hash=sha256:" + "0" * 64, "")

    monkeypatch.setattr(subprocess, "run", run)
    asked = tmp_path / "ours.in"
    asked.write_text("tiny-lib\n")
    own.lock(asked, chosen=SET, **options)
    ((program, *command),) = commands
    assert Path(program).name == "uv"
    pinned = [
        word for name in image_packages.pins(SET.requirements.read_text()) for word in ("--no-emit-package", name)
    ]
    links = ["--find-links", "wheels"] if "wheels" in options else []
    assert command == [
        "pip", "compile", "--quiet", "--generate-hashes", "--strip-extras", "--no-header", "--no-annotate",
        "--python-version", SET.python, "--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:",
        "--constraint", str(SET.requirements),
        "--constraint", str(SET.requirements.with_name("requirements-tiered.txt")),
        *pinned, *links, *(["--no-index"] if "no_index" in options else []), str(asked),
    ]  # fmt: skip
    assert words == {"--find-links", "--no-index"} & set(command)
