"""Preflight of what lies on this machine: the digests of the images that are built from, and that a mirror copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from core import Plan, image_sets, load, needs
from ops.preflight import files

DIGEST = "sha256:" + "0" * 64


def asked(name: str) -> Any:
    return SimpleNamespace(plan=Plan(name=name, settings=load(name).settings))


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base image whose digest is recorded."""
    built = image_sets.BuildableImage(
        name="x", ray="1", base="docker.io/base:1", digest=DIGEST, architecture="x86_64", accelerator="nvidia"
    )
    monkeypatch.setattr(needs, "default_image", lambda _folder: built)


@pytest.mark.usefixtures("base")
def test_a_base_by_digest_is_fine() -> None:
    (found,) = files.image_digests(asked("dev"))
    assert found.result == "ok"


@pytest.mark.usefixtures("base")
def test_an_image_without_a_digest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "image_lock", lambda: {"quay.io/kuberay/operator:v1.7.0": DIGEST})
    (found,) = files.image_digests(asked("prod"))
    assert (found.result, found.fix) == ("failed", "make pin, then commit images.lock.yaml")
    assert found.what == "no digest recorded for nvcr.io/nvidia/k8s-device-plugin:v0.16.1"


@pytest.mark.usefixtures("base")
def test_all_of_them_by_digest_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [copy.source for copy in needs.copies(asked("prod").plan)]
    monkeypatch.setattr(needs, "image_lock", lambda: {f"{one.name}:{one.tag}": DIGEST for one in sources})
    (found,) = files.image_digests(asked("prod"))
    assert found.result == "ok"


def test_a_base_without_a_digest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments without a mirror build an image, too."""
    built = image_sets.BuildableImage(
        name="x", ray="1", base="docker.io/base:1", digest="", architecture="x86_64", accelerator="nvidia"
    )
    monkeypatch.setattr(needs, "default_image", lambda _folder: built)
    (found,) = files.image_digests(asked("dev"))
    assert (found.result, found.fix) == ("failed", "make pin, then commit image/versions.yaml")
    assert "docker.io/base:1" in found.what


def test_no_image_of_this_project_no_digest() -> None:
    """The rehearsal's image is another folder's, and it copies nothing."""
    (found,) = files.image_digests(asked("local"))
    assert found.result == "ok"
