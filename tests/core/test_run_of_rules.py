"""Which rules run, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hyperpod_ray.core import checks
from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import Finding, Rule, error, warning
from tests.core.environment_files import plan

GOOD = plan()
SECTIONS = frozenset(type(GOOD.settings).model_fields)


def refuses(_: Any) -> Iterator[Finding]:
    yield error("ray", what="a", expected="b", fix="c")


def doubts(_: Any) -> Iterator[Finding]:
    yield warning("ray", what="a", expected="b", fix="c")


def of_a_repository(_: Any, repository: Repository) -> Iterator[Finding]:
    assert repository.siblings is not None
    yield from doubts(None)


def fails(failure: Exception) -> Callable[[Any], Iterator[Finding]]:
    def check(_: Any) -> Iterator[Finding]:
        raise failure
        yield

    return check


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The severities of what these rules find in a good file."""

    def run(*rules: Rule, valid: frozenset[str] = SECTIONS, evidence: Evidence | None = None) -> list[str]:
        monkeypatch.setattr(checks, "RULES", list(rules))
        return [finding.severity for finding in checks.run(GOOD, valid=valid, evidence=evidence)]

    return run


def of(check: Callable[[Any], Iterator[Finding]], *sections: str, **fields: Any) -> Rule:
    return Rule(check=check, shared=frozenset(sections), **fields)


def test_a_rule_runs_where_its_sections_are_valid(said: Callable[..., list[str]]) -> None:
    assert said(of(doubts, "ray"), of(refuses, "storage")) == ["warning", "error"]
    assert said(of(doubts, "ray"), of(refuses, "storage"), valid=SECTIONS - {"storage"}) == ["warning"]
    assert said(of(doubts, eks=frozenset({"teams"})), valid=SECTIONS - {"teams"}) == []


def test_a_rule_runs_at_its_stage_for_its_orchestrator_with_its_evidence(said: Callable[..., list[str]]) -> None:
    assert said(of(doubts, stage="deploy")) == []
    assert said(of(doubts, orchestrator="slurm")) == []
    assert said(of(doubts, orchestrator="eks")) == ["warning"]
    assert said(of(doubts, needs="account")) == []
    with_repository = Rule(check=of_a_repository, shared=frozenset(), needs="repository")
    assert said(with_repository) == []
    assert said(with_repository, evidence=Evidence(repository=Repository.around("test"))) == ["warning"]


def test_a_failure_is_hidden_where_another_rule_says_what_is_wrong(
    said: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = of(fails(KeyError("x")))
    assert said(broken, of(refuses)) == ["error"]
    assert said(broken, of(doubts), valid=SECTIONS - {"tags"}) == ["warning"], "a section that is refused says it"
    for rules in ([broken], [broken, of(doubts)]):
        with pytest.raises(KeyError):
            said(*rules)
    monkeypatch.setattr(checks, "FORGIVING", False)
    with pytest.raises(KeyError):
        said(broken, of(refuses))


def test_a_file_of_the_project_that_cannot_be_read_is_always_said(said: Callable[..., list[str]]) -> None:
    unreadable = ProjectError("charts.lock.yaml: conflict markers", expected="a lock file", fix="resolve them")
    with pytest.raises(ProjectError, match="conflict markers"):
        said(of(refuses), of(fails(unreadable)))
