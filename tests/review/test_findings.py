from __future__ import annotations

import pytest

from hyperpod_ray.review.findings import Effect, Remark, Row, first_few
from hyperpod_ray.review.review import EnvironmentReview, Review, fails, unaccepted


def of(*effects: Effect) -> Review:
    rows = [Row(effect=effect, code="x", what="x", change="x", consequence="x") for effect in effects]
    remarks = [Remark(direction="switched off", what="x", detail="x")] if Effect.WEAKENS in effects else []
    environment = EnvironmentReview(name="env", changes=None, rows=rows, remarks=remarks)
    return Review(environments=[environment], base_name="base", head_name="head")


SAFE, WEAKENS, INTERRUPTS, REJECTED, NODES, DATA = Effect


@pytest.mark.parametrize(
    ("effects", "accepted", "refused"),
    [
        ((SAFE,), (), []),
        ((WEAKENS,), (), [WEAKENS]),
        ((WEAKENS,), (WEAKENS,), []),
        ((WEAKENS, INTERRUPTS), (WEAKENS,), [INTERRUPTS]),
        ((WEAKENS, INTERRUPTS), (INTERRUPTS,), []),
        ((DATA, NODES), (NODES,), [DATA]),
        ((DATA, NODES, SAFE), (SAFE,), [DATA, NODES]),
        # what a service refuses is no degree of loss
        ((REJECTED,), (DATA,), [REJECTED]),
        ((REJECTED,), (REJECTED,), []),
        ((REJECTED, WEAKENS), (REJECTED,), [WEAKENS]),
        ((REJECTED, INTERRUPTS), (REJECTED, NODES), []),
    ],
)
def test_what_a_deploy_accepts(
    effects: tuple[Effect, ...], accepted: tuple[Effect, ...], refused: list[Effect]
) -> None:
    assert unaccepted(of(*effects), accepted) == refused


@pytest.mark.parametrize(
    ("limit", "begins"),
    [
        ("weakens", WEAKENS),
        ("interrupts", INTERRUPTS),
        ("rejected", REJECTED),
        ("loses-nodes", NODES),
        ("loses-data", DATA),
    ],
)
def test_where_a_limit_begins(limit: str, begins: Effect) -> None:
    assert [effect for effect in Effect if fails(of(effect), limit)] == list(Effect)[begins:]


@pytest.mark.parametrize(
    ("limit", "effects", "ends"),
    [
        ("never", (DATA,), False),
        ("any-rejected", (REJECTED, DATA), True),
        ("any-rejected", (DATA,), False),
        ("any-weakened", (WEAKENS, DATA), True),
        ("any-weakened", (INTERRUPTS,), False),
        ("any-change", (SAFE,), True),
    ],
)
def test_limits_that_are_no_degree(limit: str, effects: tuple[Effect, ...], ends: bool) -> None:
    assert fails(of(*effects), limit) is ends


def test_the_words_and_codes_of_effects() -> None:
    """What people read in the first line, and what `--fail-on` and other programs take."""
    assert [(effect.code, effect.words) for effect in Effect] == [
        ("safe", "safe"),
        ("weakens", "weakens security, recovery or alarms"),
        ("interrupts", "interrupts training"),
        ("rejected", "will be rejected by the service"),
        ("loses-nodes", "loses nodes"),
        ("loses-data", "loses data"),
    ]
    assert [Effect.of(effect.code) for effect in Effect] == list(Effect)
    with pytest.raises(
        ValueError, match="got effect 'safer'; allowed are safe, weakens, interrupts, rejected, loses-nodes"
    ):
        Effect.of("safer")


@pytest.mark.parametrize(
    ("count", "words"), [(0, ""), (1, "a"), (3, "a, b, c"), (4, "a, b, c and 1 more"), (5, "a, b, c and 2 more")]
)
def test_of_many_names_the_first_few_are_said(count: int, words: str) -> None:
    assert first_few("abcde"[:count], most=3) == words
    assert first_few(list("abcde"[:count]), most=3, between="; ") == words.replace(", ", "; ").replace(" and", "; and")
