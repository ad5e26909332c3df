"""Measures a node together with the other nodes of an acceptance test; prints one line of JSON.

    python node_probe.py count
    python node_probe.py agent --node 0 --nodes 2 --ranks 8 --master 10.0.0.1:29400 --storage /fsx/check --seconds 60

The agent of a node starts one process for each GPU, or one on the CPU, and collects what they print. A process that
fails or hangs costs its own measurements alone: what was measured before stays.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

MARK = "HYPERPOD-RAY-CHECK "
"""Begins the lines that are for the reader; whatever else a log contains is not."""
MIB = 1 << 20
REPEATS = 40
"""Of each copy and exchange; their mean counts, so that a node that stalls now and then is slow."""
ROUNDS = 7
"""Most partners that a node exchanges data with."""
ECC = {
    "uncorrected": "ecc.errors.uncorrected.volatile.total",
    "corrected": "ecc.errors.corrected.volatile.total",
    "uncorrected_ever": "ecc.errors.uncorrected.aggregate.total",
    "slowed": "clocks_throttle_reasons.hw_slowdown",
    "temperature": "temperature.gpu",
}  # https://docs.nvidia.com/deploy/nvidia-smi/index.html
REMAPPED = {"rows_pending": "remapped_rows.pending", "rows_failed": "remapped_rows.failure"}
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) ([^\r\n]+?)(?: to comm)?\s*$", re.M)


def rounds(nodes: int, most: int = ROUNDS) -> list[list[tuple[int, int]]]:
    """Pairs of nodes by round: each node is in one pair of a round at most, and no pair comes twice."""
    places = [*range(nodes), *([-1] if nodes % 2 else [])]
    table = []
    for _ in range(min(len(places) - 1, most)):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        table.append([(min(pair), max(pair)) for pair in pairs if -1 not in pair])
        places = [places[0], places[-1], *places[1:-1]]
    return table


# --- one process of a GPU, or of the CPU --------------------------------------------------------------------------


class Rank:
    """One process, with its device and its way to the others."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        self.options, self.torch = options, torch
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", options.local) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        else:
            torch.set_num_threads(1)

    def emit(self, phase: str, **figures: Any) -> None:
        """Print what a phase measured."""
        line = {"node": self.options.node, "local": self.options.local, "phase": phase, **figures}
        sys.stdout.write(f"{MARK}{json.dumps(line)}\n")
        sys.stdout.flush()

    def join(self) -> None:
        """Meet the other processes."""
        import torch.distributed as dist

        options = self.options
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self.cuda else "gloo",
            init_method=f"tcp://{options.master}",
            rank=options.node * options.ranks + options.local,
            world_size=options.nodes * options.ranks,
            timeout=timedelta(seconds=options.patience),
        )

    def meet(self) -> None:
        """Wait for all others."""
        import torch.distributed as dist

        dist.all_reduce(self.torch.zeros(1))

    def settle(self) -> None:
        """Wait for the device."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def compute(self) -> None:
        """Multiply matrices; each product is compared with the first one, bit by bit."""
        torch, size = self.torch, 8192 if self.cuda else 512
        generator = torch.Generator().manual_seed(17)
        kind = torch.bfloat16 if self.cuda else torch.float32
        left, right = (torch.randn(size, size, generator=generator).to(self.device, kind) for _ in range(2))
        first = left @ right
        self.settle()
        rates: list[float] = []
        wrong, begin = 0, time.monotonic()
        while time.monotonic() - begin < self.options.seconds or not rates:
            start, count = time.monotonic(), 0
            while time.monotonic() - start < min(0.5, self.options.seconds / 4):
                for _ in range(10):
                    product = left @ right
                self.settle()
                count += 10
            rates.append(2 * size**3 * count / (time.monotonic() - start) / 1e12)
            wrong += not torch.equal(product, first)
        self.emit(
            "compute", tflops=statistics.median(rates), least=min(rates), wrong=wrong, products=len(rates),
            device=torch.cuda.get_device_name(self.device) if self.cuda else "CPU", cuda=torch.version.cuda or "",
        )  # fmt: skip

    def memory(self) -> None:
        """Write a pattern into most of the memory, read it again; then the rate of copies within it."""
        torch = self.torch
        chunk = 1024 * MIB if self.cuda else 64 * MIB
        free = torch.cuda.mem_get_info(self.device)[0] if self.cuda else 2 * chunk
        blocks, wrong = [], 0
        for number in range(max(1, int(0.85 * free) // chunk)):
            blocks.append(torch.full((chunk // 4,), number + 0x5A5A5A, dtype=torch.int32, device=self.device))
        for number, block in enumerate(blocks):
            wrong += int((block != number + 0x5A5A5A).sum())
        tested = len(blocks) * chunk
        source = blocks[0]
        target = blocks[1] if len(blocks) > 1 else torch.empty_like(source)
        seconds = self.mean(lambda: target.copy_(source))
        self.emit("memory", tested_gib=tested / 2**30, wrong=wrong, gb_s=2 * chunk / seconds / 1e9)
        blocks.clear()
        source = target = torch.empty(0)
        if self.cuda:
            torch.cuda.empty_cache()

    def mean(self, action: Any) -> float:
        """Mean seconds of an action, after two that do not count."""
        for _ in range(2):
            action()
        self.settle()
        start = time.monotonic()
        for _ in range(REPEATS):
            action()
        self.settle()
        return max((time.monotonic() - start) / REPEATS, 1e-9)

    def storage(self) -> None:
        """Write a file and force it to the servers, read the next node's: that one is not in this node's cache."""
        options, failed, wrote = self.options, "", 0.0
        folder, own = Path(options.storage), f"node-{options.node}"
        part = os.urandom(8 * MIB)
        parts = max(1, int(options.storage_mib // 8))
        first = options.local == 0
        if first:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                start = time.monotonic()
                with (folder / own).open("wb") as stream:
                    for _ in range(parts):
                        stream.write(part)
                    stream.flush()
                    os.fsync(stream.fileno())
                wrote = parts * len(part) / (time.monotonic() - start) / 1e9
                (folder / f"{own}.crc").write_text(str(zlib.crc32(part)))
            except OSError as error:
                failed = f"{error.strerror or error}"
        self.meet()
        if first:
            self._read_next(folder, parts, wrote, failed)
        self.meet()

    def _read_next(self, folder: Path, parts: int, wrote: float, failed: str) -> None:
        options = self.options
        other, read, wrong = f"node-{(options.node + 1) % options.nodes}", 0.0, 0
        try:
            expected = int((folder / f"{other}.crc").read_text())
            spent, count = 0.0, 0
            with (folder / other).open("rb") as stream:
                if options.nodes == 1:
                    os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while True:
                    start = time.monotonic()
                    content = stream.read(8 * MIB)
                    spent += time.monotonic() - start
                    if not content:
                        break
                    count += 1
                    wrong += zlib.crc32(content) != expected
            read = count * 8 * MIB / max(spent, 1e-9) / 1e9
            wrong += count != parts
        except (OSError, ValueError) as error:
            failed = failed or f"reading {other}: {error}"
        self.emit("storage", write_gb_s=wrote, read_gb_s=read, wrong=wrong, error=failed)

    def pairs(self) -> None:
        """Exchange data with one node after the other, both ways at once; both nodes' same GPUs do it."""
        import torch.distributed as dist

        options = self.options
        size = (256 if self.cuda else 4) * MIB
        outgoing = self.torch.ones(size // 4, device=self.device)
        incoming = self.torch.empty_like(outgoing)
        for number, table in enumerate(rounds(options.nodes)):
            other = next((sum(pair) - options.node for pair in table if options.node in pair), None)
            self.meet()
            if other is None:
                continue
            peer = other * options.ranks + options.local

            def exchange(peer: int = peer) -> None:
                ways = [dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, peer)]
                for way in dist.batch_isend_irecv(ways):
                    way.wait()

            self.emit("pair", round=number, partner=other, gb_s=size / self.mean(exchange) / 1e9)

    def all_reduce(self) -> None:
        """All processes add up: bytes a second that pass each of them, as nccl-tests count them."""
        import torch.distributed as dist

        world = self.options.nodes * self.options.ranks
        size = (1024 if self.cuda else 4) * MIB
        numbers = self.torch.zeros(size // 4, device=self.device)
        self.meet()
        seconds = self.mean(lambda: dist.all_reduce(numbers))
        self.emit("all-reduce", gb_s=2 * (world - 1) / world * size / seconds / 1e9, transport=self.transport())

    def transport(self) -> str:
        """The network that NCCL names in its log; `gloo` on CPU."""
        if not self.cuda:
            return "gloo"
        name = os.environ.get("NCCL_DEBUG_FILE", "").replace("%h", socket.gethostname()).replace("%p", str(os.getpid()))
        with contextlib.suppress(OSError):
            networks = _NETWORK.findall(Path(name).read_text(errors="replace"))
            return str(networks[-1]) if networks else ""
        return ""

    def run(self) -> int:
        """All phases; the first that fails ends them."""
        phase = "start"
        try:
            self.compute()
            phase = "memory"
            self.memory()
            phase = "join"
            self.join()
            for phase in (["storage"] if self.options.storage else []) + (
                ["pairs", "all_reduce"] if self.options.nodes * self.options.ranks > 1 else []
            ):
                getattr(self, phase)()
        except Exception as error:
            text = str(error).strip().splitlines()
            self.emit(
                "failed", during=phase.replace("_", "-"), error=f"{type(error).__name__}: {(text or [''])[0][:300]}"
            )
            return 1
        self.emit("done")
        return 0


# --- the agent of a node -------------------------------------------------------------------------------------------


def host() -> str:
    """This node's name: Slurm's where Slurm started this."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def devices() -> int:
    """GPUs that torch can use here, asked in a process of its own: this one stays without a CUDA context."""
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RuntimeError(f"{sys.executable}: {last[:200]}")
    return int(done.stdout.split()[-1])


def health() -> list[dict[str, Any]]:
    """What nvidia-smi counts of each GPU; empty where there is no nvidia-smi."""
    gpus = []
    try:
        for index, row in enumerate(_smi("--query-gpu=" + ",".join(ECC.values()))):
            gpus.append({"index": index, **dict(zip(ECC, row, strict=False))})
        for gpu, row in zip(gpus, _smi("--query-remapped-rows=" + ",".join(REMAPPED.values())), strict=False):
            gpu |= dict(zip(REMAPPED, row, strict=False))
    except FileNotFoundError:
        return []
    except (OSError, subprocess.SubprocessError) as error:
        return [*gpus, {"index": -1, "error": f"nvidia-smi: {error}"[:200]}]
    return gpus


def driver() -> str:
    """Version of NVIDIA's driver; empty where nvidia-smi does not say it."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return next(iter(_rows("--query-gpu=driver_version")), [""])[0]
    return ""


def _smi(query: str) -> Iterator[list[int | None]]:
    for row in _rows(query):
        yield [_count(cell) for cell in row]


def _rows(query: str) -> list[list[str]]:
    """The cells of each GPU."""
    done = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise subprocess.SubprocessError((done.stdout + done.stderr).strip()[:160] or f"exit code {done.returncode}")
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def _count(cell: str) -> int | None:
    words = {"Active": 1, "Not Active": 0, "Yes": 1, "No": 0}
    return int(cell) if cell.isdecimal() else words.get(cell)


def agent(options: argparse.Namespace) -> dict[str, Any]:
    """Start the node's processes, and collect what they print."""
    environment = dict(os.environ)
    environment.setdefault("NCCL_DEBUG", "INFO")
    environment.setdefault("NCCL_DEBUG_SUBSYS", "INIT,NET")
    environment.setdefault("NCCL_DEBUG_FILE", str(Path(tempfile.gettempdir()) / "nccl-check-%p.log"))
    if options.master.startswith("127."):
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    before = health()
    lines: list[dict[str, Any]] = []
    last_words = [""] * options.ranks
    processes, readers = [], []
    for local in range(options.ranks):
        words = [sys.executable, __file__, "rank", "--local", str(local), *_words(options)]
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        processes.append(process)
        for target, arguments in ((_collect, (process.stdout, lines)), (_listen, (process.stderr, last_words, local))):
            thread = threading.Thread(target=target, args=arguments, daemon=True)
            thread.start()
            readers.append(thread)
    end = time.monotonic() + options.limit
    hung = []
    for local, process in enumerate(processes):
        try:
            process.wait(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            hung.append(local)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for thread in readers:
        thread.join(timeout=5)
    if options.storage:
        clear(Path(options.storage), options.node)
    ended = {(line["local"]) for line in lines if line["phase"] in ("done", "failed")}
    for local in set(range(options.ranks)) - ended:
        during = [line["phase"] for line in lines if line["local"] == local]
        error = f"no end after {options.limit:g} s" if local in hung else f"exit code {processes[local].returncode}"
        error += f": {last_words[local][:200]}" if last_words[local] else ""
        lines.append(
            {"node": options.node, "local": local, "phase": "failed", "error": error,
             "during": f"after {during[-1]}" if during else "start"}
        )  # fmt: skip
    return {
        "node": options.node, "host": host(), "ranks": options.ranks, "lines": lines,
        "before": before, "after": health(), "driver": driver(),
    }  # fmt: skip


def clear(folder: Path, node: int) -> None:
    """Remove a node's files, whatever became of its processes; the last node removes the folder."""
    for name in (f"node-{node}", f"node-{node}.crc"):
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _collect(stream: Any, lines: list[dict[str, Any]]) -> None:
    for line in stream:
        if line.startswith(MARK):
            lines.append(json.loads(line[len(MARK) :]))


def _listen(stream: Any, last_words: list[str], local: int) -> None:
    """Keep the last line of a process's errors: its pipe must not fill."""
    for line in stream:
        if line.strip():
            last_words[local] = line.strip()


def _words(options: argparse.Namespace) -> list[str]:
    names = ("node", "nodes", "ranks", "master", "storage", "storage_mib", "seconds", "patience")
    return [word for name in names for word in (f"--{name.replace('_', '-')}", str(getattr(options, name)))]


def parser() -> argparse.ArgumentParser:
    """The options of an agent and of its processes."""
    words = argparse.ArgumentParser()
    words.add_argument("part", choices=("count", "agent", "rank"))
    for name, number, default in (
        ("node", int, 0), ("nodes", int, 1), ("ranks", int, 1), ("local", int, 0), ("seconds", float, 60.0),
        ("storage-mib", float, 4096.0), ("patience", float, 300.0), ("limit", float, 900.0),
    ):  # fmt: skip
        words.add_argument(f"--{name}", type=number, default=default)
    words.add_argument("--master", default="127.0.0.1:29400")
    words.add_argument("--storage", default="")
    return words


def main(arguments: list[str]) -> int:
    """Run a part."""
    options = parser().parse_args(arguments)
    if options.part == "rank":
        return Rank(options).run()
    try:
        answer: dict[str, Any] = {"host": host(), "devices": devices()} if options.part == "count" else agent(options)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        answer = {"host": host(), "node": options.node, "error": str(error)[:300]}
    sys.stdout.write(f"{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
