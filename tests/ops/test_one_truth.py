"""Status, page, cost, runs and rehearsals say the same of the same run, whatever its journal is like.

A `Story` writes a journal and adds up by itself what the run's time was spent on: the reader is not asked for that.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops.in_ray import history as sent
from hyperpod_ray.ops.in_ray import reports
from hyperpod_ray.ops.in_ray import runs as in_ray_runs
from hyperpod_ray.ops.in_ray.history import SHARES, History
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.journal.record import record_of
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.money import spending
from hyperpod_ray.ops.observe.snapshot import (
    Job,
)
from hyperpod_ray.ops.observe.training import run_of
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.run_list import Run as RunList
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.runs import listing
from hyperpod_ray.ops.status import run_data
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web import training as training_page
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.pricing import price_file
from hyperpod_ray_sandbox.rehearsal import web
from hyperpod_ray_training import history
from hyperpod_ray_training import journal as writer
from tests.support import pages

BEGIN = 1_790_000_000.0
JOB = Job(id="job-1", state="RUNNING", cluster="ray", namespace="ray")


class Story:
    """A journal, and what its author knows of it."""

    def __init__(self, *, world: int = 16) -> None:
        self.t, self.step, self.world = BEGIN, 0, world
        self.lines: list[bytes] = []
        self.spent = dict.fromkeys(SHARES, 0.0)
        self.lost: dict[str, float] = {}
        self.cause = "before the first step"
        """Why no steps are done, or why they are done again."""
        self.interruptions, self.highest = 0, 0
        self.state = "running"
        self.after = 0.0
        """Seconds from the newest line until somebody looks."""

    def put(self, kind: str, **fields: Any) -> Story:
        self.lines.append(json.dumps({"t": round(self.t, 3), "kind": kind, **fields}).encode() + b"\n")
        return self

    def noise(self, *lines: bytes) -> Story:
        self.lines += lines
        return self

    def passes(self, seconds: float, share: str) -> Story:
        self.t += seconds
        return self.counts(seconds, share)

    def counts(self, seconds: float, share: str) -> Story:
        self.spent[share] += seconds
        if share != "training" and seconds:
            cause = "saves" if share == "saving" else self.cause
            self.lost[cause] = self.lost.get(cause, 0.0) + seconds
        return self

    def begins(self, *, waits: float = 20.0, starts: float = 40.0) -> Story:
        """A driver starts, its workers come, and the first step is done."""
        self.put("start", role="driver", pid=1).passes(waits, "waiting")
        self.put("start", role="worker", world=self.world, rank=0)
        if self.step:
            self.put("restore", step=self.step, path="/fsx/runs/a/step", seconds=1.0, world=self.world)
        return self.passes(starts, "recovering").steps(1, every=0.0)

    def steps(self, count: int, *, every: float = 1.0, stride: int = 1) -> Story:
        for _ in range(count):
            self.step += stride
            again = min(stride, max(0, self.highest - (self.step - stride))) / stride
            self.t += every
            self.counts(every * again, "redone").counts(every * (1 - again), "training")
            self.highest = max(self.highest, self.step)
            self.put("step", step=self.step, loss=10 / (self.step + 1), world=self.world)
        return self

    def saves(self, stall: float = 2.0) -> Story:
        self.passes(stall, "saving")
        return self.put("save", step=self.step, seconds=9.0, stall_s=stall, reason="interval")

    def loses(self, *, seconds: float = 120.0, back: int = 5, memory: bool = False) -> Story:
        """A rank is lost, and training continues some steps before."""
        self.put("lost", rank=3, node="10.0.0.9", message="connection closed")
        self.cause = "lost ranks"
        self.passes(seconds, "recovering")
        self.step -= back
        self.put("restore", step=self.step, path="memory" if memory else "/fsx/runs/a/step", world=self.world)
        self.interruptions += 1
        return self.steps(1, every=0.0)

    def submitted_again(self, *, idle: float) -> Story:
        self.cause = "submitted again"
        self.passes(idle, "idle").interruptions += 1
        return self.begins()

    def done(self, waits: float = 3.0) -> Story:
        self.passes(waits, "saving").put("done", step=self.step, world=self.world).state = "done"
        return self

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.t + self.after, UTC)

    @property
    def progress(self) -> dict[str, Any]:
        return {
            "version": 1, "name": "a", "state": self.state, "t": self.t, "last_step": self.step, "last_step_t": self.t,
            "world_size": self.world, "total_steps": 10**7, "metrics": {"loss": 10 / (self.step + 1)}, "device": "cuda",
        }  # fmt: skip


def resized() -> Story:
    story = Story(world=16).begins().steps(50).saves()
    story.cause = "lost ranks"
    story.put("lost", rank=9).passes(60, "recovering").world = 8
    story.put("restore", step=story.step, path="/x/step", world=8).put(
        "resize", step=story.step, world=8, world_before=16
    )
    story.interruptions += 1
    return story.steps(1, every=0.0).steps(80, every=2.0)


def standing_still() -> Story:
    story = Story().begins().steps(30)
    story.put("error", rank=1, message="ActorDiedError: gone").state = "recovering"
    story.cause = "errors"
    story.counts(300, "recovering")
    story.after, story.interruptions = 300, 1
    return story


def clock_set_back() -> Story:
    story = Story().begins().steps(50)
    story.t -= 3600
    return story.steps(50, every=0.0).steps(50)


def clock_set_forward() -> Story:
    """It cannot be told from a step that took an hour."""
    return Story().begins().steps(50).steps(1, every=3600.0).steps(50)


def saves_in_the_background() -> Story:
    """What a save cost lies in the steps before its line."""
    story = Story().begins()
    for _ in range(5):
        story.steps(20).put("save", step=story.step, seconds=9.0, stall_s=1.5, reason="interval")
        story.counts(-1.5, "training").counts(1.5, "saving")
    return story.steps(20)


def another_nodes_clock() -> Story:
    story = Story().begins()
    for behind in (5.0, 30.0, 59.0):
        story.steps(20)
        story.noise(json.dumps({"t": story.t - behind, "kind": "spare", "node": "b"}).encode() + b"\n")
    return story.steps(20)


def long_run(steps: int) -> Story:
    """A hundred checkpoints and 67 interruptions: more than a summary keeps of each."""
    story = Story()
    story.begins()
    for part in range(100):
        story.steps(steps // 100 - 1).saves()
        if part % 3 != 1:
            story.loses(back=7)
    return story


def torn(story: Story) -> Story:
    """Each fifth of the lines that others do not need was cut off by a kill, and the next line goes on behind it."""
    half = b'{"t": 1790000040.5, "kind": "save", "st'
    for place in (len(story.lines) // 2, len(story.lines) // 4, 3):
        story.lines.insert(place, half)
    return story.noise(b'{"t": 1790000999.0, "kin')


STRAY = [
    b"\n", b"null\n", b"[]\n", b"7\n", b"not JSON\n", b"\xff\xfe\x00\n", b"\0" * 4096 + b"\n",
    b"[" * 100_000 + b"\n", b'{"a":' * 50_000 + b"\n", b"x" * (1 << 20) + b"\n",
    b'{"t": true, "kind": "step", "step": 1}\n', b'{"t": 1e999, "kind": "step", "step": 1}\n',
    b'{"t": -5, "kind": "step", "step": 1}\n', b'{"t": 1790000050, "kind": "step", "step": -1}\n',
    b'{"t": 1790000050, "kind": "step", "step": "one"}\n', b'{"t": 1790000050, "kind": "stop", "step": 7}\n',
    b'{"t": 1790000050, "kind": ["step"], "step": 7}\n',
    b'{"t": 1' + b"0" * 400 + b', "kind": "step", "step": 1}\n',
    b'{"t": 1790000050, "kind": "save", "step": 1' + b"0" * 400 + b"}\n",
]  # fmt: skip


def stray(story: Story) -> Story:
    for line in STRAY:
        story.lines.insert(random.Random(len(line)).randrange(2, len(story.lines)), line)
    return story


def far_off(story: Story) -> Story:
    """Lines of a right shape and of no sense: far in time, and far in steps."""
    for line in (
        b'{"t": 9e10, "kind": "step", "step": 51, "loss": 1}\n', b'{"t": 3, "kind": "step", "step": 51, "loss": 1}\n',
        b'{"t": 9e10, "kind": "spare"}\n', b'{"t": 0, "kind": "generation"}\n',
    ):  # fmt: skip
        story.lines.insert(len(story.lines) // 2, line)
    t = json.loads(story.lines[40])["t"]
    story.lines.insert(41, json.dumps({"t": t, "kind": "step", "step": 10**15, "loss": 1.0}).encode() + b"\n")
    return story


def escapes() -> Story:
    story = Story().begins().steps(10)
    story.put("lost", rank="\x1b]0;owned\x07", node="\x1b[31m", message="\x1b[2Jcleared\u202e\x9b31m")
    story.cause = "lost ranks"
    story.passes(10, "recovering").put("restore", step=story.step, path="\x1b[31m/x").interruptions += 1
    return story.steps(1, every=0.0).steps(5)


def other_line_ends() -> Story:
    """A journal that went through an editor of Windows: its ends of lines, its mark, and spaces."""
    story = Story().begins().steps(60).saves().loses(back=7).steps(30)
    story.lines = [b"  " + line.replace(b"\n", b" \r\n") for line in story.lines]
    return story


def other_keys() -> Story:
    """Another writer: keys in another order, more of them, nested ones, and numbers as whole seconds."""
    story = Story().begins(waits=30, starts=10).steps(40, every=2.0).loses(seconds=50, back=10).steps(70, every=2.0)
    for place, line in enumerate(story.lines):
        fields = {**json.loads(line), "host": {"name": "größe", "gpus": [1, 2]}, "t": int(json.loads(line)["t"])}
        story.lines[place] = json.dumps(dict(sorted(fields.items(), reverse=True)), ensure_ascii=False).encode() + b"\n"
    return story


def all_at_once() -> Story:
    """Submitted again on fewer nodes after a loss, with a torn line and a save on the way."""
    story = Story(world=32).begins(waits=600).steps(120, every=3.0).saves(4).loses(seconds=90, back=20)
    story.noise(b'{"t": 17900').steps(15, every=3.0)
    story.world = 24
    story.submitted_again(idle=1800).steps(200, every=4.0).saves(5)
    return story.loses(seconds=300, back=0, memory=True).steps(20, every=4.0).done()


STORIES: dict[str, Callable[[], Story]] = {
    "one step": lambda: Story().begins(),
    "undisturbed": lambda: Story().begins().steps(200).saves().steps(100).done(),
    "half an hour lost": lambda: Story().begins().steps(1000).loses(seconds=1800, back=0, memory=True).steps(1500),
    "repeated steps": lambda: Story().begins().steps(95).loses(back=45).steps(200).loses(back=3).steps(60),
    "only a start": lambda: Story().put("start", role="driver"),
    "no driver": lambda: Story().put("start", role="worker", world=16).passes(9, "recovering").steps(20, every=0),
    "each ten steps": lambda: Story().begins().steps(30, stride=10, every=7.0).loses(back=25).steps(30, stride=10),
    "saves in the background": saves_in_the_background,
    "the newest step was slow": lambda: Story().begins().steps(50).steps(1, every=1000.0),
    "slow saves": lambda: Story().begins().steps(50).saves(30).steps(50).saves(30).steps(3),
    "submitted again": lambda: Story().begins().steps(50).submitted_again(idle=7200).steps(50),
    "submitted three times": lambda: Story().begins().steps(9).submitted_again(idle=60).steps(9).submitted_again(
        idle=9).steps(9).done(),
    "waits in a queue": lambda: Story().begins(waits=86_400).steps(50),
    "elastic": resized,
    "stands still": standing_still,
    "the clock is set back": clock_set_back,
    "the clock is set forward": clock_set_forward,
    "another node's clock": another_nodes_clock,
    "torn": lambda: torn(Story().begins().steps(300).saves().loses().steps(100)),
    "stray": lambda: stray(Story().begins().steps(300).saves().loses().steps(100)),
    "far off": lambda: far_off(Story().begins().steps(100).saves().loses().steps(50)),
    "terminal escapes": escapes,
    "other ends of lines": other_line_ends,
    "another writer": other_keys,
    "all at once": all_at_once,
    "12,000 steps": lambda: long_run(12_000),
}  # fmt: skip
SLOW_STORIES = {"10^5 steps": lambda: long_run(100_000)}
"""They show of the same code that it is as good for longer runs."""


@pytest.fixture(
    params=[*STORIES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_STORIES)], scope="module"
)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, Path]:
    """A story, and its run folder, without a summary in `progress.json`."""
    story = (STORIES | SLOW_STORIES)[request.param]()
    folder = tmp_path_factory.mktemp("runs") / "a"
    folder.mkdir()
    (folder / "events.jsonl").write_bytes(b"".join(story.lines))
    (folder / "progress.json").write_text(json.dumps(story.progress))
    return story, folder


def as_status(story: Story, folder: Path, *, kept: History | None = None) -> Run:
    """As `status`, page and `cost` read a run: its newest lines, over Ray's dashboard."""
    progress = story.progress | ({"history": json.dumps(kept.summary())} if kept else {})
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    run = run_of(json.dumps(progress).encode(), lambda most: b"".join(lines[-most:]), job=JOB, at=story.at)
    assert run is not None
    return run


