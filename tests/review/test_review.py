from __future__ import annotations

from pathlib import Path

from hyperpod_ray.review.report.failure import MARKER
from hyperpod_ray.review.report.markdown import render
from hyperpod_ray.review.review import review
from tests.review.command_helpers import cluster
from tests.review.small import write


def test_equal_assemblies_give_an_empty_report(tmp_path: Path) -> None:
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": cluster(4)})
    made = review(base, head)
    assert made.empty
    text = render(made)
    assert text.startswith(MARKER)
    assert "no change" in text
    assert "|" not in text


def test_a_new_environment_and_one_that_left(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "manifest.json").write_text('{"artifacts": {}}')
    full = write(tmp_path / "full", {"A": cluster(4)})
    assert [row.code for row in review(empty, full).environments[0].rows] == ["environment-added"]
    assert [row.code for row in review(full, empty).environments[0].rows] == ["environment-left"]
