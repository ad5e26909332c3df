"""What every rule answers: a rule by its name, and where in the request the reason is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hyperpod_ray_rules import hyperpod
from hyperpod_ray_rules.refusal import Refusal, named
from tests.service_rules.cases import ACCOUNT, HYPERPOD, Case, cluster_request


def test_a_rule_is_found_by_its_name() -> None:
    def too_many(request: object) -> Iterator[Refusal]:
        yield Refusal(rule="too_many", message=f"{request}")

    rules = named([too_many])
    assert [refusal.rule for refusal in rules["too_many"](41)] == ["too_many"]


@pytest.mark.parametrize("case", HYPERPOD, ids=lambda case: case.rule)
def test_a_refusal_says_where_and_in_sentences_that_go_on(case: Case) -> None:
    where = hyperpod.Where(region="us-west-2", account=ACCOUNT)
    request = cluster_request(case.refused)
    for refusal in hyperpod.create_cluster(request, where):
        assert refusal.rule in hyperpod.RULES
        assert refusal.message.strip() == refusal.message != ""
        assert not refusal.expected.endswith("."), "it continues the sentence 'Expected …'"
        if refusal.index is not None:
            assert 0 <= refusal.index < len(request["InstanceGroups"])
