from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.acceptance import node_probe, verdict
from hyperpod_ray.ops.acceptance.verdict import Expected
from tests.ops.world import ROOT


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 8, 9, 64])
def test_in_a_round_each_node_has_one_partner_and_no_pair_comes_twice(nodes: int) -> None:
    table = node_probe.rounds(nodes)
    assert len(table) <= node_probe.ROUNDS
    for pairs in table:
        named = list(itertools.chain(*pairs))
        assert len(named) == len(set(named)) >= nodes - 1 - nodes % 2
        assert all(0 <= one < other < nodes for one, other in pairs)
    met = [pair for pairs in table for pair in pairs]
    assert len(met) == len(set(met))
    if nodes <= 8:
        assert len(met) == nodes * (nodes - 1) // 2
    if nodes > 1:
        assert set(itertools.chain(*met)) == set(range(nodes))


SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) printf '0, 3, 0, Not Active, 41\\n1, 0, 7, Active, [N/A]\\n' ;;
--query-remapped-rows=*) printf 'No, No\\n1, 0\\n' ;;
*) exit 2 ;;
esac
"""


def test_counters_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    first, second = node_probe.health()
    assert [gpu["index"] for gpu in (first, second)] == [0, 1]
    assert (first["uncorrected"], first["corrected"], first["slowed"], first["rows_pending"]) == (0, 3, 0, 0)
    assert (second["uncorrected_ever"], second["slowed"], second["temperature"], second["rows_pending"]) == (
        7,
        1,
        None,
        1,
    )
    program.write_text("#!/bin/sh\necho 'Unable to determine the device handle for GPU 0' >&2\nexit 15\n")
    (broken,) = node_probe.health()
    assert broken["error"] == "nvidia-smi: Unable to determine the device handle for GPU 0" and broken["index"] == -1
    program.write_text("#!/bin/sh\nexit 15\n")
    assert node_probe.health() == [{"index": -1, "error": "nvidia-smi: exit code 15"}]
    program.unlink()
    assert node_probe.health() == []


def test_a_python_without_torch_says_so(tmp_path: Path) -> None:
    """The project's own environment has none."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", node_probe.__file__, "count"], capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout.removeprefix(node_probe.MARK))
    assert "torch" in answer["error"]