def up_to(folder: Path, most_bytes: int) -> History:
    summary = History()
    summary.take_up(folder / "events.jsonl", most_bytes=most_bytes)
    return summary


def test_the_whole_is_the_sum_of_what_its_author_knows(told: tuple[Story, Path]) -> None:
    story, folder = told
    run = as_status(story, folder, kept=up_to(folder, 1 << 40))
    record = run.record
    assert record is not None and not record.partial
    assert record.seconds == pytest.approx(story.spent, abs=0.01)
    assert record.whole_seconds == pytest.approx(sum(story.spent.values()), abs=0.01)
    assert record.lost == pytest.approx(story.lost, abs=0.01)
    assert record.seconds["training"] + sum(record.lost.values()) == pytest.approx(record.whole_seconds, abs=0.01)
    assert record.interrupted == story.interruptions == sum(count for count, _ in record.by_cause.values())
    assert run.began is not None and run.began.timestamp() == BEGIN
    assert run.step == story.step
    assert sum(record.held.values()) == pytest.approx(sum(story.spent[share] for share in history.HELD), abs=0.01)


def test_every_place_says_the_same(
    told: tuple[Story, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One table: a row for each place, a column for each figure, and one value in each column."""
    story, folder = told
    size = (folder / "events.jsonl").stat().st_size
    run = as_status(story, folder, kept=up_to(folder, size))
    # whatever the writer has kept, and whoever reads on from there
    for most in (1, size // 3, size - 200) if len(story.lines) < 10_000 else (size - 200,):
        assert as_status(story, folder, kept=up_to(folder, max(1, most))) == run
    if len(story.lines) < 10_000:
        assert as_status(story, folder) == run, "of a library that keeps no summary"

    plan, seen = pages.plan(tmp_path), replace(pages.healthy(), at=story.at, jobs=(JOB,), runs=(run,))
    monkeypatch.setattr("time.time", story.at.timestamp)
    (state,) = run_state.read_here([str(folder)])
    (reported,) = run_state.states([reports.shortened(in_ray_runs.read(str(folder)))])
    shown = view(plan, seen, judge(seen), prices=price_file.recorded())
    monkeypatch.setattr(gather, "snapshot", lambda target: seen)
    target: Any = type("T", (), {"plan": plan, "name": "demo"})
    (cost,) = spending.so_far(target, price_file.recorded(), form=Format.table)["runs"]
    said = capsys.readouterr().out
    monkeypatch.setattr(web, "now", lambda: story.at)
    rehearsed = web._record(folder, "a")
    (line,) = shown.runs
    assert state.training.record == run.record == line.record == rehearsed

    listed, progress = run_data(run), listing.as_progress(state)
    submitted = RunList(
        id="job-1", state="RUNNING", command="", started=None, ended=None, message="", exit_code=None, variables=(),
        working_dir="",
    )  # fmt: skip
    compared = listing._shown("goodput", listing._figures(submitted, state, common=None)["goodput"])
    rehearsal = replace(shown, runs=(replace(line, record=rehearsed),))
    table = {
        "status --output json": exact(listed),
        "cost --output json": exact(cost),
        "runs show --output json": exact(progress),
        "report of a job": exact(listing.as_progress(reported)),
        "runs show": in_words(listing._in_words(state)),
        "runs compare": in_words({"goodput": compared}),
        "status --web": in_words(on_page(training_page.runs(shown))),
        "rehearse --web": in_words(on_page(training_page.runs(rehearsal))),
        "cost --so-far": in_words(in_a_sentence(said)),
    }
    for column in dict.fromkeys(column for row in table.values() for column in row):
        values = {place: row[column] for place, row in table.items() if column in row}
        assert len(values) > 1, f"one place alone shows {column}"
        assert len({json.dumps(value) for value in values.values()}) == 1, (column, values)
    if run.goodput is not None:
        assert sum("goodput, percent" in row for row in table.values()) == len(table)
        assert sum("lost, in words" in row for row in table.values()) >= 4 or not run.lost_by_cause
    for text in (said, json.dumps(listed), json.dumps(listing._in_words(state), ensure_ascii=False)):
        assert not {c for c in text if not c.isprintable() and c not in "\n"}


MONEY = {"usd": "cost so far", "usd_per_useful_gpu_hour": "a useful GPU-hour"}


def exact(data: Any) -> dict[str, Any]:
    """Figures of a place that shows them as JSON, and what they are in words."""
    row = {
        "goodput": data["goodput"], "spent": data["spent_seconds"], "lost": data["lost_by_cause"],
        "time, in words": worded(data["spent_seconds"]), "lost, in words": worded(data["lost_by_cause"]),
    }  # fmt: skip
    if data["goodput"] is not None:
        row["goodput, percent"] = f"{100 * data['goodput']:.1f} %"
    row |= {key: f"{data[key]:.2f}" for key in MONEY if data.get(key) is not None}
    row |= {key: str(data[key]) for key in ("began", "step", "recoveries") if data.get(key) is not None}
    return row


def worded(seconds: dict[str, float]) -> list[str]:
    return [f"{part} {duration(spent)}" for part, spent in seconds.items() if spent >= 1]


def in_words(cells: dict[str, str]) -> dict[str, Any]:
    """Figures of a place that shows them to people; what it leaves empty, it does not show."""
    row: dict[str, Any] = {}
    if goodput := cells.get("goodput"):
        row["goodput, percent"] = goodput if goodput.endswith("%") else f"{100 * float(goodput):.1f} %"
    for name, column in (("its time", "time, in words"), ("lost by", "lost, in words")):
        if cells.get(name):
            row[column] = [re.sub(r" in \d+$", "", part) for part in cells[name].split(", ")]
    for key, name in MONEY.items():
        if amount := re.match(r"~?\$([\d,.]+)", cells.get(name, "")):
            row[key] = amount[1].replace(",", "")
    return row


def on_page(html: str) -> dict[str, str]:
    """Names and values of the page's figures."""
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    return {unescape(name): unescape(re.sub(r"<[^>]*>", "", value)) for name, value in pairs}


def in_a_sentence(said: str) -> dict[str, str]:
    """The line of `cost --so-far` about the run, in parts."""
    line = next(line for line in said.replace("\n", " ").split("run a: ")[1:])
    parts, _, lost = line.partition(", lost by ")
    goodput = re.search(r"goodput ([\d.]+ %)", parts)
    times = re.findall(rf"\b((?:{'|'.join(SHARES)}) \d+ [a-z]+(?: \d+ min)?)", parts)
    return {
        "goodput": goodput[1] if goodput else "", "its time": ", ".join(times), "lost by": " ".join(lost.split()),
        "cost so far": parts, "a useful GPU-hour": parts.partition(", $")[2] and "$" + parts.partition(", $")[2],
    }  # fmt: skip


def output_clock(moment: Any) -> str:
    return moment if isinstance(moment, str) else str(moment)


def test_a_summary_stays_small_and_a_reading_goes_on_from_it(told: tuple[Story, Path]) -> None:
    story, folder = told
    whole, parts = up_to(folder, 1 << 40), History()
    for _ in range(10**6):
        before = parts.offset
        parts.take_up(folder / "events.jsonl", most_bytes=100_000)
        parts = History.kept(json.dumps(parts.summary()))
        if parts.offset == before:
            break
    assert parts.summary() == whole.summary()
    assert len(json.dumps(whole.summary())) < 64_000
    tail = history.Tail(folder / "events.jsonl")
    assert sum(event.kind == "step" for event in tail.read()) == pytest.approx(whole.counts.get("step", 0), abs=3)
    assert tail.step == (story.step if whole.last else 0)


def test_another_file_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"".join(Story().begins().steps(50).lines))
    kept = up_to(tmp_path, 1 << 40)
    events.write_bytes(b"".join(Story().begins().steps(80).lines[:-1]) + b"\n\n")
    other = Story().begins(waits=7).steps(60)
    events.write_bytes(b"".join(other.lines))
    kept.take_up(events)
    assert kept.summary() == up_to(tmp_path, 1 << 40).summary()
    assert as_status(other, tmp_path, kept=kept).spent_seconds["waiting"] == 7


def test_a_line_that_is_glued_to_a_torn_one_is_read() -> None:
    event = history.parse(b'{"t": 1790000000.5, "ki{"t": 1790000002.5, "kind": "restore", "step": 7, "path": "x"}\n')
    assert event == history.Event(1790000002.5, "restore", 7, {"path": "x"})
    assert history.parse(b'\0\0\0{"t": 1, "kind": "done"}\n') == history.Event(1.0, "done", None, {})
    assert history.parse(b'{"t": 1790000000.5, "kind": "save", "st\n') is None


def test_nothing_of_a_journal_moves_a_terminals_cursor() -> None:
    story = escapes()
    summary = History()
    for line in story.lines:
        summary.add(line)
    record = record_of(summary, {"name": "\x1b[31mred", "state": "\x1b[2J", "last_error": "\x9b31m"}, name="a")
    (lost,) = record.interruptions
    texts = [lost.cause, record.name, record.state, record.error, *(event.text for event in record.events)]
    assert "owned" in lost.cause and "cleared" in lost.cause
    assert all(text.isprintable() for text in texts), texts


def test_ranks_that_become_known_later_held_their_nodes_before() -> None:
    summary = History()
    for second in range(10):
        summary.feed(sent.Event(BEGIN + second, "step", second + 1, {"world": 8} if second > 4 else {}))
    record = record_of(summary, {}, name="a")
    assert record.held == {8: 9.0}


def test_several_runs_at_once_are_kept_apart(tmp_path: Path) -> None:
    names = ("undisturbed", "repeated steps", "stands still")
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        story = STORIES[name]()
        (folder / "events.jsonl").write_bytes(b"".join(story.lines))
        (folder / "progress.json").write_text(json.dumps(story.progress | {"name": name}))
    states = {state.training.name: state for state in run_state.read_here([str(tmp_path)], whole=True)}
    for name in names[:2]:
        assert states[name].record.seconds == pytest.approx(STORIES[name]().spent, abs=0.01)


def test_a_journal_without_its_beginning_has_no_goodput(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hyperpod_ray.ops.observe.training.EVENTS", (10, 20))
    story = Story().begins().steps(500)
    (tmp_path / "events.jsonl").write_bytes(b"".join(story.lines))
    run = as_status(story, tmp_path)
    assert run.record is not None and run.record.partial and run.goodput is None
    assert run.step == story.step


@pytest.mark.parametrize(
    "summary",
    [None, "", "{", "[]", {}, {"version": 1}, {"version": 2}, 7, {**History().summary(), "seconds": 3},
     {**History().summary(), "curve": [[1]]}, {**History().summary(), "seconds": {}},
     {**History().summary(), "last": "x"}],
)  # fmt: skip
def test_a_summary_of_another_shape_is_none(summary: Any) -> None:
    assert History.kept(summary).summary() == History().summary()


def test_the_kinds_stand_once() -> None:
    """The writer refuses a kind that the reader does not know, and both are one file."""
    assert vars(writer)["KINDS"] is history.KINDS and sent.KINDS == history.KINDS
    assert Path(sent.__file__).resolve() == Path(history.__file__).resolve()
    assert {*history.SIGNS, *history.FAULTS, *history.STOPPING} <= history.KINDS
    assert set(history.HELD) < set(SHARES)


def test_a_program_that_this_machine_lacks_is_no_fault_of_the_cluster() -> None:
    """And no sign of its health: what it would have said is not known."""
    from hyperpod_ray.ops.errors import LaptopError
    from hyperpod_ray.ops.observe.snapshot import Unseen
    from hyperpod_ray.ops.reach import tunnel

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        with pytest.raises(LaptopError) as lacking:
            tunnel.require_plugin()
    unseen: list[Unseen] = []
    target: Any = type("T", (), {"name": "demo"})
    with gather._noted("Kubernetes", target, unseen):
        raise lacking.value
    verdict = judge(replace(pages.healthy(), unseen=tuple(unseen)))
    assert verdict.state == "Steps unknown" and verdict.without == ("Kubernetes",)
    (finding,) = [finding for finding in verdict.findings if finding.subject == "Kubernetes"]
    assert (finding.kind, "from this machine" in finding.what) == ("note", True)
    assert "install it" in finding.next
    other = judge(replace(pages.healthy(), unseen=(Unseen(source="Kubernetes", why="no answer"),)))
    assert other.state == "Action required"
