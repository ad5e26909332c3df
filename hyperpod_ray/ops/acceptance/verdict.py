"""What the measurements of an acceptance test mean: figures of each node, and what is wrong with which. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hyperpod_ray.ops.output import figure

RELATIVE = {"fabric": 0.8, "compute": 0.9, "memory": 0.8, "storage": 0.5}
"""A node below this share of the upper median of all nodes is slow. Bounds of this project."""
RELATIVE_CPU = 0.4
"""The same where processes share CPU cores, whose rates differ by themselves."""
ABSOLUTE = 0.5
"""Share of what the instance type or file system should give, below which even equal nodes are slow."""
PHASES = ("start", "compute", "memory", "join", "storage", "pairs", "all-reduce")
"""In this order; a process that fails in a later one may have waited for one that failed before."""
LEAST_DRIVER = {"11": 450, "12": 525, "13": 580}
"""The oldest driver that runs each version of CUDA.

https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
"""
Severity = Literal["fault", "note"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What an instance type and a file system should give; None where that is not known."""

    network_gb_s: float | None = None
    tflops: float | None = None
    storage_gb_s: float | None = None
    """Of all measured nodes together."""
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeFinding:
    """Something wrong with a node, or worth knowing of it."""

    node: str
    area: str
    text: str
    severity: Severity = "fault"

    @property
    def sentence(self) -> str:
        """Node, area and text."""
        return f"{self.node}: {self.area}: {self.text}" if self.node else f"{self.area}: {self.text}"


@dataclass(kw_only=True)
class Node:
    """What was measured of a node."""

    name: str
    state: Literal["good", "faulty", "busy"] = "good"
    tflops: float | None = None
    """Of its slowest GPU."""
    memory_gb_s: float | None = None
    write_gb_s: float | None = None
    read_gb_s: float | None = None
    pair_gb_s: float | None = None
    """With its best partner, one way, all its GPUs together."""
    partners: dict[str, float] = field(default_factory=dict)
    all_reduce_gb_s: float | None = None
    ecc: int | None = None
    """Errors that its GPUs could not correct."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All nodes, and what is wrong."""

    nodes: list[Node]
    findings: list[NodeFinding]
    transport: str
    cuda: bool

    @property
    def faults(self) -> list[NodeFinding]:
        """Findings that make the test fail."""
        return [finding for finding in self.findings if finding.severity == "fault"]

    @property
    def all_reduce_gb_s(self) -> float | None:
        """Of the slowest process; None where nothing was measured between processes."""
        return min((node.all_reduce_gb_s for node in self.nodes if node.all_reduce_gb_s is not None), default=None)


def judge(answer: Mapping[str, Any], expected: Expected, *, names: Mapping[str, str] | None = None) -> Report:
    """The report of a test.

    Args:
        answer: What a probe printed: `answers`, `busy`, `cuda`, `ranks`.
        expected: What the nodes should give.
        names: Names of nodes by their hosts. Default: the hosts.
    """
    cuda, ranks = bool(answer.get("cuda")), int(answer.get("ranks") or 1)
    listed = names or {}
    nodes: list[Node] = []
    findings: list[NodeFinding] = []
    by_number: dict[int, Node] = {}
    parts: dict[str, Mapping[str, Any]] = {}
    for part in answer["answers"]:
        node = Node(name=_name(part, listed, nodes))
        nodes.append(node)
        parts[node.name] = part
        if "node" in part and "lines" in part:
            by_number[int(part["node"])] = node
        if error := part.get("error"):
            findings.append(NodeFinding(node=node.name, area="start", text=str(error)))
    for node in by_number.values():
        _fill(node, parts[node.name], by_number)
        findings += _wrong(node, parts[node.name])
        findings += _counted(node, parts[node.name])
        if not cuda:
            findings += _old_driver(node, parts[node.name])
        if cuda and expected.gpus and ranks != expected.gpus:
            findings.append(
                NodeFinding(node=node.name, area="GPU", text=f"{ranks} GPUs answer, the type has {expected.gpus}")
            )
    findings += _failed(by_number, parts)
    measured = list(by_number.values())
    findings += _slow(measured, cuda=cuda)
    findings += _below(measured, expected, cuda=cuda)
    findings += _links(measured, cuda=cuda)
    transports = {line["transport"] for part in parts.values() for line in _lines(part, "all-reduce")}
    transport = ", ".join(sorted(filter(None, transports)))
    if len(transports - {""}) > 1:
        findings.append(NodeFinding(node="", area="fabric", text=f"nodes send by different networks: {transport}"))
    if cuda and "Socket" in transport and expected.network_gb_s and len(measured) > 1:
        findings.append(
            NodeFinding(node="", area="fabric", text="NCCL sends over TCP sockets: the image lacks EFA's plugin")
        )
    if len(measured) == 1:
        findings.append(
            NodeFinding(node=measured[0].name, area="fabric", text="one node: nothing was measured between nodes",
                    severity="note")
        )  # fmt: skip
    bad = {finding.node for finding in findings if finding.severity == "fault"}
    for node in nodes:
        node.state = "faulty" if node.name in bad else "good"
    for host in answer.get("busy", ()):
        node = Node(name=_name(host, listed, nodes), state="busy")
        nodes.append(node)
        findings.append(
            NodeFinding(node=node.name, area="busy", text="a run holds it: it was not measured", severity="note")
        )  # fmt: skip
    return Report(nodes=nodes, findings=findings, transport=transport, cuda=cuda)


