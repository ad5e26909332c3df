from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html import escape
from xml.etree import ElementTree

import pytest

from hyperpod_ray.ops.journal.record import Sign
from hyperpod_ray.ops.web import timeline
from hyperpod_ray.ops.web.serve import ASSETS
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.planner import page_style as look
from tests.support.pages import EVIL, NOW


def test_the_tooltips_and_the_picture_are_text_too(page_view: View) -> None:
    run = page_view.runs[0].record
    assert run is not None
    drawn = timeline.draw(run, now=NOW.timestamp(), node_signs=[Sign(t=NOW.timestamp() - 900, kind="x", text=EVIL)])
    assert "<script" not in drawn and EVIL not in drawn and escape(EVIL) in drawn


def test_both_widths_have_one_axis_for_everything(page_view: View) -> None:
    run = page_view.runs[0].record
    assert run is not None
    drawn = timeline.draw(run, now=NOW.timestamp())
    wide, narrow = re.findall(r"<svg .*?</svg>", drawn)
    assert 'class="wide-only"' in wide and 'class="narrow-only"' in narrow
    for one, width in ((wide, timeline.WIDE), (narrow, timeline.NARROW)):
        places = [float(value) for value in re.findall(r' (?:x|x1|x2|cx)="([-\d.]+)"', one)]
        assert min(places) >= 0 and max(places) <= width
        assert one.count('class="save"') >= 8 and one.count('class="gap"') == 2 and one.count('class="number"') >= 1


STYLE = look.BASE + (ASSETS / "page.css").read_text(encoding="utf-8")


def test_every_shape_has_the_attributes_without_which_nothing_is_drawn(page_view: View) -> None:
    """https://developer.mozilla.org/en-US/docs/Web/SVG/Element"""
    needed = {
        "path": {"d"}, "rect": {"x", "y", "width", "height"}, "line": {"x1", "x2", "y1", "y2"}, "text": {"x", "y"},
        "circle": {"cx", "cy", "r"}, "polyline": {"points"}, "svg": {"viewBox"},
    }  # fmt: skip
    run = page_view.runs[0].record
    assert run is not None
    sign = Sign(t=run.saves[0].t, kind="x", text="a node")
    for picture in re.findall(r"<svg .*?</svg>", timeline.draw(run, now=NOW.timestamp(), node_signs=[sign])):
        shapes = list(ElementTree.fromstring(picture).iter())  # noqa: S314 (of our own)
        assert {"path", "rect", "line", "text"} <= {shape.tag.rpartition("}")[2] for shape in shapes}
        for shape in shapes:
            missing = needed.get(shape.tag.rpartition("}")[2], set()) - set(shape.attrib)
            assert not missing, ElementTree.tostring(shape)
            if shape.tag.rpartition("}")[2] in ("path", "rect", "line", "circle"):
                assert any(f".{name}" in STYLE for name in shape.get("class", "").split()), ElementTree.tostring(shape)
        lanes = {shape.get("class") for shape in shapes if shape.tag.endswith("polyline")}
        assert lanes == {"value", "rate"}, "two lines of one colour would be one"


def test_what_is_outside_of_the_axis_is_at_its_edge() -> None:
    axis = timeline.Axis(first=1000, last=2000, width=920)
    left, middle, right = (axis.x(t) for t in (1000, 1500, 2000))
    assert (axis.x(0), axis.x(99_999)) == (left, right)
    assert middle == pytest.approx((left + right) / 2)
    assert 0 < left < right < 920


def test_a_gap_is_where_no_step_was_done(page_view: View) -> None:
    run = page_view.runs[0].record
    assert run is not None
    axis = timeline.axis_of([run], width=920, now=NOW.timestamp())
    assert axis is not None
    low = [
        rate
        for t, rate in timeline.rates(run, axis)
        if any(
            interruption.stopped_t + 80 < t < (interruption.resumed_t or 0) - 80 for interruption in run.interruptions
        )
    ]
    high = [
        rate
        for t, rate in timeline.rates(run, axis)
        if all(
            not interruption.stopped_t - 80 < t < (interruption.resumed_t or 0) + 80
            for interruption in run.interruptions
        )
    ]
    assert low and max(rate or 0 for rate in low) == 0
    assert high[1:-1] and all(rate == pytest.approx(1 / 8, rel=0.05) for rate in high[1:-1])


def test_a_run_of_a_million_steps_is_a_small_picture() -> None:
    points = [(float(t), float(t % 7)) for t in range(1_000_000)]
    few = timeline.thinned([*points, (1e6, 99.0)])
    assert len(few) <= 420 and (1e6, 99.0) in few and few == sorted(few)


@pytest.mark.parametrize("span", [1, 40, 90, 600, 5000, 40_000, 200_000, 3_000_000])
def test_ticks_are_few_and_at_round_times(span: float) -> None:
    axis = timeline.Axis(first=NOW.timestamp() - span, last=NOW.timestamp(), width=920)
    labels = [text for _, text in axis.ticks()]
    assert 1 <= len(labels) <= 9 and len(set(labels)) == len(labels)


@pytest.mark.parametrize("relative", [False, True])
def test_every_tick_is_at_a_whole_part_of_the_clock(relative: bool) -> None:
    """Seconds, minutes, hours and days in parts that a reader counts in: nobody reads 601 s, or 7 h."""
    minute, hour, day = 60, 3600, 86400
    parts = {
        *(1, 2, 5, 10, 15, 30),
        *(minute * count for count in (1, 2, 5, 10, 15, 30)),
        *(hour * count for count in (1, 2, 3, 6, 12)),
        *(day * count for count in range(1, 30)),
    }
    steps = set()
    for span in (round(2 * 1.12**power) for power in range(125)):
        first = NOW.timestamp() - span if not relative else 0.0
        axis = timeline.Axis(first=first, last=first + span, width=920, seconds_from=0.0 if relative else None)
        at = [t for t, _ in axis.ticks()]
        steps |= {round(after - before) for before, after in itertools.pairwise(at)}
        assert all(t % (at[1] - at[0]) == 0 for t in at if len(at) > 1), span
    assert steps <= parts
    assert len(steps) > 18, "as fine as the room allows"


def test_interruptions_too_close_share_a_number(page_view: View) -> None:
    run = page_view.runs[0].record
    assert run is not None
    many = replace(run, interruptions=tuple(
        replace(run.interruptions[0], stopped_t=run.interruptions[0].stopped_t + n) for n in range(9)
    ), interrupted=9)  # fmt: skip
    drawn = timeline.draw(many, now=NOW.timestamp())
    assert drawn.count(">1–9<") == 2
    assert "aria-label" not in drawn and "9 interruptions" in drawn


def test_before_two_steps_there_is_no_picture() -> None:
    from hyperpod_ray.ops.journal.record import read

    assert timeline.draw(read("a"), now=0.0) == ""
