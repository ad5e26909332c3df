"""What a mirror copies is pinned: every image of the locked charts that is on the internet, by digest."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from hyperpod_ray.core import Plan, load, needs, project
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.provenance import about_of
from hyperpod_ray.image import copies
from hyperpod_ray.image.versions import ImageError

LOCK = project.file(None, needs.IMAGE_LOCK)
FIRST, SECOND = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32


def test_the_lock_names_what_the_charts_bring() -> None:
    names = {str(reference) for reference in copies.upstream()}
    assert names == {"nvcr.io/nvidia/k8s-device-plugin:v0.16.1", "quay.io/kuberay/operator:v1.7.0"}
    assert set(needs.image_lock()) == names


def test_digests_are_recorded_and_then_guarded(tmp_path: Path) -> None:
    file = tmp_path / "images.lock.yaml"
    lines = copies.pin(lambda _: FIRST, file=file)
    assert len(lines) == 2
    assert all("commit it" in line for line in lines)
    before = file.read_bytes()
    assert set(yaml.safe_load(before)["images"].values()) == {FIRST}
    assert all(line.endswith("unchanged") for line in copies.pin(lambda _: FIRST, file=file))
    with pytest.raises(ImageError, match=r"the tag was moved.*--only copies --update"):
        copies.pin(lambda _: SECOND, file=file)
    assert file.read_bytes() == before
    copies.pin(lambda _: SECOND, update=True, file=file)
    assert set(yaml.safe_load(file.read_text())["images"].values()) == {SECOND}


def test_the_day_and_the_source_stay_with_the_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "images.lock.yaml"
    file.write_text(LOCK.read_text(encoding="utf-8"))
    monkeypatch.setenv("HYPERPOD_RAY_DATE", "2026-12-24")
    copies.pin(lambda _: FIRST, file=file)
    (before,), (after,) = about_of(LOCK, "images.lock.yaml"), about_of(file, "images.lock.yaml")
    assert after == before.model_copy(update={"as_of": date(2026, 12, 24)})


def test_nothing_is_written_where_one_registry_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "images.lock.yaml"

    def ask(reference: Reference) -> str:
        if reference.registry == "quay.io":
            raise ImageError("quay.io cannot be reached: refused", expected="an answer", fix="run the command again")
        return FIRST

    with pytest.raises(ImageError, match="cannot be reached"):
        copies.pin(ask, file=file)
    assert not file.exists()


def test_a_recorded_digest_is_what_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = {str(reference): FIRST for reference in copies.upstream()}
    monkeypatch.setattr(needs, "image_lock", lambda *_: locked)
    plan = Plan(name="prod", settings=load("prod").settings)
    operator = next(copy for copy in needs.copies(plan) if "kuberay" in copy.repository)
    assert str(operator.source) == f"quay.io/kuberay/operator:v1.7.0@{FIRST}"
    assert (operator.repository, operator.tag) == ("prod/quay.io/kuberay/operator", "v1.7.0-1a1a1a1a1a1a")
    need = next(need for need in needs.images(plan) if need.workload == "kuberay-operator")
    own = "444455556666.dkr.ecr.us-west-2.amazonaws.com/prod/quay.io/kuberay/operator"
    assert need.values() == {"image.repository": own, "image.tag": "v1.7.0-1a1a1a1a1a1a"}


DIGESTS = {name: f"sha256:{name * 32}" for name in ("1a", "2b")}


@pytest.mark.parametrize(
    ("recorded", "update", "words", "kept"),
    [
        ("", False, "recorded in", "1a"),
        ("1a", False, "still what", "1a"),
        ("1a", True, "still what", "1a"),
        ("2b", True, "recorded in", "1a"),
        ("2b", False, "the tag was moved; builds still use the recorded one", "2b"),
    ],
)
def test_the_base_of_a_users_project_is_recorded_and_then_guarded(
    tmp_path: Path, recorded: str, update: bool, words: str, kept: str
) -> None:
    """Builds use what is recorded, until somebody says --update."""
    base, other = "docker.io/rayproject/ray:2.60.0", "docker.io/rayproject/ray:2.61.0"
    copies.record_base(other, DIGESTS["2b"], project=tmp_path)
    if recorded:
        copies.record_base(base, DIGESTS[recorded], project=tmp_path)
    (lock,) = (file for file in tmp_path.rglob("*") if file.is_file())
    before = lock.read_text(encoding="utf-8")
    try:
        said = copies.record_base(base, DIGESTS["1a"], project=tmp_path, update=update)
    except ImageError as refused:
        said = str(refused)
        assert f"Expected {DIGESTS['2b']}" in said
    assert words in said
    assert (lock.read_text(encoding="utf-8") == before) == (words != "recorded in")
    images = yaml.safe_load(lock.read_text(encoding="utf-8"))["images"]
    assert images.items() >= {other: DIGESTS["2b"], base: DIGESTS[kept]}.items()
    text = lock.read_text(encoding="utf-8")
    assert text.startswith("# Digests of the images that a mirror copies")
    assert text.index(other) < text.index(base), "what is new comes last, so that a difference is one line"
    assert [file.name for file in lock.parent.iterdir()] == [lock.name], "no half-written file is left"
