"""docs/security/teams.md is what the manifests and the played attempts say."""

from __future__ import annotations

import re

import pytest

from docs import team_attacks
from tests.sandbox.kubernetes import test_hostile_team as played


def test_every_attempt_is_refused_by_something_that_the_page_names() -> None:
    text = team_attacks.page()
    rules = [line.split(" | ")[1] for line in text.splitlines() if re.match(r"\| team-(pods|queues) \|", line)]
    for name, (_, said) in {**played.JOBS, **played.PODS}.items():
        words = [part for part in said.split("|") if part != "PodSecurity"]
        if words:
            assert any(part in rule for part in words for rule in rules), name


@pytest.mark.parametrize("rule", [row[1] for row in team_attacks._rules(team_attacks.rendered())])
def test_every_rule_is_attacked(rule: str) -> None:
    """A rule that no attempt meets could be dropped without notice."""
    played_words = [part for _, said in {**played.JOBS, **played.PODS}.values() for part in said.split("|")]
    elsewhere = (
        "KubeRay gives its runs no labels", "only the KubeRay operator", "only the queue starts",
        "does not change while it runs", "as the queue counted it", "of what the queue admitted", "a Job in a team's",
    )  # fmt: skip
    assert any(words in rule for words in (*played_words, *elsewhere)), rule
