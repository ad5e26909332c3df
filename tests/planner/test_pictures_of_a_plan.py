"""Pictures that a plan has in its page alone: here that of a deploy, of which commands need a synthesis."""

from __future__ import annotations

import re

import matplotlib

from hyperpod_ray.planner import pictures
from tests.planner import said_answers


def test_the_deploys_picture_names_each_step_in_order() -> None:
    report = said_answers.report(said_answers.QUESTIONS[said_answers.FIRST])
    with matplotlib.rc_context(pictures.SETTINGS):
        drawing = pictures._deploy(report)
    assert drawing.startswith("<svg")
    words = re.findall(r">([^<>]+)</text>", drawing)
    steps = [word for word in words if word.startswith("create") or word == "GPU nodes take work"]
    assert steps == ["create cluster", "create file system", "GPU nodes take work"]
    assert "minutes from the start of the deploy; lines: low to high" in words


def test_a_long_title_keeps_its_beginning_and_its_end() -> None:
    assert pictures._short("x" * 44) == "x" * 44
    short = pictures._short("create Network/" + "y" * 40 + "/NatGateway")
    assert (len(short), short[:6], short[-10:]) == (43, "create", "NatGateway")
