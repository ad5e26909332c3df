"""How often copies are made, on made-up time: the average over a period of copies keeps its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.spares.pacing import MOST_STRETCH, SETTLED, Pacing

SHARE = Settings().memory_overhead
STEP_S = 1.0


@dataclass
class Run:
    """A rank that trains and copies; what a copy costs is given by its number.

    Args:
        held_s: So long the loop waits for the copy.
        longer_s: So much longer the steps take that run beside it, together.
        stall_s: What of that the GPU says of itself.
        exchange_s: So long the copy is on its way, beside one step after the other.
        share: Of the steps.
        save_s: So long the loop saves after each copy.
    """

    held_s: Callable[[int], float] = lambda _: 0.0
    longer_s: Callable[[int], float] = lambda _: 0.0
    stall_s: float = 0.0
    exchange_s: float = 0.0
    share: float = SHARE
    save_s: float = 0.0
    clock_s: float = 0.0
    copies: list[tuple[int, float]] = field(default_factory=list)
    """Of each copy its step, and the time."""

    def __post_init__(self) -> None:
        self.pacing = Pacing(share=self.share)

    def train(self, steps: int) -> None:
        asked, under_way_s, longer_s = 0, 0.0, 0.0
        for step in range(1, steps + 1):
            beside = max(1.0, self.exchange_s / STEP_S)
            self.clock_s += STEP_S + longer_s / beside
            under_way_s -= STEP_S
            if under_way_s <= 0:
                longer_s = 0.0
            self.pacing.stepped(self.clock_s, under_way=under_way_s > 0)
            if step % self.pacing.stretch:
                continue
            number = len(self.copies)
            if asked:
                self.pacing.settled(exchange_s=self.exchange_s, stall_s=self.stall_s)
                self.pacing.stretch = asked
            self.clock_s += self.held_s(number)
            self.pacing.copied(self.clock_s, held_s=self.held_s(number))
            asked = self.pacing.ask()
            under_way_s, longer_s = max(self.exchange_s, STEP_S / 2), self.longer_s(number)
            self.copies.append((step, self.clock_s))
            if self.save_s:
                self.clock_s += self.save_s
                self.pacing.left(self.clock_s)

    @property
    def overhead(self) -> float:
        """Of the newest period, from one copy to the next: its time beyond that of its steps."""
        (before, before_s), (after, after_s) = self.copies[-2:]
        steps_s = (after - before) * STEP_S
        return (after_s - before_s - steps_s) / steps_s


@pytest.mark.parametrize(
    ("run", "stretch"),
    [
        # the copy of 20 GB leaves the card within one step, which takes longer for it
        (Run(held_s=lambda _: 0.1, longer_s=lambda _: 0.43), 18),
        # the loop waits for nothing, but for what each copy needs to begin
        (Run(held_s=lambda _: 0.03, longer_s=lambda _: 0.4), 15),
        # the first ones take memory and pin it
        (Run(held_s=lambda number: 5.0 if number < 4 else 0.29), 10),
        # what the GPU waits is what its step takes longer: not twice
        (Run(held_s=lambda _: 0.03, longer_s=lambda _: 0.3, stall_s=0.3), 11),
        # a loop that runs ahead of its GPU does not see it wait
        (Run(held_s=lambda _: 0.03, stall_s=0.3), 11),
        # four steps run beside each, and all of them take a little longer
        (Run(held_s=lambda _: 0.05, longer_s=lambda _: 0.22, exchange_s=4.0), 9),
        # one copy meets a save
        (Run(held_s=lambda number: 6.0 if number == 12 else 0.1, longer_s=lambda number: 9.0 * (number == 14)), 4),
        (Run(held_s=lambda _: 0.01), 1),
        (Run(held_s=lambda _: 9.0), MOST_STRETCH),
    ],
)
def test_copies_cost_their_share_of_a_period(run: Run, stretch: int) -> None:
    run.train(SETTLED + 12 * MOST_STRETCH)
    assert run.pacing.stretch == stretch
    if stretch < MOST_STRETCH:
        assert run.overhead <= SHARE + 1e-9


def test_a_save_beside_each_copy_is_none_of_its_cost() -> None:
    run = Run(held_s=lambda _: 0.29, save_s=5.0)
    run.train(300)
    assert run.pacing.stretch == 10


def test_copies_that_nobody_notices_are_never_skipped() -> None:
    """A few milliseconds: at most one step is done again, from the first one on."""
    run = Run(held_s=lambda _: 0.003, longer_s=lambda _: 0.004, exchange_s=0.01)
    run.train(200)
    assert [step for step, _ in run.copies] == list(range(1, 201))


def test_a_few_copies_are_skipped_to_see_steps_without_one() -> None:
    """A copy that the loop notices, and that costs nothing beside it: after each step again, once that is known."""
    run = Run(held_s=lambda _: 0.02, exchange_s=0.1)
    run.train(200)
    copied = [step for step, _ in run.copies]
    assert set(range(1, 201)) - set(copied) == {11, 13, 15, 17}
    assert run.pacing.stretch == 1


def test_without_a_share_no_copy_is_skipped() -> None:
    run = Run(held_s=lambda _: 0.5, longer_s=lambda _: 0.5, share=0.0)
    run.train(50)
    assert [step for step, _ in run.copies] == list(range(1, 51))


def test_a_later_generation_copies_as_seldom_as_the_one_before() -> None:
    """Each of its first copies would hold the run up again; those of a newcomer take memory too."""
    run = Run(held_s=lambda number: 3.0 if number < 2 else 0.29)
    run.pacing.take_up(10)
    run.train(200)
    assert [step for step, _ in run.copies] == list(range(10, 201, 10))


def test_a_generation_that_follows_quick_copies_begins_with_each_step() -> None:
    run = Run()
    run.pacing.take_up(1)
    run.train(20)
    assert len(run.copies) == 20
    run.share = run.pacing.share = 0.0
    run.pacing.take_up(10)
    assert run.pacing.stretch == 1, "asked for each step, whatever it costs"
