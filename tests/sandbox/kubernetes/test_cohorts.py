"""The admission stand-in against Kueue's own cases, and the story of two teams as decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox.kubernetes.kueue.cohorts import Cohorts, Queue, Workload, decide, settled

CASES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "cohort_cases.yaml").read_text())


def queues() -> list[Queue]:
    made = []
    for name, given in CASES["queues"].items():
        amounts: dict[str, Any] = {
            key: {"cpu": float(given[key])} for key in ("quota", "borrowing", "lending") if key in given
        }
        rules = {key: given[key] for key in ("within", "reclaim", "cohort") if key in given}
        made.append(Queue(name=name, **amounts, **rules))
    return made


def workload(name: str, given: list[Any], *, admitted: bool) -> Workload:
    queue, priority, cpus = given
    found = Workload(name=name, queue=queue, priority=priority, asks={"cpu": float(cpus)})
    return replace(found, admitted=1.0) if admitted else found


@pytest.mark.parametrize("name", CASES["cases"])
def test_kueues_own_cases(name: str) -> None:
    case = CASES["cases"][name]
    state = Cohorts(queues(), [workload(key, one, admitted=True) for key, one in case["admitted"].items()])
    incoming = workload("in", case["incoming"], admitted=False)
    assert sorted(victim.name for victim in state.victims(incoming)) == case["preempted"]


def teams(*, limit: float = 2.0) -> list[Queue]:
    """Two teams with two GPU nodes each, as environments/examples/teams.yaml has them."""
    return [Queue(name=team, quota={"node": 2.0}, borrowing={"node": limit}) for team in ("vision", "speech")]


def job(name: str, team: str, nodes: float, *, created: float, priority: int = 0) -> Workload:
    return Workload(name=name, queue=team, asks={"node": nodes}, created=created, priority=priority)


def admitted(found: list[Workload]) -> set[str]:
    return {one.name for one in found if one.admitted is not None}


def test_two_teams_borrow_preempt_and_resume() -> None:
    a, b = job("a", "vision", 4.0, created=1), job("b", "speech", 2.0, created=2)
    now = settled(teams(), [a])
    assert admitted(now) == {"a"}, "A borrows what speech leaves idle"
    decision = decide(teams(), [*now, b])
    assert (decision.preempt, decision.preemptor) == (("a",), "b"), "speech takes its own back"
    now = settled(teams(), [*now, b])
    assert admitted(now) == {"b"}, "A waits: it needs all four"
    assert decide(teams(), now).preempt == (), "nobody who has his own is preempted"
    now = settled(teams(), [one for one in now if one.name != "b"])
    assert admitted(now) == {"a"}, "B has ended: A is admitted again"


def test_a_job_beyond_the_limit_is_never_admitted() -> None:
    assert admitted(settled(teams(limit=1.0), [job("a", "vision", 4.0, created=1)])) == set()


def test_priority_comes_before_age_in_a_queue() -> None:
    late = job("late", "vision", 2.0, created=9, priority=5)
    assert decide(teams(limit=0.0), [job("early", "vision", 2.0, created=1), late]).admit == "late"


def three(*jobs: Workload) -> list[Workload]:
    """Admitted in this order; each of three queues is sure of two nodes."""
    return [replace(one, admitted=float(turn)) for turn, one in enumerate(jobs, 1)]


THREE = [Queue(name=name, quota={"node": 2.0}) for name in "abc"]
WANTS = job("in", "a", 2.0, created=9)


@pytest.mark.parametrize(
    ("admitted", "preempted"),
    [
        # c borrows what is a's; b has no more than its own, and is newer
        (three(job("c1", "c", 4.0, created=1), job("b1", "b", 2.0, created=2)), ("c1",)),
        # of two that borrow, the newer
        (
            three(job("b1", "b", 2.0, created=1), job("b2", "b", 2.0, created=2), job("c1", "c", 2.0, created=3)),
            ("b2",),
        ),
        # of a queue that has no more than its own by now, nobody else goes
        (
            three(*(job(f"c{n}", "c", 1.0, created=n) for n in (1, 2, 3)),
                  *(job(f"b{n}", "b", 1.0, created=n) for n in (4, 5, 6))),
            ("b6", "c3"),
        ),
    ],
)  # fmt: skip
def test_who_goes_for_who_takes_his_own_back(admitted: list[Workload], preempted: tuple[str, ...]) -> None:
    assert decide(THREE, [*admitted, WANTS]).preempt == preempted


@pytest.mark.parametrize(("within", "preempted"), [("LowerPriority", ("low",)), ("Never", ())])
def test_a_team_that_never_preempts_its_own(within: Any, preempted: tuple[str, ...]) -> None:
    queue = Queue(name="a", quota={"node": 2.0}, within=within)
    low = replace(job("low", "a", 2.0, created=1), admitted=1.0)
    assert decide([queue], [low, job("high", "a", 2.0, created=2, priority=5)]).preempt == preempted


@pytest.mark.parametrize(
    ("within", "created", "preempted"),
    [("LowerOrNewerEqualPriority", 1, ("equal",)), ("LowerOrNewerEqualPriority", 3, ()), ("LowerPriority", 1, ())],
)
def test_of_the_same_priority_the_newer_goes_where_the_queue_says_so(
    within: Any, created: float, preempted: tuple[str, ...]
) -> None:
    queue = Queue(name="a", quota={"node": 2.0}, within=within)
    equal = replace(job("equal", "a", 2.0, created=2), admitted=1.0)
    assert decide([queue], [equal, job("in", "a", 2.0, created=created)]).preempt == preempted


def test_who_needs_not_borrow_comes_first() -> None:
    waits = [job("borrows", "vision", 3.0, created=1), job("own", "speech", 2.0, created=2)]
    assert decide(teams(), waits).admit == "own"


@pytest.mark.parametrize(("asks", "admits"), [(3.0, "in"), (4.0, "")])
def test_what_a_team_keeps_for_itself_is_not_lent(asks: float, admits: str) -> None:
    keeps = [Queue(name="a", quota={"node": 2.0}), Queue(name="b", quota={"node": 2.0}, lending={"node": 1.0})]
    assert decide(keeps, [job("in", "a", asks, created=1)]).admit == admits


@pytest.mark.parametrize(("strict", "admits"), [(False, "small"), (True, "")])
def test_a_job_that_does_not_fit_stops_those_behind_it_in_a_strict_queue_alone(*, strict: bool, admits: str) -> None:
    """Kueue's default is BestEffortFIFO, under which small jobs can keep a large one waiting.

    https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy
    """
    queue = Queue(name="a", quota={"node": 4.0}, strict=strict)
    runs = replace(job("runs", "a", 2.0, created=0), admitted=1.0)
    waits = [job("large", "a", 3.0, created=1), job("small", "a", 2.0, created=2)]
    assert decide([queue], [runs, *waits]).admit == admits


def test_small_jobs_starve_a_large_one_until_it_has_a_priority() -> None:
    queue = Queue(name="a", quota={"node": 4.0})
    runs = replace(job("runs", "a", 2.0, created=0), admitted=1.0)
    large, small = job("large", "a", 3.0, created=1), job("small", "a", 2.0, created=2)
    assert decide([queue], [runs, large, small]).admit == "small"
    decision = decide([queue], [runs, replace(large, priority=9), small])
    assert (decision.preempt, decision.preemptor) == (("runs",), "large")


def test_what_goes_already_is_not_preempted_a_second_time() -> None:
    queue = Queue(name="a", quota={"node": 4.0})
    goes = replace(job("goes", "a", 2.0, created=0), admitted=1.0, evicted=True)
    stays = replace(job("stays", "a", 2.0, created=1), admitted=2.0)
    decision = decide([queue], [goes, stays, job("high", "a", 2.0, created=2, priority=5)])
    assert decision.preempt == ("goes",)
