from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.core import image_packages
from hyperpod_ray.core.checks.image import own_packages_are_locked
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.image.context import OWN, stage
from hyperpod_ray.image.versions import choose, read
from tests.core.environment_files import text_of

ROOT = Path(__file__).resolve().parents[2]


SET = choose()


def test_an_image_without_own_packages_installs_none(tmp_path: Path) -> None:
    stage(tmp_path, chosen=SET)
    text = (tmp_path / OWN).read_text()
    assert image_packages.entries(text) == []
    assert "==" not in text, "the Dockerfile looks for it"


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
