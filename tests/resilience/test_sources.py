"""Whose code a file is, also where packages lie elsewhere: Debian's Python, NVIDIA's images, a program below /usr."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import errors, sources

UPSTREAM, DEBIAN = "/opt/conda/lib/python3.11/site-packages", "/usr/local/lib/python3.12/dist-packages"


@pytest.mark.parametrize("packages", [UPSTREAM, DEBIAN])
def test_packages_are_known_wherever_they_are_installed(packages: str) -> None:
    assert sources.of_package(f"{packages}/torch/distributed/distributed_c10d.py")
    assert sources.of_package(f"{packages}/torch/distributed/distributed_c10d.py", "torch", "ray")
    assert not sources.of_package(f"{packages}/transformers/trainer.py", "torch", "ray")
    assert sources.installed(f"{packages}/transformers/trainer.py")


@pytest.mark.parametrize("file", ["/usr/src/app/train.py", "/fsx/site/train.py", "/home/me/dist/train.py"])
def test_a_users_program_is_theirs_also_below_the_prefix_of_python(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_STANDARD", ("/usr/lib/python3.12/", "<frozen"))
    monkeypatch.setattr(sources, "_PROGRAMS", "/usr/bin/")
    assert not sources.installed(file)
    for of_python in ("/usr/lib/python3.12/json/decoder.py", "/usr/bin/torchrun", "<frozen importlib._bootstrap>"):
        assert sources.installed(of_python)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As `pip install --target` leaves it, on Python's path, with a user's program beside it."""
    about = tmp_path / "some_package-1.0.dist-info"
    (tmp_path / "some_package").mkdir()
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\n")
    (about / "RECORD").write_text(
        "some_package/__init__.py,,\nsome_package/inner/part.py,,\nsingle.py,,\n"
        "some_package-1.0.dist-info/RECORD,,\nsome_package-1.0.dist-info/METADATA,,\n../../bin/some,,\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_packages_of_a_target_folder_are_packages_and_a_program_beside_them_is_the_users(target: Path) -> None:
    for file in ("some_package/inner/part.py", "some_package/__init__.py", "single.py"):
        assert sources.installed(f"{target}/{file}"), file
    assert sources.of_package(f"{target}/some_package/inner/part.py", "torch", "some_package")
    assert not sources.of_package(f"{target}/some_package/inner/part.py", "torch", "ray")
    for file in ("train.py", "package/part.py", "some_package_of_mine/part.py", "bin/some", "../single.py"):
        assert not sources.installed(os.path.normpath(f"{target}/{file}")), file


def test_a_project_that_is_installed_to_be_edited_is_the_users(target: Path) -> None:
    """Its folder is on the path too, with what old versions of setuptools leave there."""
    (target / "mine.egg-info").mkdir()
    (target / "mine.egg-info" / "SOURCES.txt").write_text("mine/train.py\n")
    (target / "mine.egg-info" / "top_level.txt").write_text("mine\n")
    assert not sources.installed(f"{target}/mine/train.py")


def test_python_has_its_own_modules() -> None:
    for module in (argparse, json):
        assert sources.of_python(str(module.__file__))
    standard = str(argparse.__file__).removesuffix("argparse.py")
    for folder in ("site-packages", "dist-packages"):
        assert not sources.of_python(f"{standard}{folder}/torch/nn/modules/linear.py"), "packages lie below it"


def raised_in(file: str) -> BaseException:
    scope: dict[str, Any] = {}
    exec(compile("def call():\n    raise RuntimeError('Connection reset by peer')\n", file, "exec"), scope)  # noqa: S102 - code of a file of that name
    with pytest.raises(RuntimeError) as caught:
        scope["call"]()
    return caught.value


@pytest.mark.parametrize("packages", [UPSTREAM, DEBIAN])
def test_what_torch_raises_of_a_lost_peer_is_not_the_users(packages: str) -> None:
    assert not errors.of_user(raised_in(f"{packages}/torch/distributed/distributed_c10d.py"))
    assert errors.of_user(raised_in("/usr/src/app/train.py"))
    text = 'Traceback:\n  File "{}", line 3, in call\n    raise RuntimeError(1)\n'
    assert not errors.of_user_by(text.format(f"{packages}/ray/train/worker.py"))
    assert errors.of_user_by(text.format("/usr/src/app/train.py"))
