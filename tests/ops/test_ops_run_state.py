"""What runs say of themselves: read from folders that the training library's own journal wrote, shown and drawn."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.in_ray import history
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray_training import journal
from tests.ops.ops_run_state_helpers import BEGIN
from tests.ops.world import environment_text


class Clock:
    """The journal's clock: what is written has the times of a test."""

    def __init__(self) -> None:
        self.now = BEGIN

    def time(self) -> float:
        return self.now


def write_run(
    storage: Path, name: str, monkeypatch: pytest.MonkeyPatch, *, steps: int, slope: float, every: float = 2.0
) -> Path:
    """A run of `steps` steps with a save every 10, written by the library's journal. At step 15 it is restored."""
    folder, clock = storage / name, Clock()
    folder.mkdir(parents=True)
    monkeypatch.setattr(journal, "_wall_clock", clock.time)
    monkeypatch.setattr(journal, "time", SimpleNamespace(time=clock.time))
    place: Any = SimpleNamespace(
        local=True, at=lambda *parts: "/".join([str(folder), *parts]),
        fs=SimpleNamespace(cat_file=lambda path: Path(path).read_bytes()),
    )  # fmt: skip
    log = journal.Journal(place, name=name)
    log.event("start", role="driver", pid=1, workers="2")
    for step in range(1, steps + 1):
        clock.now += every
        loss = 5 - slope * step
        if step == 15:
            log.event("fault", message="injected")
            log.event("error", message="a worker died")
            clock.now += 30
            log.event("restore", step=10, path="x", seconds=1.5, world=2)
        log.event("step", step=step, loss=loss, world=2)
        log.update(
            at_once=True, state="running", last_step=step, last_step_t=clock.now, metrics={"loss": loss}, world_size=2,
            total_steps=100, attempt="abc123",
        )  # fmt: skip
        if step % 10 == 0:
            checkpoint = folder / f"step-{step:08d}-abc123"
            checkpoint.mkdir()
            (checkpoint / "about.json").write_text(
                json.dumps({"step": step, "metrics": {"loss": loss, "accuracy": step}})
            )
            (checkpoint / "data").write_bytes(b"x" * 1000)
            if step != 30:  # the save of step 30 was cut off
                (checkpoint / ".metadata").write_bytes(b"")
            log.update(at_once=True, last_checkpoint_step=step, last_checkpoint_t=clock.now)
    return folder


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, and things that are none; the environment `demo`. Tables are as wide as in a log."""
    monkeypatch.delenv("COLUMNS", raising=False)
    folder = tmp_path / "runs"
    write_run(folder, "first", monkeypatch, steps=32, slope=0.1)
    write_run(folder, "second", monkeypatch, steps=20, slope=0.05, every=1.0)
    (folder / "no-run").mkdir()
    (folder / "file").write_text("x")
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "demo.yaml").write_text(environment_text())
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(tmp_path / "environments"))
    return folder


def test_a_run_is_read(storage: Path) -> None:
    (found,) = run_state.read_here([str(storage / "first")])
    run = found.training
    assert (run.name, run.state, run.step, run.steps_total, run.world_size) == ("first", "running", 32, 100, 2)
    assert run.loss == pytest.approx(1.8)
    assert run.steps_per_second == pytest.approx(0.5), "the pause of 30 s is no step"
    assert run.longest_pause_seconds == pytest.approx(2.0), "one long pause is a fault, two are a save"
    assert found.seconds_left == pytest.approx(68 * 2.0)
    assert run.recoveries == 1, "a first start restores nothing, and is none"
    assert run.faults == 2
    assert [checkpoint.step for checkpoint in found.checkpoints] == [30, 20, 10]
    assert found.last is not None
    assert found.last.step == 20, "what is not complete does not count"
    best = found.best("accuracy", "max")
    assert best is not None
    assert (best.step, best.path) == (20, f"{storage}/first/step-00000020-abc123")
    assert found.best("accuracy", "min") == found.checkpoints[2]
    assert found.best("nothing", "min") is None
    assert best.bytes > 1000
    assert found.loss_at(15) == pytest.approx(3.5)


def test_what_is_cut_or_foreign_is_no_run(storage: Path, tmp_path: Path) -> None:
    assert [one.training.name for one in run_state.read_here([str(storage)], whole=True)] == ["first", "second"]
    assert run_state.read_here([str(storage / "no-run"), str(storage / "nowhere")]) == []
    broken = storage / "broken"
    shutil.copytree(storage / "first", broken)
    (broken / "progress.json").write_text('{"state": "runn')
    with (broken / "events.jsonl").open("a") as stream:
        stream.write('{"t": 1790000100.0, "kind": "st')
    (found,) = run_state.read_here([str(broken)])
    assert (found.training.name, found.training.state, found.training.step) == ("broken", "unknown", 32)


def test_a_run_in_s3_is_read_as_one_on_disk(storage: Path) -> None:
    """fsspec lists paths of a bucket, with a slash after a folder: https://filesystem-spec.readthedocs.io"""

    class Bucket:
        """The calls of fsspec that are made, on a folder here."""

        def cat_file(self, path: str, start: int, end: int) -> bytes:
            return (storage / path.removeprefix("bucket/runs/")).read_bytes()[start:end]

        def ls(self, path: str, *, detail: bool) -> list[str]:
            assert not detail
            folder = storage / path.removeprefix("bucket/runs/")
            return [f"{path}/{child.name}{'/' if child.is_dir() else ''}" for child in folder.iterdir()]

        def du(self, path: str) -> int:
            folder = storage / path.removeprefix("bucket/runs/")
            return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    here, there = reader.Store(str(storage / "first")), reader.Store(str(storage / "first"))
    there.remote, there.url = Bucket(), "bucket/runs/first"
    assert sorted(there.names()) == sorted(here.names())
    assert reader._checkpoints(there) == reader._checkpoints(here) != []
    assert there.text("progress.json") == here.text("progress.json")
    assert there.text("nothing") is here.text("nothing") is None
    assert there.names("nothing") == here.names("nothing") == []