def _name(part: Mapping[str, Any], listed: Mapping[str, str], before: Sequence[Node]) -> str:
    """The node's name; with its address where several share a host's name, as in a rehearsal."""
    host = str(part.get("host") or part.get("address") or "?")
    name = listed.get(host, host)
    if any(node.name == name for node in before) or (name == host and str(part.get("address", "")).startswith("127.")):
        name = f"{name}/{part.get('address') or len(before)}"
    return name


def _lines(part: Mapping[str, Any], phase: str) -> list[Mapping[str, Any]]:
    return [line for line in part.get("lines", ()) if line["phase"] == phase]


def _fill(node: Node, part: Mapping[str, Any], by_number: Mapping[int, Node]) -> None:
    node.tflops = min((line["tflops"] for line in _lines(part, "compute")), default=None)
    node.memory_gb_s = min((line["gb_s"] for line in _lines(part, "memory")), default=None)
    for line in _lines(part, "storage"):
        node.write_gb_s, node.read_gb_s = line["write_gb_s"] or None, line["read_gb_s"] or None
    sums: dict[int, float] = {}
    for line in _lines(part, "pair"):
        sums[line["partner"]] = sums.get(line["partner"], 0.0) + line["gb_s"]
    node.partners = {by_number[other].name if other in by_number else str(other): rate for other, rate in sums.items()}
    node.pair_gb_s = max(sums.values(), default=None)
    node.all_reduce_gb_s = min((line["gb_s"] for line in _lines(part, "all-reduce")), default=None)
    counts = [gpu.get("uncorrected") for gpu in part.get("after", ()) if gpu.get("uncorrected") is not None]
    node.ecc = sum(counts) if counts else None


def _wrong(node: Node, part: Mapping[str, Any]) -> Iterator[NodeFinding]:
    """Results that are wrong."""

    def fault(area: str, text: str) -> NodeFinding:
        return NodeFinding(node=node.name, area=area, text=text)

    for line in _lines(part, "compute"):
        if line["wrong"]:
            yield fault(
                "GPU", f"GPU {line['local']}: {line['wrong']} of {line['products']} products differ from the first"
            )
    for line in _lines(part, "memory"):
        if line["wrong"]:
            yield fault("memory", f"GPU {line['local']}: {line['wrong']} words differ from what was written")
    for line in _lines(part, "storage"):
        if line["error"]:
            yield fault("storage", line["error"])
        if line["wrong"]:
            yield fault("storage", f"{line['wrong']} blocks differ from what was written")


def _counted(node: Node, part: Mapping[str, Any]) -> Iterator[NodeFinding]:
    """What nvidia-smi counts of each GPU."""

    def fault(area: str, text: str) -> NodeFinding:
        return NodeFinding(node=node.name, area=area, text=text)

    before = {gpu["index"]: gpu for gpu in part.get("before", ())}
    for gpu in part.get("after", ()):
        index = gpu["index"]
        if gpu.get("error"):
            yield fault("GPU", gpu["error"])
        if gpu.get("uncorrected"):
            yield fault("ECC", f"GPU {index}: {gpu['uncorrected']} uncorrected errors since the driver's start")
        if gpu.get("rows_failed"):
            yield fault("ECC", f"GPU {index}: a row of memory could not be remapped")
        if gpu.get("rows_pending"):
            yield fault("ECC", f"GPU {index}: a row of memory is remapped at the next reset")
        if gpu.get("slowed"):
            yield fault("GPU", f"GPU {index}: its clock is lowered by hardware (heat or power)")
        grown = (gpu.get("corrected") or 0) - (before.get(index, {}).get("corrected") or 0)
        if grown > 0:
            yield NodeFinding(
                node=node.name, area="ECC", text=f"GPU {index}: {grown} corrected errors in the test", severity="note"
            )


def _old_driver(node: Node, part: Mapping[str, Any]) -> Iterator[NodeFinding]:
    """A driver that is older than the image's CUDA, so that torch uses no GPU. A rehearsal's torch has no CUDA."""
    version = str(part.get("driver", ""))
    cuda = next((str(line.get("cuda", "")) for line in _lines(part, "compute")), "")
    least = LEAST_DRIVER.get(cuda.partition(".")[0], 0)
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < least:
        text = f"torch uses no GPU: CUDA {cuda} of the image needs driver {least} or newer, and the AMI has {version}"
        yield NodeFinding(node=node.name, area="driver", text=text)


