"""Data files of the project after a bad merge: refused with file and line, from every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.core import image_sets, images, needs
from hyperpod_ray.core.project_files import ProjectFileError, read_mapping
from tests.core.three_parts import assert_form

CONFLICT = b"images:\n<<<<<<< HEAD\n  a: 1\n=======\n  a: 2\n>>>>>>> other\n"
BAD = {
    "conflict": (CONFLICT, "record.yaml:2: conflict markers of a merge"),
    "not UTF-8": (b"a: \xff\n", "record.yaml: byte 4 is not UTF-8"),
    "no YAML": (b"a: [1\nb: 2\n", "record.yaml:2: not YAML"),
    "a list": (b"- a\n", "record.yaml: it is no mapping"),
    "a folder": (None, "record.yaml: cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    content, says = BAD[name]
    file = tmp_path / "record.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ProjectFileError) as caught:
        read_mapping(file)
    assert caught.value.what.startswith(says)
    assert_form(caught.value)


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    (tmp_path / "record.yaml").write_text("# nothing\n", encoding="utf-8")
    assert read_mapping(tmp_path / "record.yaml") == {}


def test_every_record_is_read_that_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("images.lock.yaml", "charts.contents.yaml", "charts.lock.yaml", "versions.yaml"):
        (tmp_path / name).write_bytes(CONFLICT)
    monkeypatch.setattr(image_sets, "SETS", tmp_path)
    for read in (
        lambda: needs.image_lock(tmp_path),
        lambda: images.chart_images("charts.lock.yaml", "any", project=tmp_path),
        image_sets._data.__wrapped__,
    ):
        with pytest.raises(ProjectFileError, match="conflict markers of a merge"):
            read()
