"""The catalogue: every scenario's verdict, rows and remarks."""

from __future__ import annotations

import json
import re

import pytest

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.report.markdown import render
from hyperpod_ray.review.review import Review, review
from tests.review.said import assert_counted
from tests.review.scenario import PROJECT, Assemble, Scenario, Side, scenarios, settings_text

ALL = scenarios()
FOLDED = 6_000
"""Bytes of a report that are read in thirty seconds."""


def run(scenario: Scenario, assemble: Assemble) -> Review:
    return review(
        assemble(scenario.environment, scenario.base),
        assemble(scenario.environment, scenario.head),
        only=scenario.environment,
    )


def edited_alone(scenario: Scenario) -> bool:
    """Whether both sides are edits of the shipped environment's assembly: it needs no synthesis of its own."""
    shipped = settings_text(scenario.environment, Side())
    sides = (scenario.base, scenario.head)
    return all(settings_text(scenario.environment, side) == shipped and not side.files for side in sides)


def expected(scenario: Scenario) -> set[object]:
    """What a review must find: its verdict, each row's effect and code, each remark's direction."""
    rows = {(row.get("effect"), row.get("code")) for row in scenario.rows}
    return {scenario.verdict, *rows, *(remark.get("direction") for remark in scenario.remarks)}


def chosen() -> set[str]:
    """Scenarios that `make test` judges: those without a synthesis, those by which a break of `tests/mutants/` was
    noticed, and of the others as few as show each expectation.

    CI judges the others by `make test-deploys`: a synthesis takes longer than all else of a scenario.
    """
    verdicts = json.loads((PROJECT / "tests" / "mutants" / "results.json").read_text(encoding="utf-8"))
    noticing = {verdict["by"].partition("::test_scenario[")[2].removesuffix("]") for verdict in verdicts.values()}
    chosen_ids = {scenario.id for scenario in ALL if edited_alone(scenario) or scenario.id in noticing}
    shown = set[object]().union(*(expected(scenario) for scenario in ALL if scenario.id in chosen_ids))
    for scenario in sorted(ALL, key=lambda scenario: -len(expected(scenario))):
        if not expected(scenario) <= shown:
            chosen_ids.add(scenario.id)
            shown |= expected(scenario)
    return chosen_ids


FAST = chosen()
CASES = [
    pytest.param(scenario, id=scenario.id, marks=[] if scenario.id in FAST else [pytest.mark.slow]) for scenario in ALL
]


def test_make_test_shows_each_expectation_once() -> None:
    fast = [scenario for scenario in ALL if scenario.id in FAST]
    assert set().union(*map(expected, ALL)) == set().union(*map(expected, fast))
    assert len(fast) < 0.6 * len(ALL)


@pytest.mark.parametrize("scenario", CASES)
def test_scenario(scenario: Scenario, assemble: Assemble) -> None:
    made = run(scenario, assemble)
    (environment,) = made.environments
    said = "\n".join(
        f"  {row.effect.code} {row.code}: {row.what}: {row.change}: {row.consequence}" for row in environment.rows
    )
    said += "\n" + "\n".join(f"  {remark.direction}: {remark.what}: {remark.detail}" for remark in environment.remarks)
    assert ("no-change" if made.empty else made.effect.code) == scenario.verdict, said
    for wanted in scenario.rows:
        assert any(_matches(wanted, row.__dict__) for row in environment.rows), f"no row is {wanted}; there are\n{said}"
    for wanted in scenario.remarks:
        assert any(_matches(wanted, remark.__dict__) for remark in environment.remarks), (
            f"no remark is {wanted}; there are\n{said}"
        )
    assert not {row.code for row in environment.rows} & set(scenario.absent), said
    if scenario.destroys:
        assert made.effect > Effect.SAFE, said
    if scenario.id in FAST:
        assert_counted(scenario.id, environment)
    text = render(made)
    assert text.count("<details>") == len(re.findall(r"^</details>$", text, flags=re.MULTILINE)), text
    assert len(folded(text).encode()) <= FOLDED, folded(text)
    if made.effect > Effect.SAFE:
        assert re.search(r"\(\d", text.splitlines()[1]), "the first line counts what is lost"


def folded(report: str) -> str:
    """What is seen of a report before anything is opened."""
    return re.sub(r"(<details><summary>.*?</summary>).*?</details>", r"\1", report, flags=re.DOTALL)


def _matches(wanted: dict[str, str], found: dict[str, object]) -> bool:
    for key, value in wanted.items():
        got = found[key]
        if key == "effect":
            if not isinstance(got, Effect) or got.code != value:
                return False
        elif key in {"code", "direction"}:
            if got != value:
                return False
        elif str(value) not in str(got):
            return False
    return True


def test_the_catalogue_is_large_and_its_names_are_unique() -> None:
    assert len(ALL) >= 160
    assert len({scenario.id for scenario in ALL}) == len(ALL)


def test_nothing_that_destroys_is_expected_to_be_safe() -> None:
    wrong = [scenario.id for scenario in ALL if scenario.destroys and scenario.verdict in {"safe", "no-change"}]
    assert wrong == []


def test_every_verdict_is_in_the_catalogue() -> None:
    assert {effect.code for effect in Effect} <= {scenario.verdict for scenario in ALL}