def test_an_agent_says_what_its_processes_could_not_do(tmp_path: Path) -> None:
    options = node_probe.parser().parse_args(["agent", "--ranks", "1", "--limit", "60"])
    assert isinstance(options, argparse.Namespace)
    done = subprocess.run(
        [sys.executable, "-I", "-S", node_probe.__file__, "agent", "--limit", "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    report = verdict.judge(
        {"answers": [json.loads(done.stdout.removeprefix(node_probe.MARK))], "busy": [], "cuda": False, "ranks": 1},
        Expected(),
    )
    assert any("No module named 'torch'" in finding.text for finding in report.faults)


PYTHON = ROOT / ".venv-rehearsal" / "bin" / "python"


SPOILED = """
import argparse, sys, types
sys.path.insert(0, sys.argv[1])
import torch
import node_probe
options = node_probe.parser().parse_args(["rank", "--seconds", "1"])
rank = node_probe.Rank(options)
lines = []
rank.emit = lambda phase, **figures: lines.append(figures)
product, count = torch.Tensor.__matmul__, 0
def spoiled(left, right):
    global count
    count += 1
    answer = product(left, right)
    if count > 1 and SPOIL:
        answer[7, 11] += 1e-3
    return answer
torch.Tensor.__matmul__ = spoiled
full = torch.full
def flipped(*shape, **more):
    block = full(*shape, **more)
    if SPOIL:
        block[12345] ^= 4
    return block
torch.full = flipped
rank.compute()
rank.memory()
print([line["wrong"] for line in lines], lines[0]["products"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [False, True])
def test_a_wrong_product_and_a_flipped_bit_are_counted(spoil: bool) -> None:
    """An arithmetic unit that errs in one element, and a word of memory that loses a bit in each block."""
    script = f"SPOIL = {spoil}\n{SPOILED}"
    folder = str(Path(node_probe.__file__).parent)
    done = subprocess.run([str(PYTHON), "-c", script, folder], capture_output=True, text=True, check=True, timeout=300)
    wrong, _, products = done.stdout.strip().rpartition(" ")
    assert wrong == (f"[{products}, 1]" if spoil else "[0, 0]")


# --- a process, with a torch that only counts ------------------------------------------------------------------------

MIB = 1 << 20
GIB = 1 << 30


class Block:
    """A tensor of equal words, and how many of them are wrong."""

    def __init__(self, words: int, value: float = 0, wrong: int = 0) -> None:
        self.words, self.value, self.wrong = words, value, wrong

    def __ne__(self, other: object) -> Any:
        return SimpleNamespace(sum=lambda: self.wrong + (0 if other == self.value else self.words))

    __hash__ = None  # type: ignore[assignment]

    def copy_(self, source: Block) -> None:
        assert (source.words, source is self) == (self.words, False)


class Torch(ModuleType):
    """As much of torch as the probe asks of it; a clock that every operation moves."""

    int32 = "int32"

    def __init__(self, *, gpu: bool, free: int = 0) -> None:
        super().__init__("torch")
        self.gpu, self.made = gpu, list[Block]()
        self.dist = SimpleNamespace(
            init_process_group=self._joined, all_reduce=lambda numbers: None,
            P2POp=lambda way, block, peer: (way, peer), batch_isend_irecv=self._exchanged, isend="send",
            irecv="receive",
        )  # fmt: skip
        self.distributed = self.dist
        self.joined: dict[str, Any] = {}
        self.exchanged: list[list[tuple[str, int]]] = []
        self.chosen: list[Any] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: gpu, set_device=self.chosen.append, synchronize=lambda: None, empty_cache=lambda: None,
            mem_get_info=lambda device: (free, 2 * free), get_device_name=lambda device: "H100",
        )  # fmt: skip

    def device(self, kind: str, number: int = 0) -> tuple[str, int]:
        return (kind, number)

    def set_num_threads(self, count: int) -> None:
        self.chosen.append(f"{count} thread")

    def full(self, shape: tuple[int, ...], value: float, **_: Any) -> Block:
        self.made.append(Block(shape[0], value))
        return self.made[-1]

    def zeros(self, words: int, **_: Any) -> Block:
        return Block(words)

    ones = empty = zeros

    def empty_like(self, block: Block) -> Block:
        return Block(block.words)

    def _joined(self, backend: str, **how: Any) -> None:
        self.joined = {"backend": backend, **how}

    def _exchanged(self, ways: list[tuple[str, int]]) -> list[Any]:
        self.exchanged.append(ways)
        return [SimpleNamespace(wait=lambda: None) for _ in ways]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a process of the test: an action takes a second, and what it prints is in `lines`."""

    def make(*words: str, gpu: bool = False, free: int = 0) -> tuple[node_probe.Rank, Torch, list[dict[str, Any]]]:
        torch = Torch(gpu=gpu, free=free)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.distributed", torch.dist)
        made = node_probe.Rank(node_probe.parser().parse_args(["rank", *words]))
        lines: list[dict[str, Any]] = []
        monkeypatch.setattr(made, "emit", lambda phase, **figures: lines.append({"phase": phase, **figures}))
        return made, torch, lines

    return make


def a_second_each(monkeypatch: pytest.MonkeyPatch, probe: node_probe.Rank) -> None:
    def mean(action: Any) -> float:
        action()
        return 1.0

    monkeypatch.setattr(probe, "mean", mean)


MEMORY: dict[str, tuple[bool, int, float, float]] = {
    "a processor: 85 % of 128 MiB, in blocks of 64": (False, 0, 64 / 1024, 2 * 64 * MIB / 1e9),
    "a GPU: 85 % of what is free, in blocks of 1 GiB": (True, 80 * GIB, 68.0, 2 * GIB / 1e9),
    "a GPU with hardly any memory: one block": (True, GIB // 2, 1.0, 2 * GIB / 1e9),
}


@pytest.mark.parametrize("case", MEMORY)
def test_most_of_the_memory_is_written_and_read(case: str, rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, free, tested, rate = MEMORY[case]
    probe, torch, lines = rank(gpu=gpu, free=free)
    a_second_each(monkeypatch, probe)
    probe.memory()
    assert lines == [{"phase": "memory", "tested_gib": tested, "wrong": 0, "gb_s": pytest.approx(rate)}]
    assert len({block.value for block in torch.made}) == len(torch.made), "each block has a pattern of its own"


def test_each_wrong_word_is_counted(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, torch, lines = rank(gpu=True, free=4 * GIB)
    a_second_each(monkeypatch, probe)
    monkeypatch.setattr(torch, "full", lambda shape, value, **_: Block(shape[0], value, wrong=2))
    probe.memory()
    assert lines[0]["wrong"] == 6, "three blocks with two wrong words"


def test_a_process_has_its_gpu_or_one_thread(rank: Any) -> None:
    assert rank("--local", "3", gpu=True)[1].chosen == [("cuda", 3)]
    assert rank("--local", "3")[1].chosen == ["1 thread"]


def test_processes_meet_by_their_number_of_all(rank: Any) -> None:
    words = ("--node", "2", "--nodes", "4", "--ranks", "8", "--local", "5", "--master", "h:1", "--patience", "7")
    for gpu, backend in ((True, "cpu:gloo,cuda:nccl"), (False, "gloo")):
        probe, torch, _ = rank(*words, gpu=gpu)
        probe.join()
        assert torch.joined.pop("timeout").total_seconds() == 7
        assert torch.joined == {"backend": backend, "init_method": "tcp://h:1", "rank": 21, "world_size": 32}


def test_a_mean_is_of_forty_after_two(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, _, _ = rank()
    clock = itertools.count(0.0, 80.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    done: list[int] = []
    assert probe.mean(lambda: done.append(1)) == 2.0
    assert len(done) == 42


def test_nodes_exchange_with_one_partner_a_round(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank's partner is the same GPU of the other node; where the number is odd, a node pauses once."""
    probe, torch, lines = rank("--node", "1", "--nodes", "3", "--ranks", "8", "--local", "5", gpu=True)
    a_second_each(monkeypatch, probe)
    probe.pairs()
    partners = {line["partner"]: line for line in lines}
    assert set(partners) == {0, 2} and len(lines) == 2
    assert all(line["gb_s"] == pytest.approx(256 * MIB / 1e9) for line in lines)
    assert torch.exchanged == [
        [("send", 8 * line["partner"] + 5), ("receive", 8 * line["partner"] + 5)] for line in lines
    ]  # fmt: skip
    table = node_probe.rounds(3)
    for line in lines:
        assert tuple(sorted((1, line["partner"]))) in table[line["round"]]


def test_the_rate_of_a_sum_is_that_of_nccl_tests(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bus bandwidth of an all-reduce: 2 (n - 1) / n times the bytes a second.

    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    for gpu, size in ((True, GIB), (False, 4 * MIB)):
        probe, _, lines = rank("--nodes", "2", "--ranks", "2", gpu=gpu)
        a_second_each(monkeypatch, probe)
        probe.all_reduce()
        assert lines == [
            {"phase": "all-reduce", "gb_s": pytest.approx(1.5 * size / 1e9), "transport": "" if gpu else "gloo"}
        ]


NETWORKS = {
    "host:1:2 [0] NCCL INFO Using network AWS Libfabric\n": "AWS Libfabric",
    "host:1:2 [0] NCCL INFO Using network Socket\r\n": "Socket",
    "x NCCL INFO Assigned NET plugin Libfabric to comm\n": "Libfabric",
    "x NCCL INFO Using network Socket\ny NCCL INFO Using network IB\n": "IB",
    "x NCCL INFO cudaDriverVersion 12040\n": "",
}


@pytest.mark.parametrize("log", NETWORKS)
def test_the_network_is_nccls_own_word(log: str, rank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-debug-file: %h and %p"""
    import socket

    probe, _, _ = rank(gpu=True)
    monkeypatch.setenv("NCCL_DEBUG_FILE", str(tmp_path / "nccl-%h-%p.log"))
    assert probe.transport() == ""
    (tmp_path / f"nccl-{socket.gethostname()}-{os.getpid()}.log").write_text(log, newline="")
    assert probe.transport() == NETWORKS[log]


# --- storage ---------------------------------------------------------------------------------------------------------


def stored(rank: Any, tmp_path: Path, *words: str) -> tuple[node_probe.Rank, list[dict[str, Any]]]:
    folder = tmp_path / "check" / "1"
    probe, _, lines = rank("--storage", str(folder), "--storage-mib", "16", *words)
    return probe, lines


def test_a_node_reads_what_the_next_one_wrote(rank: Any, tmp_path: Path) -> None:
    probe, lines = stored(rank, tmp_path, "--node", "1", "--nodes", "2")
    other, _ = stored(rank, tmp_path, "--node", "0", "--nodes", "2")
    other.storage()
    probe.storage()
    (line,) = lines
    assert (line["phase"], line["wrong"], line["error"]) == ("storage", 0, "")
    assert line["write_gb_s"] > 0 and line["read_gb_s"] > 0
    folder = tmp_path / "check" / "1"
    assert {path.name: path.stat().st_size for path in folder.glob("node-?")} == dict.fromkeys(
        ("node-0", "node-1"), 16 * MIB
    )
    spoiled = bytearray((folder / "node-0").read_bytes())
    spoiled[9 * MIB] ^= 4
    (folder / "node-0").write_bytes(spoiled)
    probe.storage()
    assert lines[-1]["wrong"] == 1
    (folder / "node-0").write_bytes(spoiled[: 8 * MIB])
    probe.storage()
    assert lines[-1]["wrong"] == 1, "a part is missing"
    (folder / "node-0.crc").write_text("x")
    probe.storage()
    assert "reading node-0: invalid literal" in lines[-1]["error"]


def test_a_node_alone_reads_its_own_file(rank: Any, tmp_path: Path) -> None:
    probe, lines = stored(rank, tmp_path)
    probe.storage()
    assert (lines[0]["wrong"], lines[0]["error"]) == (0, "")
    part = (tmp_path / "check" / "1" / "node-0").read_bytes()[: 8 * MIB]
    assert (tmp_path / "check" / "1" / "node-0.crc").read_text() == str(zlib.crc32(part))


def test_storage_that_cannot_be_written_says_why(rank: Any, tmp_path: Path) -> None:
    (tmp_path / "check").write_text("no folder")
    probe, lines = stored(rank, tmp_path)
    probe.storage()
    assert (lines[0]["error"], lines[0]["write_gb_s"], lines[0]["read_gb_s"]) == ("Not a directory", 0.0, 0.0)


def test_one_process_of_a_node_writes(rank: Any, tmp_path: Path) -> None:
    probe, lines = stored(rank, tmp_path, "--local", "1")
    probe.storage()
    assert lines == [] and not (tmp_path / "check").exists()


def test_each_node_removes_its_files_and_the_last_one_the_folder(tmp_path: Path) -> None:
    for name in ("node-0", "node-0.crc", "node-1"):
        (tmp_path / name).write_text("x")
    node_probe.clear(tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["node-1"]
    node_probe.clear(tmp_path, 1)
    assert not tmp_path.exists()
    node_probe.clear(tmp_path, 1)


# --- phases, and the agent of a node ---------------------------------------------------------------------------------

ALL = ["compute", "memory", "join", "storage", "pairs", "all_reduce"]
PHASES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "two nodes with storage": (("--nodes", "2", "--storage", "/fsx/x"), ALL),
    "one node of several GPUs": (("--ranks", "2"), ["compute", "memory", "join", "pairs", "all_reduce"]),
    "one process": ((), ["compute", "memory", "join"]),
    "one process with storage": (("--storage", "/fsx/x"), ["compute", "memory", "join", "storage"]),
}


@pytest.mark.parametrize("case", PHASES)
def test_the_phases_of_a_process(case: str, rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words, phases = PHASES[case]
    probe, _, lines = rank(*words)
    done: list[str] = []
    for phase in ALL:
        monkeypatch.setattr(probe, phase, lambda phase=phase: done.append(phase))
    assert probe.run() == 0
    assert (done, lines) == (phases, [{"phase": "done"}])


@pytest.mark.parametrize("phase", ALL)
def test_the_first_phase_that_fails_ends_them(phase: str, rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, _, lines = rank("--nodes", "2", "--storage", "/fsx/x")

    def fail() -> None:
        raise RuntimeError("CUDA error: uncorrectable ECC error\nand a long trace")

    for other in ALL:
        monkeypatch.setattr(probe, other, fail if other == phase else lambda: None)
    assert probe.run() == 1
    during = {"compute": "start", "all_reduce": "all-reduce"}.get(phase, phase)
    assert lines == [
        {"phase": "failed", "during": during, "error": "RuntimeError: CUDA error: uncorrectable ECC error"}
    ]


PROCESS = """
import json, sys
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
local = int(words["--local"])
def say(phase):
    line = {"node": int(words["--node"]), "local": local, "phase": phase}
    print("HYPERPOD-RAY-CHECK " + json.dumps(line), flush=True)
print("a line of torch")
if local == 0:
    say("compute"); say("done")
else:
    say("compute"); sys.stderr.write("out of memory\\n\\n"); sys.exit(3)
"""


def test_an_agent_collects_what_its_processes_print_and_how_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "node_probe.py"
    program.write_text(PROCESS)
    monkeypatch.setattr(node_probe, "__file__", str(program))
    monkeypatch.setattr(node_probe, "health", lambda: [{"index": 0}])
    monkeypatch.setenv("SLURMD_NODENAME", "ip-10-0-0-7")
    folder = tmp_path / "storage"
    folder.mkdir()
    (folder / "node-4").write_text("x")
    words = ["agent", "--node", "4", "--ranks", "2", "--limit", "600", "--storage", str(folder)]
    answer = node_probe.agent(node_probe.parser().parse_args(words))
    assert {key: answer[key] for key in ("node", "host", "ranks", "before", "after")} == {
        "node": 4, "host": "ip-10-0-0-7", "ranks": 2, "before": [{"index": 0}], "after": [{"index": 0}],
    }  # fmt: skip
    failed = {line["local"]: line for line in answer["lines"] if line["phase"] == "failed"}
    assert [line["phase"] for line in answer["lines"] if line["local"] == 0] == ["compute", "done"]
    assert failed == {
        1: {"node": 4, "local": 1, "phase": "failed", "error": "exit code 3: out of memory", "during": "after compute"}
    }
    assert not folder.exists(), "what it wrote is gone"


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "node_probe.py"
    program.write_text("import time; time.sleep(3600)")
    monkeypatch.setattr(node_probe, "__file__", str(program))
    monkeypatch.setattr(node_probe, "health", list)
    (line,) = node_probe.agent(node_probe.parser().parse_args(["agent", "--limit", "0.1"]))["lines"]
    assert line == {"node": 0, "local": 0, "phase": "failed", "error": "no end after 0.1 s", "during": "start"}


def test_what_a_process_of_the_agent_is_told() -> None:
    options = node_probe.parser().parse_args(
        ["agent", "--node", "2", "--nodes", "4", "--ranks", "8", "--master", "h:1", "--storage", "/fsx/x",
         "--storage-mib", "64", "--seconds", "3", "--patience", "9", "--limit", "99"]
    )  # fmt: skip
    told = node_probe.parser().parse_args(["rank", "--local", "5", *node_probe._words(options)])
    names = ("node", "nodes", "ranks", "master", "storage", "storage_mib", "seconds", "patience")
    assert all(getattr(told, name) == getattr(options, name) for name in names)
    assert told.local == 5


def test_a_count_is_one_line_for_the_reader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "ip-1")
    monkeypatch.setattr(node_probe, "devices", lambda: 8)
    assert node_probe.main(["count"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line.removeprefix("HYPERPOD-RAY-CHECK ")) == {"host": "ip-1", "devices": 8}

    def fail() -> int:
        raise RuntimeError("python: " + "x" * 400)

    monkeypatch.setattr(node_probe, "devices", fail)
    assert node_probe.main(["count", "--node", "3"]) == 0
    answer = json.loads(capsys.readouterr().out.removeprefix("HYPERPOD-RAY-CHECK "))
    assert (answer["host"], answer["node"], len(answer["error"])) == ("ip-1", 3, 300)
    monkeypatch.delenv("SLURMD_NODENAME")
    assert re.fullmatch(r"[\w.-]+", node_probe.host())
