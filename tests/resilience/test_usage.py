"""Whether a value of a loop is state, or only shown."""

from __future__ import annotations

import linecache
import types
from typing import Any

import pytest

from hyperpod_ray_training.usage import Usage

ASIDE = """
def step_of(running):
    return running * 2
class Meter:
    def __init__(self):
        self.total, self.rate = 0.0, 1.0
        self.history = []
    def __str__(self):
        return f"{self.total}"
    def scale(self):
        return self.rate
"""
LOOP = """
def loop(training, optimizer, loss, log, meter, group):
    running, history, table = 0.0, [], {}
    for epoch in training.epochs(3):
        for number, x in enumerate(training.batches(x)):
            here()
            %s
    return history
"""


def usage_of(line: str) -> Usage:
    file = f"/nowhere/{abs(hash(line))}.py"
    source = ASIDE + LOOP % line
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), namespace)  # noqa: S102 - this test's own source
    frame = types.SimpleNamespace(f_code=namespace["loop"].__code__)
    return Usage([frame], lambda _: False)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "line",
    [
        "running += loss.item()",
        "print(running / 3)",
        "log.info('%s', sum(history[-7:]) / 7 + running)",
        "history.append(running)",
        "table['running'] = min(running, 3.0); print(table)",
        "if running > 3: print('high'); running = 0.0",
        "best = max(running, 1.0); print(f'{best:.3f}')",
        "training.finished(number, loss=running)",
        "bar = tqdm(); bar.set_postfix(loss=running)",
    ],
)
def test_what_is_printed_logged_or_added_up_is_only_shown(line: str) -> None:
    assert usage_of(line).only_shown("running"), line


@pytest.mark.parametrize(
    "line",
    [
        "(loss * running).backward()",
        "total = loss * running; total.backward()",
        "group['lr'] = 0.1 / (1 + running)",
        "optimizer.param_groups[0]['lr'] = running",
        "for other in optimizer.param_groups: other['lr'] = running",
        "if running > 3: break",
        "if running > 3: optimizer.zero_grad()",
        "step_of(running)",
        "x = [running]; optimizer.load(x)",
        "history.append(running); optimizer.step(history)",
        "meter.rate = running",
        "random.shuffle(running)",
        "while running: optimizer.step()",
        "assert running < 3",
        "rate = lambda: running",
    ],
)
def test_what_another_line_reads_is_state(line: str) -> None:
    assert not usage_of(line).only_shown("running"), line


def test_attributes_are_looked_for_in_every_file_of_the_users() -> None:
    usage = usage_of("meter.total += 1")
    assert usage.only_shown("meter.total"), "`__str__` alone reads it"
    assert not usage.only_shown("meter.rate"), "what a method returns may go anywhere"
    assert not usage.only_shown("trainer.meters[0].rate")
    assert usage.only_shown("trainer.meters['a.b'].total")


def test_what_the_run_counts_is_told_from_what_enumerate_counts() -> None:
    assert usage_of("group['lr'] = epoch").from_run("epoch")
    assert not usage_of("group['lr'] = epoch").from_run("number")
    assert usage_of("if number % 4 == 3: optimizer.step()").counted_again() == ["number"]
    assert usage_of("if number % 4 == 3: print(number)").counted_again() == []


def test_what_the_source_does_not_show_is_state() -> None:
    frame = types.SimpleNamespace(f_code=compile("x = 1", "<no file>", "exec"))
    assert not Usage([frame], lambda _: False).only_shown("x")  # type: ignore[list-item]
