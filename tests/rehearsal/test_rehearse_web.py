"""The page of a rehearsal, from the files that a run writes; nothing is started but the page's own server."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal import web
from tests.support import pages


def scene(folder: Path) -> Any:
    """What the page reads of a scene: pods, their states, runs and the log."""
    pods = [SimpleNamespace(name=f"gpu-{n}", group="gpu", ip=f"127.0.0.1{n}") for n in range(3)]
    return SimpleNamespace(
        options=SimpleNamespace(job="finetune"),
        submissions={"llama": 1},
        start=time.time() - 60,
        log=[[1.0, "cluster up"], [50.0, "FAULT worker: gpu-2 at step 14"]],
        watcher=SimpleNamespace(nodes={"127.0.0.10": "ALIVE", "127.0.0.11": "DEAD"}),
        cluster=SimpleNamespace(
            fsx=folder,
            state=SimpleNamespace(pods=pods),
            plan=SimpleNamespace(groups=[SimpleNamespace(group="gpu", pods=3)]),
        ),
    )


def write(folder: Path, *, lines: int | None = None, state: str = "running") -> None:
    progress, events = pages.journal()
    (folder / "llama").mkdir(exist_ok=True)
    (folder / "llama" / "progress.json").write_text(progress.replace('"running"', f'"{state}"'))
    (folder / "llama" / "events.jsonl").write_text("\n".join(events[:lines]) + "\n")


def test_before_the_first_step_it_starts(tmp_path: Path) -> None:
    found = web.view(scene(tmp_path), environment="local")
    assert (found.headline, found.runs[0].state) == ("Starting", "starting")


def test_a_run_that_was_interrupted_recovers_then_trains_then_is_done(tmp_path: Path) -> None:
    events = pages.journal()[1]
    lost = next(index for index, line in enumerate(events) if '"kind": "lost"' in line)
    for lines, state, headline in ((lost + 1, "recovering", "Recovering"), (None, "running", "Training"),
                                   (None, "done", "Done")):  # fmt: skip
        write(tmp_path, lines=lines, state=state)
        assert web.view(scene(tmp_path), environment="local").headline == headline


def test_pods_and_what_happened(tmp_path: Path) -> None:
    write(tmp_path)
    found = web.view(scene(tmp_path), environment="local")
    assert [(node.id, node.tone, node.state) for node in found.nodes] == [
        ("gpu-0", "good", "ALIVE"), ("gpu-1", "bad", "DEAD"), ("gpu-2", "busy", "not in Ray yet"),
    ]  # fmt: skip
    assert [event.level for event in found.events] == ["Error", "Info"] and found.events[0].what.startswith("FAULT")
    assert (found.groups[0].asked, found.groups[0].ready, found.groups[0].recovering) == (3, 1, 2)
    assert found.relative and any("NCCL" in line for line in found.not_shown) and found.spend is None


def test_it_is_served_while_the_rehearsal_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with web.page(scene(tmp_path), environment="local", port=0):
        url = capsys.readouterr().err.split()[3]
        end = time.monotonic() + 900
        while b"Training" not in (text := opener.open(url, timeout=900).read()) or b"Faults and recoveries" not in text:
            assert time.monotonic() < end
            time.sleep(0.05)
    with pytest.raises(OSError, match="refused"):
        opener.open(url, timeout=900)
