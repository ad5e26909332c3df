"""Packages of an environment's own: locked by the real uv from an index on disk, and judged when a file is checked."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import image_packages
from hyperpod_ray.core.checks.image import own_packages_are_locked, set_is_known
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.image import own
from hyperpod_ray.image.context import OWN, stage
from hyperpod_ray.image.versions import ImageError, choose, read
from tests.core.environment_files import text_of

ROOT = Path(__file__).resolve().parents[2]
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


def test_an_image_without_own_packages_installs_none(tmp_path: Path) -> None:
    stage(tmp_path, chosen=SET)
    text = (tmp_path / OWN).read_text()
    assert image_packages.entries(text) == []
    assert "==" not in text, "the Dockerfile looks for it"


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


def judged(root: Path, **image: str) -> list[Finding]:
    plan = parse(text_of({}), name="test", path=Path("environments/test.yaml")).plan
    settings = plan.settings.model_copy(update={"image": BuiltImage(**image)})  # type: ignore[arg-type]
    return list(own_packages_are_locked(Plan(name="test", settings=settings), Repository(root=root)))


LOCK = "tiny-lib==1.4 \\\n    --hash=sha256:" + "0" * 64 + "\n"


@pytest.mark.parametrize(
    ("files", "image", "words"),
    [
        ({}, {}, "'ours.in' is no file of the project"),
        ({"ours.in": "tiny-lib\n"}, {}, "ours.in has no lock"),
        ({"ours.in": "tiny-lib\n", "ours.txt": LOCK}, {}, "ours.txt is not the lock of ours.in"),
        ({"ours.in": "tiny-lib\n", "ours.txt": "STAMP" + LOCK}, {}, ""),
        ({"ours.in": "tiny-lib\n", "ours.txt": "STAMP" + LOCK}, {"set": "cu130-transformers"}, "is not the lock"),
        ({"ours.in": "tiny-lib\n", "ours.txt": "STAMPtiny-lib==1.4\n"}, {}, "ours.txt: 'tiny-lib==1.4'"),
        ({"ours.in": "x\n", "ours.txt": "STAMP--index-url https://example.com\n" + LOCK}, {}, "'--index-url"),
        ({"ours.in": "x\n", "ours.txt": "STAMP" + LOCK.replace("tiny-lib==1.4", "torch==2.9.0")}, {}, "torch 2.9.0"),
    ],
)  # fmt: skip
def test_a_check_judges_the_lock(tmp_path: Path, files: dict[str, str], image: dict[str, str], words: str) -> None:
    for name, text in files.items():
        stamp = image_packages.stamp(files["ours.in"], SET.requirements.read_text())
        (tmp_path / name).write_text(text.replace("STAMP", stamp + "\n"))
    found = judged(tmp_path, requirements="ours.in", **image)
    assert [words in one.what for one in found] == ([True] if words else []), found


def test_another_folder_takes_neither_a_set_nor_packages() -> None:
    plan = parse(text_of({}), name="test", path=Path("environments/test.yaml")).plan
    image = BuiltImage(folder="jobs", set="cu130", requirements="ours.in")
    settings = plan.settings.model_copy(update={"image": image})
    found = list(set_is_known(Plan(name="test", settings=settings), Repository(root=ROOT)))
    assert [one.path for one in found] == [("image", "set"), ("image", "requirements")]


@pytest.mark.parametrize("name", ["cu130", "cu128"])
def test_the_set_with_libraries_extends_its_plain_one_in_every_shared_version(name: str) -> None:
    plain, more = choose(name), choose(f"{name}-transformers")
    assert (more.base, more.tag, more.digest, more.torch) == (plain.base, plain.tag, plain.digest, plain.torch)
    ours = image_packages.pins(plain.requirements.read_text())
    theirs = image_packages.pins(more.requirements.read_text())
    assert {"transformers", "datasets", "accelerate"} <= set(theirs) - set(ours)
    assert {name: theirs[name] for name in ours} == ours


@pytest.mark.parametrize("name", sorted(read()[1]))
def test_locks_of_one_image_agree(name: str) -> None:
    """The Dockerfile installs one after the other; a second version would replace the first."""
    tiered = image_packages.pins((ROOT / "hyperpod_ray/image/requirements-tiered.txt").read_text())
    theirs = image_packages.pins(choose(name).requirements.read_text())
    assert {one: theirs[one] for one in tiered if one in theirs} == {
        one: v for one, v in tiered.items() if one in theirs
    }


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