def test_a_long_run_is_thinned_and_keeps_its_last_step(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    lines = [json.dumps({"t": BEGIN + n, "kind": "step", "step": n, "loss": 1 / (n + 1)}) for n in range(5000)]
    lines += [json.dumps({"t": BEGIN + 5000, "kind": "step", "step": 5000, "loss": float("nan")})]
    (folder / "events.jsonl").write_text("\n".join(lines))
    (found,) = run_state.read_here([str(folder)])
    assert 100 < len(found.curve) <= history.POINTS + 1
    assert found.curve[-1][1:] == (5000, None), "NaN is no number in JSON"
    json.loads(json.dumps(reader.read(str(folder)), allow_nan=False))


def test_what_is_sent_is_the_same_package_each_time_and_runs_alone() -> None:
    """Standard library only: an image without this project runs it."""
    import ast

    name, data = in_ray.package()
    assert in_ray.package.__wrapped__() == (name, data)
    assert name.startswith("_ray_pkg_")
    for module in in_ray.MODULES:
        tree = ast.parse((Path(in_ray.__file__).parent / f"{module}.py").read_text())
        outer = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        # a relative one is of the same package
        outer |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level}
        import sys

        assert {one.partition(".")[0] for one in outer} <= sys.stdlib_module_names | {"__future__"}


