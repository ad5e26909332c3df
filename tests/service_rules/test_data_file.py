"""Data files of the packages read as a safe YAML loader reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hyperpod_ray_rules import data_file

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "hyperpod_ray_rules/data",
    "hyperpod_ray/core/catalogue",
    "hyperpod_ray/planner/data",
    "hyperpod_ray/pricing",
    "hyperpod_ray/review",
)
FILES = sorted(path for folder in SHIPPED for path in (ROOT / folder).glob("*.yaml"))
OTHERS = sorted((ROOT / "environments").rglob("*.yaml"))
TEXTS = {
    "empty": "",
    "scalar": "3",
    "null": "~",
    "types": "[1, 1.5, true, yes, 2026-11-26, 0x1F, 010, 1_000, 12:30, .inf, '1', \"on\", !!str 7, null, '']",
    "nested": "a: {b: [1, [2, {c: d}]], e: }\n? f\n: - g\n  - h: i\n",
    "keys of other types": "1: a\ntrue: b\nnull: c\n2026-11-26: d\n",
    "twice": "a: 1\na: 2\n",
    "anchors": "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n",
    "block texts": "a: |\n  one\n  two\nb: >-\n  three\n  four\n",
    "same text, quoted and plain": "[1, '1', 1, true, 'true']",
}


def loaded(text: str) -> object:
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # safe loaders, both


@pytest.mark.parametrize("path", [*FILES, *OTHERS], ids=lambda path: path.name)
def test_a_file_holds_what_the_loader_reads(path: Path) -> None:
    # repr tells 1 from True and from 1.0
    assert repr(data_file.read(path)) == repr(loaded(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_holds_what_the_loader_reads(text: str) -> None:
    assert repr(data_file.parse(text)) == repr(loaded(text))


@pytest.mark.parametrize("text", ["a: [", "a: 1\n---\nb: 2\n", "a: !unknown 1", "\x00"])
def test_what_the_loader_refuses_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        data_file.parse(text)


def test_the_packages_files_need_no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each falls under the quick way: an anchor in one of them would bring the slow start back."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(yaml, "load", refuse)
    for path in FILES:
        assert data_file.read(path)
