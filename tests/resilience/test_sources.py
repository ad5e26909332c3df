"""Whose code a file is, also where packages lie elsewhere: Debian's Python, NVIDIA's images, a program below /usr."""

from __future__ import annotations

import argparse
import json
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