def _failed(by_number: Mapping[int, Node], parts: Mapping[str, Mapping[str, Any]]) -> Iterator[NodeFinding]:
    """Processes that did not end: the earliest phase is the cause, later ones waited for it."""
    failures = [(node, line) for node in by_number.values() for line in _lines(parts[node.name], "failed")]
    if not failures:
        return

    def place(line: Mapping[str, Any]) -> int:
        during = str(line["during"]).removeprefix("after ")
        known = {"pair": "pairs", "done": "all-reduce"}.get(during, during)
        return (PHASES.index(known) if known in PHASES else 0) + str(line["during"]).startswith("after ")

    ended = [entry for entry in failures if "exit code" in entry[1]["error"]]
    first = min(place(line) for _, line in ended or failures)
    for node, line in failures:
        cause = place(line) == first and (not ended or (node, line) in ended)
        yield NodeFinding(
            node=node.name, area=str(line["during"]), severity="fault" if cause else "note",
            text=f"process {line['local']}: {line['error']}" + ("" if cause else "; it waited for another node"),
        )  # fmt: skip


def _slow(nodes: Sequence[Node], *, cuda: bool) -> Iterator[NodeFinding]:
    """Nodes below the others."""
    for area, name, unit in (
        ("compute", "tflops", "TFLOP/s"), ("memory", "memory_gb_s", "GB/s"), ("storage", "write_gb_s", "GB/s written"),
        ("storage", "read_gb_s", "GB/s read"), ("fabric", "pair_gb_s", "GB/s with its best partner"),
    ):  # fmt: skip
        rates = {node.name: rate for node in nodes if (rate := getattr(node, name)) is not None}
        if len(rates) < 2:
            continue
        usual = statistics.median_high(rates.values())
        least = RELATIVE[area] if cuda else min(RELATIVE[area], RELATIVE_CPU)
        for node, rate in rates.items():
            if rate < least * usual:
                yield NodeFinding(
                    node=node, area=area,
                    text=f"slow: {figure(rate)} {unit}, {rate / usual:.0%} of the others' {figure(usual)}",
                )  # fmt: skip


def _below(nodes: Sequence[Node], expected: Expected, *, cuda: bool) -> Iterator[NodeFinding]:
    """Figures below what the type and the file system should give."""
    if cuda and expected.tflops:
        for node in nodes:
            if node.tflops is not None and node.tflops < ABSOLUTE * expected.tflops:
                yield NodeFinding(
                    node=node.name, area="compute",
                    text=f"{figure(node.tflops)} TFLOP/s, {_share(node.tflops, expected.tflops)} of the data sheet",
                )  # fmt: skip
    pairs = {node.name: node.pair_gb_s for node in nodes if node.pair_gb_s is not None}
    if cuda and expected.network_gb_s and pairs:
        low = [name for name, rate in pairs.items() if rate < ABSOLUTE * expected.network_gb_s]
        if low and len(pairs) == 2:
            rate = min(pairs.values())
            yield NodeFinding(
                node="", area="fabric", text=f"{' and '.join(pairs)} exchange {figure(rate)} GB/s, "
                f"{_share(rate, expected.network_gb_s)} of the type: which of the two is slow shows with a third node",
            )  # fmt: skip
        else:
            for name in low:
                share = _share(pairs[name], expected.network_gb_s)
                yield NodeFinding(
                    node=name, area="fabric",
                    text=f"{figure(pairs[name])} GB/s with its best partner, {share} of the type",
                )  # fmt: skip
    written = [node.write_gb_s for node in nodes if node.write_gb_s is not None]
    if cuda and expected.storage_gb_s and written and sum(written) < ABSOLUTE * expected.storage_gb_s:
        yield NodeFinding(
            node="", area="storage",
            text=f"{figure(sum(written))} GB/s written by all nodes, {_share(sum(written), expected.storage_gb_s)} of "
            "the file system: other work on it counts too",
        )  # fmt: skip


def _share(rate: float, whole: float) -> str:
    return f"{rate / whole:.0%} of the {whole:.4g}"


def _links(nodes: Sequence[Node], *, cuda: bool) -> Iterator[NodeFinding]:
    """Pairs that are slow though each of the two is fast with another partner."""
    best = {node.name: node.pair_gb_s for node in nodes if node.pair_gb_s is not None}
    if len(best) < 3:
        return
    usual = statistics.median_high(best.values())
    least = RELATIVE["fabric"] if cuda else RELATIVE_CPU
    for node in nodes:
        for other, rate in node.partners.items():
            both = min(best.get(node.name, 0.0), best.get(other, 0.0))
            if node.name < other and rate < least * both and both >= least * usual:
                yield NodeFinding(
                    node="", area="fabric",
                    text=f"between {node.name} and {other} {figure(rate)} GB/s, though each reaches {figure(both)}",
                )  # fmt: skip
