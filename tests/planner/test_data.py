"""Every figure of the planner's data files has a source and a day; one without is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.planner import data, speed

FOLDER = Path(data.__file__).parent
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
EXPLAINED = {"about", "types", "levels", "gpus_per_node"}
MADE = {"published.yaml", "speed.yaml"}
"""Their figures have sources by name, or are computed: tests/planner/test_agreement.py."""
"""Parts that name entries, or whose source stands at the head of the file (`types`: EC2, in `about`)."""


def figures(value: Any) -> Iterator[dict[str, Any]]:
    """Innermost mappings that hold a number."""
    if isinstance(value, dict):
        inner = [item for item in value.values() if isinstance(item, dict | list)]
        if any(isinstance(item, int | float) and not isinstance(item, bool) for item in value.values()) or (
            any(isinstance(item, list) for item in value.values()) and "as_of" in value
        ):
            yield value
        else:
            for item in inner:
                yield from figures(item)
    elif isinstance(value, list):
        for item in value:
            yield from figures(item)


@pytest.mark.parametrize("name", sorted(set(FILES) - MADE))
def test_each_figure_has_a_source_and_a_day(name: str) -> None:
    raw = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    found = [figure for key, value in raw.items() if key not in EXPLAINED for figure in figures(value)]
    assert found
    bare = [one for one in found if not one.get("source") or not one.get("as_of")]
    assert bare == []


def test_the_page_lists_what_was_compared_with_its_source() -> None:
    """Rows with `compared`, by file, are those that the page names."""
    found: dict[str, int] = {}
    for name in sorted(set(FILES) - MADE):
        raw = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
        rows = [figure for key, value in raw.items() if key not in EXPLAINED for figure in figures(value)]
        marked = [one for one in rows if "compared" in one]
        assert all(one["as_of"] <= one["compared"] for one in marked)
        assert all(re.search(r"\d|guide|EC2|docs/", one["source"]) for one in marked)
        found[name.removesuffix(".yaml")] = len(marked)
    assert found == {"failures": 0, "gpus": 8, "memory": 0, "models": 3, "storage": 5, "times": 0}
    page = (FOLDER.parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
    named = (
        "Llama 3.1 8B, 70B and 405B",
        "capacity steps",
        "answers of EC2",
    )
    for words in named:
        assert words in page


def test_what_stands_at_the_head_of_a_file_has_a_source_and_a_day() -> None:
    """The network of instance types has no row of its own."""
    for name in FILES:
        for one in yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["about"]:
            assert one["source"]
            assert isinstance(one["as_of"], date)
    (head,) = yaml.safe_load((FOLDER / "gpus.yaml").read_text(encoding="utf-8"))["about"]
    assert "network of instance types" in head["what"]
    assert "EC2 DescribeInstanceTypes" in head["source"]


def test_a_figure_without_a_source_is_refused() -> None:
    good = {"value": 1.0, "what": "w", "as_of": "2026-11-22", "source": "a page of the guide"}
    assert data.Constant.model_validate(good).value == 1
    for missing in ("source", "as_of"):
        with pytest.raises(ValidationError):
            data.Constant.model_validate({key: value for key, value in good.items() if key != missing})
    with pytest.raises(ValidationError):
        data.Constant.model_validate({**good, "source": "?"})


def test_types_are_the_catalogues_and_their_gpus_are_known() -> None:
    for name, node in data.node_types().items():
        assert node.gpu in data.gpus()
        assert catalogue()[name].accelerator == "nvidia"


def test_levels_name_entries() -> None:
    table = data.failures()
    rates = [table.observations[name].per_thousand for name in table.levels.values()]
    assert rates == sorted(rates)
    assert set(speed.GENERATIONS) <= set(data.gpus())


def test_spans_are_in_order_and_nodes_take_what_a_review_says() -> None:
    for time in data.times().values():
        assert list(time.seconds) == sorted(time.seconds)
    spans = data.node_durations()
    assert spans["made"][0].central == 20 * 60
    assert spans["deep_checks"][0] == (1800, 3600, 7200)
