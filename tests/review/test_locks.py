"""Lock files compared by meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyperpod_ray.review import locks
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.findings import Effect
from tests.review.scenario import PROJECT

PYTHON = """
# comment
boto3=={boto} \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via x
aws-cdk-lib=={cdk} --hash=sha256:cc
"""
CHARTS = """
charts:
  kuberay-operator:
    {{chart: kuberay-operator, version: {version}, source: {{git: g, commit: "{commit}"}}, sha256: "{digest}"}}
"""


def folder(
    path: Path, *, boto: str = "1.0", cdk: str = "2.0", version: str = "1.7.0", commit: str = "c1", digest: str = "d1"
) -> locks.Locks:
    path.mkdir()
    (path / "requirements.txt").write_text(PYTHON.format(boto=boto, cdk=cdk))
    (path / "charts.lock.yaml").write_text(CHARTS.format(version=version, commit=commit, digest=digest))
    (path / "images.lock.yaml").write_text("images: {'quay.io/a:v1': null}")
    packages = {"": {"version": "1"}, "node_modules/aws-cdk": {"version": "2.1", "integrity": "sha512-x"}}
    (path / "package-lock.json").write_text(json.dumps({"packages": packages}))
    return locks.read(path)


def test_the_projects_own_lock_files_are_read() -> None:
    found = locks.read(PROJECT)
    assert {"requirements.txt", "charts.lock.yaml", "images.lock.yaml", "package-lock.json"} <= set(found)
    assert found["requirements.txt"]["aws-cdk-lib"].digests
    assert found["charts.lock.yaml"]["kuberay-operator"].origin
    assert locks.rows(found, found) == []


def test_what_differs_is_named_by_version_and_not_by_line(tmp_path: Path) -> None:
    base, head = folder(tmp_path / "a"), folder(tmp_path / "b", boto="1.1", version="1.7.1", commit="c2", digest="d2")
    (python, charts) = locks.rows(base, head)
    assert (python.what, python.change, python.effect) == ("requirements.txt", "boto3 1.0 → 1.1", Effect.SAFE)
    assert charts.change == "kuberay-operator 1.7.0 of c1 → 1.7.1 of c2"


def test_other_content_under_the_same_version_weakens(tmp_path: Path) -> None:
    (row,) = locks.rows(folder(tmp_path / "a"), folder(tmp_path / "b", digest="d2"))
    assert (row.effect, row.code) == (Effect.WEAKENS, "lock-changed")
    assert "other content under the same version: kuberay-operator" in row.change


def test_a_digest_that_goes_weakens(tmp_path: Path) -> None:
    (row,) = locks.rows(folder(tmp_path / "a"), folder(tmp_path / "b", digest=""))
    assert (row.effect, row.code, row.change) == (Effect.WEAKENS, "lock-loosened", "without a digest: kuberay-operator")


def test_a_side_that_asks_for_another_library_is_named(tmp_path: Path) -> None:
    own = locks.read(PROJECT)
    assert locks.libraries(own, own) == []
    (note,) = locks.libraries(folder(tmp_path / "a", cdk="2.1.0"), own)
    assert "the base's templates were not synthesized with its own library" in note
    assert "its lock has aws-cdk-lib 2.1.0 (used: " in note


def test_a_broken_lock_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "package-lock.json").write_text("{")
    with pytest.raises(ReviewError, match=r"package-lock\.json: .*Expected a lock file"):
        locks.read(tmp_path)


def test_every_lock_of_an_image_is_read() -> None:
    """A set whose lock is missing here would change without a row."""
    there = {
        f"hyperpod_ray/image/{file.name}"
        for file in (Path(__file__).parents[2] / "hyperpod_ray" / "image").glob("requirements-*.txt")
    }
    assert there - {"hyperpod_ray/image/requirements-own.txt"} <= set(locks.PYTHON)


@pytest.mark.parametrize(("digest", "loosened"), [("", True), ("d1", False)])
def test_a_chart_that_comes_without_a_digest_weakens(digest: str, loosened: bool, tmp_path: Path) -> None:
    base = folder(tmp_path / "a")
    rows = locks.rows({**base, "charts.lock.yaml": {}}, folder(tmp_path / "b", digest=digest))
    assert ("lock-loosened" in {row.code for row in rows}) == loosened
