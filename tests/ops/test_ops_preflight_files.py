"""Preflight of what lies on this machine: the digests of the images that a mirror copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from core import Plan, load, needs
from ops.preflight import files


def asked(name: str) -> Any:
    return SimpleNamespace(plan=Plan(name=name, settings=load(name).settings))


def test_without_a_mirror_there_is_nothing_to_pin() -> None:
    (found,) = files.copied_images(asked("dev"))
    assert found.result == "skipped"


def test_an_image_without_a_digest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "image_lock", lambda: {"quay.io/kuberay/operator:v1.7.0": "sha256:" + "0" * 64})
    (found,) = files.copied_images(asked("prod"))
    assert (found.result, found.do) == ("failed", "make pin, then commit images.lock.yaml")
    assert found.why == "no digest recorded for nvcr.io/nvidia/k8s-device-plugin:v0.16.1"


def test_all_of_them_by_digest_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [copy.source for copy in needs.copies(asked("prod").plan)]
    names = [f"{source.name}:{source.tag}" for source in sources]
    monkeypatch.setattr(needs, "image_lock", lambda: dict.fromkeys(names, "sha256:" + "0" * 64))
    (found,) = files.copied_images(asked("prod"))
    assert (found.result, found.why) == ("ok", "2 images, by digest")
