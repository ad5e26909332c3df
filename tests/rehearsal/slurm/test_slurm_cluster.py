"""A real Slurm, real kills, by the very commands of docs/slurm.md. One cluster start for all faults.

Asserts on states, steps and losses, never on times. Skipped, with the reason, where Slurm is not installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.slurm.install import why_not

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "docs" / "slurm.md"
LIMIT_S = 1800  # only so that a hang ends

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PROJECT / ".venv-rehearsal" / "bin" / "torchrun").exists(),
        reason="needs .venv-rehearsal (make rehearsal-env)",
    ),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or ""),
]


def page_command(number: int) -> list[str]:
    """One of the page's `hyperpod-ray local slurm` lines: torchrun's, and Ray's."""
    lines = re.findall(r"^hyperpod-ray local slurm.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(lines[number])


def slurm_processes(folder: str = "/tmp/slurm-") -> dict[int, str]:
    """Daemons of a rehearsal's Slurm, with their command line, by id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        # by the program's own name: the checkout may be in a folder that is called after Slurm
        if folder in line and Path(line.split()[0]).name.startswith(("slurm", "munged", "unshare")):
            found[int(path.name)] = line
    return found


def parent(pid: int) -> int:
    """A process's parent; 0 once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def below(root: int) -> dict[int, str]:
    """The Slurm daemons that a rehearsal has started; others may rehearse on this machine too."""
    found = {}
    for pid, line in slurm_processes().items():
        above = pid
        while above > 1 and above != root:
            above = parent(above)
        if above == root:
            found[pid] = line
    return found


def listening(pids: set[int]) -> set[str]:
    """Addresses that these processes listen on over TCP, as /proc/net writes them."""
    sockets = set()
    for pid in pids:
        try:
            for path in Path(f"/proc/{pid}/fd").iterdir():
                if (target := str(path.readlink())).startswith("socket:["):
                    sockets.add(target[8:-1])
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].split(":")[0])
    return found


def rehearse(command: list[str], out: Path) -> tuple[dict[str, Any], set[str], set[int]]:
    """The report, the addresses that Slurm listened on meanwhile, and what the rehearsal left running."""
    command = [sys.executable, "-m", "hyperpod_ray.cli", *command[1:], "--out", str(out), "-o", "json"]
    addresses, folders, ended = set[str](), set[str](), threading.Event()
    process = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{PROJECT}:{PROJECT}/constructs"},
    )  # fmt: skip

    def watch() -> None:
        while not ended.wait(1.0):
            found = below(process.pid)
            folders.update(match for line in found.values() for match in re.findall(r"/tmp/slurm-\w+/", line))
            addresses.update(listening(set(found)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        printed, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        ended.set()
        watcher.join()
    log = out / "job.log"
    assert process.returncode == 0, printed[-3000:] + errors[-3000:] + (log.read_text()[-3000:] if log.exists() else "")
    assert len(folders) == 1
    (folder,) = folders
    deadline = time.monotonic() + 600
    while (left := set(slurm_processes(folder))) and time.monotonic() < deadline:
        time.sleep(0.5)
    return json.loads(printed), addresses, left


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], set[str], set[int]]:
    """With torchrun, and all faults. Fewer steps than by default: they are waited for."""
    return rehearse([*page_command(0), "--interval", "8"], tmp_path_factory.mktemp("report"))


def test_every_fault_is_survived_with_the_losses_of_the_undisturbed_run(rehearsed: tuple[Any, ...]) -> None:
    report = rehearsed[0]
    assert report["survived"] is True
    assert [fault["report"]["fault"] for fault in report["faults"]] == ["process", "node", "controller", "batch-host"]
    run = report["run"]
    assert run["steps_different"] == 0
    assert run["steps_compared"] >= report["settings"]["steps"]
    assert run["final_loss"] == run["undisturbed_loss"] is not None


def test_each_fault_comes_back_its_own_way(rehearsed: tuple[Any, ...]) -> None:
    process, node, controller, batch_host = rehearsed[0]["faults"]
    assert (process["by"], node["by"]) == ("auto-resume", "auto-resume")
    assert (process["restarts"], node["restarts"]) == (0, 0), "the same job and allocation"
    assert node["nodes_after"] == node["nodes_before"], "the replacement has the old name"
    assert (controller["by"], controller["report"]["steps_lost"]) == ("no pause", 0)
    assert batch_host["by"] == "requeue"
    assert all(fault["report"]["checkpoint_step"] for fault in (process, node, batch_host)), "from a checkpoint"


def test_a_cancelled_job_saves_before_it_leaves(rehearsed: tuple[Any, ...]) -> None:
    """scancel sends SIGTERM to every rank; the same line again goes on where they left."""
    lines = [text for _, text in rehearsed[0]["log"]]
    assert any(text.startswith("job ") and "CANCELLED" in text for text in lines)
    assert rehearsed[0]["run"]["submissions"] == 2


def test_nothing_listens_beyond_loopback_and_nothing_is_left(rehearsed: tuple[Any, ...]) -> None:
    _, addresses, left = rehearsed
    assert addresses == {"0100007F"}
    assert left == set()
