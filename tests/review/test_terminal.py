from __future__ import annotations

from hyperpod_ray.review.report.markdown import render
from hyperpod_ray.review.report.terminal import render as terminal
from hyperpod_ray.review.review import review
from tests.review.scenario import Assemble, Side


def test_a_harmless_tag_is_five_lines(assemble: Assemble) -> None:
    made = review(assemble("prod", Side()), assemble("prod", Side(set={"tags.stage": "production"})), only="prod")
    for text in (render(made), terminal(made)):
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= 5 + (text == terminal(made)), text
        assert "tags: stage prod → production" in text
    assert len(render(made).encode()) < 600
