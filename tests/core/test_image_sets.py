"""What the default set of the image folder gives to a plan, before anything of the image is built."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from hyperpod_ray.core import image_sets

PROJECT = Path(__file__).resolve().parents[2]


def test_the_default_set_is_the_first_of_the_names() -> None:
    names = image_sets.set_names()
    default = image_sets.default_image(image_sets.FOLDER)
    assert default is not None and default.name == names[0]
    assert sorted(names[1:]) == names[1:]
    assert len(set(names)) == len(names) > 1


@pytest.mark.parametrize("name", image_sets.set_names())
def test_each_set_has_a_base_a_processor_and_a_lock(name: str) -> None:
    image = image_sets.default_image(image_sets.FOLDER, name)
    assert image is not None
    assert image.architecture in ("x86_64", "arm64") and image.accelerator in ("nvidia", "neuron")
    repository, _, tag = image.base.rpartition(":")
    assert repository and tag and "@" not in image.base
    assert image.digest == "" or image.digest.startswith("sha256:")
    assert image_sets.requirements_of(name).is_file()


def test_another_folder_and_an_unknown_set_are_nobodys() -> None:
    assert image_sets.default_image("docker/mine") is None
    assert image_sets.default_image(image_sets.FOLDER, "cu999") is None
    assert image_sets.missing_installer("docker/mine") == ""


def test_a_set_that_extends_another_has_its_fields_beneath_its_own() -> None:
    sets = {"base": {"base": "a", "tag": "1"}, "more": {"extends": "base", "tag": "2"}}
    assert image_sets.fields_of(sets, "more") == {"base": "a", "tag": "2"}
    assert sets["more"] == {"extends": "base", "tag": "2"}, "the file's own data stay"


def test_the_installer_its_signature_and_its_key_are_named_as_on_awss_site() -> None:
    archive, signature, key = image_sets.installer_files()
    assert archive.startswith("aws-efa-installer-") and archive.endswith(".tar.gz")
    assert (signature, key) == (f"{archive}.sig", "aws-efa-installer.key")
    assert all(path.is_file() for path in image_sets.shared_requirements())


OPERATORS_AGENT = SpecifierSet(">=2.4.0,<2.12.0")
"""Of torch, by hyperpod-elastic-agent 1.1.3 (PyPI, `Requires-Dist`); it has AWS's `hyperpodrun`."""


def test_the_training_operators_agent_does_not_install_beside_the_default_images_torch() -> None:
    """README's reason for its "no": once this fails, the reason is another."""
    torch = _torch_of_sets()
    assert torch[image_sets.set_names()[0]] not in OPERATORS_AGENT
    assert any(version in OPERATORS_AGENT for version in torch.values()), "README: the other sets have it"


def test_the_training_library_asks_for_no_torch_with_which_it_was_not_run() -> None:
    """`make test-torch` runs it with the oldest torch of an image set, rehearsals with the default set's."""
    project = tomllib.loads((PROJECT / "hyperpod_ray_training" / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = min(map(Version, _torch_of_sets().values()))
    assert f"torch>={oldest.major}.{oldest.minor}" in project["optional-dependencies"]["train"]
    rule = re.search(r"^\.venv-torch/\.stamp: LOCK := (\S+)$", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert rule
    assert f"\ntorch=={oldest} " in (PROJECT / rule[1]).read_text("utf-8")


def _torch_of_sets() -> dict[str, str]:
    locks = {name: image_sets.requirements_of(name).read_text("utf-8") for name in image_sets.set_names()}
    pins = {name: re.search(r"^torch==(\S+)", lock, re.MULTILINE) for name, lock in locks.items()}
    return {name: match[1] for name, match in pins.items() if match}