def run(*arguments: str, capfd: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(["runs", *arguments]) == code
    return capfd.readouterr().out


def test_runs_of_this_machine_are_listed_and_shown(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here = ("--here", str(storage))
    listed = json.loads(run("list", "demo", *here, "-o", "json", capfd=capfd))["runs"]
    assert {one["id"]: one["progress"]["step"] for one in listed} == {"first": 32, "second": 20}
    assert "32 of 100" in run("list", "demo", *here, capfd=capfd)
    assert len(json.loads(run("list", "demo", *here, "--state", "running", "-o", "json", capfd=capfd))["runs"]) == 2
    assert json.loads(run("list", "demo", *here, "--state", "succeeded", "-o", "json", capfd=capfd))["runs"] == []
    shown = run("show", "demo", "first", *here, capfd=capfd)
    for words in ("running, 2 ranks", "32 of 100, 0.5 steps/s, 2 min left", "step-00000020-abc123", "recoveries"):
        assert words in shown
    assert main(["runs", "show", "demo", "firsst", *here]) == 2
    assert "did you mean 'first'?" in capfd.readouterr().err


def test_runs_are_compared_at_the_step_that_all_reached(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here = ("--here", str(storage))
    data = json.loads(run("compare", "demo", "first", "second", *here, "-o", "json", capfd=capfd))
    assert data["common_step"] == 20
    first, second = data["runs"]
    assert first["loss_at_common_step"] == pytest.approx(3.0)
    assert second["loss_at_common_step"] == pytest.approx(4.0)
    assert (first["recoveries"], second["recoveries"]) == (1, 1)
    assert second["steps_per_second"] == pytest.approx(1.0)
    text = run("compare", "demo", "first", "second", *here, capfd=capfd)
    assert "loss at step 20" in text


def test_the_best_checkpoint_of_all_runs(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here = ("--here", str(storage))
    assert run("best", "demo", *here, capfd=capfd).strip() == f"{storage}/first/step-00000020-abc123"
    assert run("best", "demo", "second", *here, capfd=capfd).strip().startswith(f"{storage}/second/")
    highest = json.loads(run("best", "demo", *here, "--mode", "max", "-o", "json", capfd=capfd))
    assert (highest["run"], highest["step"]) == ("second", 10)
    assert set(highest) - {"schema_version", "generated_at"} == {
        "kind", "environment", "run", "metric", "mode", "value", "step", "path", "bytes",
    }, "programs of others read these"  # fmt: skip
    assert main(["runs", "best", "demo", *here, "--metric", "accurac"]) == 3
    assert "did you mean 'accuracy'?" in capfd.readouterr().err


HOSTILE = {
    "stray": '{"t": 1790000001.5, "note": "mine"}',
    "a kind that is none": '{"t": 1790000001.5, "kind": ["step"], "step": 3}',
    "torn": '{"t": 1790000001.5, "kind": "st',
    "deep": '{"t": 1790000001.5, "kind": "step", "step": 3, "x": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "as deep as a reader allows": '{"t": 1790000001.5, "kind": "save", "step": 3, "x": ' + "[" * 900 + "]" * 900 + "}",
    "no time": '{"t": NaN, "kind": "start"}',
    "endless time": '{"t": 1e999, "kind": "start"}',
    "a long integer": '{"t": 1' + "0" * 400 + ', "kind": "error", "message": "x"}',
    "a long step": '{"t": 1790000001.5, "kind": "save", "step": 1' + "0" * 400 + "}",
    "beyond integers": '{"t": 1' + "0" * 5000 + ', "kind": "error"}',
    "true is no number": '{"t": true, "kind": "step", "step": true}',
    "half a character": '{"t": 1790000001.5, "kind": "error", "message": "\\ud800 \\u001b[2J"}',
    "a kind of half a character": '{"t": 1790000001.5, "kind": "\\udfff"}',
    "a text without end": '{"t": 1790000001.5, "kind": "error", "message": "' + "a" * 3_000_000 + '"}',
    "a list": "[1, 2]",
    "a loss that is a text": '{"t": 1790000001.5, "kind": "step", "step": 3, "loss": "low"}',
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_the_library_did_not_write_harms_no_other_run(
    storage: Path, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    here = ("--here", str(storage))
    before = run_state.read_here([str(storage / "second")])[0].curve
    with (storage / "first" / "events.jsonl").open("a") as stream:
        stream.write(line + "\n")
    listed = json.loads(run("list", "demo", *here, "-o", "json", capfd=capfd))["runs"]
    assert {one["name"] for one in listed} >= {"first", "second"}
    run("list", "demo", *here, capfd=capfd)
    shown = run("show", "demo", "first", *here, capfd=capfd)
    assert "32 of 100" in shown
    assert "\x1b[2J" not in shown
    states = {state.training.name: state for state in run_state.read_here([str(storage)], whole=True)}
    assert states["second"].curve == before
    assert [point[1] for point in states["first"].curve] == list(range(1, 33))
    assert run("best", "demo", *here, capfd=capfd)
    assert len(json.dumps(reader.read(str(storage / "first")))) < 300_000


@pytest.mark.parametrize(
    "content", ["[" * 200_000, '{"state": ["x"], "metrics": 3, "pauses_s": {"a": 1}}', "\0", '{"name": "\\ud800"}']
)
def test_a_progress_file_that_the_library_did_not_write_harms_no_other_run(
    storage: Path, capfd: pytest.CaptureFixture[str], content: str
) -> None:
    (storage / "first" / "progress.json").write_text(content)
    here = ("--here", str(storage))
    listed = json.loads(run("list", "demo", *here, "-o", "json", capfd=capfd))["runs"]
    assert len(listed) >= 2
    assert "second" in {one["name"] for one in listed}
    assert "second" in run("list", "demo", *here, capfd=capfd)


def test_a_folder_that_cannot_be_read_is_a_row_that_says_so(
    storage: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reader.read

    def read(folder: str) -> dict[str, Any]:
        if folder.endswith("/first"):
            raise RuntimeError("a stale file handle")
        return real(folder)

    monkeypatch.setattr(reader, "read", read)
    here = ("--here", str(storage))
    listed = {one["name"]: one for one in json.loads(run("list", "demo", *here, "-o", "json", capfd=capfd))["runs"]}
    assert "stale file handle" in json.dumps(listed["first"])


def test_pictures_of_runs(storage: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here = ("--here", str(storage))
    out = tmp_path / "loss.svg"
    run("plot", "demo", "first", "second", *here, "--out", str(out), capfd=capfd)
    root = ET.fromstring(out.read_text())  # noqa: S314
    name = "{http://www.w3.org/2000/svg}"
    lines = root.findall(f"{name}polyline")
    assert [len(str(line.get("points")).split()) for line in lines] == [32, 20]
    heights = [float(point.partition(",")[2]) for point in str(lines[0].get("points")).split()]
    assert heights == sorted(heights), "a loss that falls is drawn downwards"
    box = [float(number) for number in str(root.get("viewBox")).split()]
    for line in lines:
        for point in str(line.get("points")).split():
            x, _, y = point.partition(",")
            assert 0 <= float(x) <= box[2]
            assert 0 <= float(y) <= box[3]
    assert "restored at step 10" in out.read_text()
    said = [str(element.text) for element in root.findall(f"{name}text")]
    assert {"step", "loss"} <= set(said), "both axes have a name"
    assert {"— first", "— second"} <= set(said)
    drawn = run("plot", "demo", "first", "second", *here, capfd=capfd)
    assert "●" in drawn
    assert "▲ second" in drawn
    assert main(["runs", "plot", "demo", "no", *here]) == 2
