"""`nodes check`: what measurements mean, for types, sizes and faults that nobody planned for; journal and picture."""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops import output
from hyperpod_ray.ops.acceptance import check, node_probe, picture, verdict
from hyperpod_ray.ops.acceptance.verdict import Expected, Report
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.orchestrators.eks.node_check import EksNodeCheck
from hyperpod_ray.ops.orchestrators.node_check import Measured, Request
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import clients
from hyperpod_ray.planner import checked_nodes

Json = dict[str, Any]
P5 = Expected(network_gb_s=400.0, tflops=989.4, storage_gb_s=3.0, gpus=8)
GPU = {"uncorrected": 0, "corrected": 0, "uncorrected_ever": 0, "slowed": 0, "temperature": 60}


def cluster_of(count: int, *, gpus: int = 8, pair: float = 45.0, cuda: bool = True, **figures: float) -> Json:
    """What the probes of equal nodes print: every pair of every round, each GPU with its own line."""
    rates = {"tflops": 640.0, "memory": 2400.0, "write": 2.0, "read": 2.5, "all_reduce": 370.0, **figures}
    answers = []
    for node in range(count):
        lines: list[Json] = []
        for local in range(gpus):
            place = {"node": node, "local": local}
            lines += [
                {**place, "phase": "compute", "tflops": rates["tflops"], "least": 1.0, "wrong": 0, "products": 120},
                {**place, "phase": "memory", "tested_gib": 60.0, "wrong": 0, "gb_s": rates["memory"]},
            ]
            for number, table in enumerate(node_probe.rounds(count)):
                for one, other in table:
                    if node in (one, other):
                        partner = one + other - node
                        lines.append({**place, "phase": "pair", "round": number, "partner": partner, "gb_s": pair})
            if count * gpus > 1:
                network = "AWS Libfabric" if cuda else "gloo"
                lines.append({**place, "phase": "all-reduce", "gb_s": rates["all_reduce"], "transport": network})
            lines.append({**place, "phase": "done"})
        lines.append(
            {"node": node, "local": 0, "phase": "storage", "write_gb_s": rates["write"], "read_gb_s": rates["read"],
             "wrong": 0, "error": ""}
        )  # fmt: skip
        counters = [{"index": index, **GPU} for index in range(gpus)]
        answers.append(
            {"node": node, "host": f"pod-{node}", "lines": lines, "before": counters, "after": copy.deepcopy(counters)}
        )
    return {"answers": answers, "busy": [], "cuda": cuda, "ranks": gpus}


def change(answer: Json, node: int, phase: str, **figures: Any) -> Json:
    for line in answer["answers"][node]["lines"]:
        if line["phase"] == phase:
            line.update(figures)
    return answer


def slow_pairs(answer: Json, node: int, rate: float) -> Json:
    """A node whose every exchange is slow, for it and for its partners."""
    for part in answer["answers"]:
        for line in part["lines"]:
            if line["phase"] == "pair" and node in (part["node"], line["partner"]):
                line["gb_s"] = rate
    return answer


def text_of(svg: str) -> str:
    """The words of a picture, without its elements."""
    return re.sub(r"<[^>]*>", "", svg)


def faults(report: Report) -> set[tuple[str, str]]:
    return {(finding.node, finding.area) for finding in report.faults}


@pytest.mark.parametrize("count", [2, 3, 8, 33])
def test_equal_nodes_that_give_what_they_should_are_good(count: int) -> None:
    report = verdict.judge(cluster_of(count), P5)
    assert report.findings == []
    assert {node.state for node in report.nodes} == {"good"}
    assert report.nodes[0].pair_gb_s == 8 * 45.0
    assert report.all_reduce_gb_s == 370.0


@pytest.mark.parametrize("count", [3, 8, 9, 33])
def test_a_node_with_a_slow_fabric_is_named_and_its_partners_are_not(count: int) -> None:
    report = verdict.judge(slow_pairs(cluster_of(count), 1, 30.0), P5)
    assert faults(report) == {("pod-1", "fabric")}


def test_of_two_nodes_a_slow_exchange_does_not_say_which(count: int = 2) -> None:
    report = verdict.judge(slow_pairs(cluster_of(count), 1, 5.0), P5)
    (finding,) = report.faults
    assert finding.node == ""
    assert "pod-0 and pod-1 exchange 40 GB/s, 10% of the 400 of the type" in finding.text
    assert "third node" in finding.text


def test_one_bad_link_between_two_good_nodes_is_named_as_a_link() -> None:
    answer = cluster_of(4)
    for node, partner in ((0, 2), (2, 0)):
        for line in answer["answers"][node]["lines"]:
            if line["phase"] == "pair" and line["partner"] == partner:
                line["gb_s"] = 10.0
    (finding,) = verdict.judge(answer, P5).faults
    assert (finding.node, finding.area) == ("", "fabric")
    assert "between pod-0 and pod-2 80 GB/s" in finding.text


def test_the_exchanges_of_a_slow_node_are_no_bad_links() -> None:
    answer = slow_pairs(cluster_of(4), 1, 30.0)
    for node, partner in ((0, 1), (1, 0)):
        for line in answer["answers"][node]["lines"]:
            if line["phase"] == "pair" and line["partner"] == partner:
                line["gb_s"] = 10.0
    assert faults(verdict.judge(answer, P5)) == {("pod-1", "fabric")}


def test_all_nodes_slow_alike_are_below_their_type() -> None:
    report = verdict.judge(cluster_of(3, pair=6.0, tflops=300.0), P5)
    assert faults(report) == {(f"pod-{node}", area) for node in range(3) for area in ("fabric", "compute")}


def test_a_type_without_figures_is_judged_against_the_other_nodes_alone() -> None:
    answer = slow_pairs(cluster_of(4, gpus=16, pair=3.0, tflops=40.0), 2, 1.0)
    assert faults(verdict.judge(answer, Expected())) == {("pod-2", "fabric")}


@pytest.mark.parametrize(
    ("phase", "figures", "area", "words"),
    [
        ("compute", {"tflops": 500.0}, "compute", "slow: 500 TFLOP/s, 78% of the others' 640"),
        ("compute", {"wrong": 3}, "GPU", "3 of 120 products differ"),
        ("memory", {"wrong": 1}, "memory", "1 words differ"),
        ("memory", {"gb_s": 1000.0}, "memory", "slow: 1e+03 GB/s"),
        ("storage", {"write_gb_s": 0.5}, "storage", "slow: 0.5 GB/s written, 25%"),
        ("storage", {"read_gb_s": 0.5}, "storage", "slow: 0.5 GB/s read"),
        ("storage", {"error": "No space left on device"}, "storage", "No space left on device"),
        ("storage", {"wrong": 2}, "storage", "2 blocks differ"),
    ],
)
def test_what_is_wrong_with_a_node_is_named(phase: str, figures: Json, area: str, words: str) -> None:
    report = verdict.judge(change(cluster_of(8), 5, phase, **figures), P5)
    assert faults(report) == {("pod-5", area)}
    assert all(words in finding.text for finding in report.faults)
    assert [node.name for node in report.nodes if node.state == "faulty"] == ["pod-5"]


@pytest.mark.parametrize(
    ("counter", "words", "severity"),
    [
        ({"uncorrected": 2}, "GPU 6: 2 uncorrected errors", "fault"),
        ({"rows_failed": 1}, "could not be remapped", "fault"),
        ({"rows_pending": 1}, "remapped at the next reset", "fault"),
        ({"slowed": 1}, "clock is lowered", "fault"),
        ({"corrected": 4}, "4 corrected errors in the test", "note"),
        ({"error": "nvidia-smi: Unable to determine the device handle"}, "device handle", "fault"),
    ],
)
def test_what_nvidia_smi_counts(counter: Json, words: str, severity: str) -> None:
    answer = cluster_of(3)
    answer["answers"][2]["after"][6] |= counter
    report = verdict.judge(answer, P5)
    (finding,) = report.findings
    assert (finding.node, finding.severity) == ("pod-2", severity)
    assert words in finding.text
    assert bool(report.faults) == (severity == "fault")


def test_a_count_that_nvidia_smi_does_not_have_is_no_error() -> None:
    answer = cluster_of(2)
    for part in answer["answers"]:
        for gpu in (*part["before"], *part["after"]):
            gpu.update(dict.fromkeys(GPU))
    report = verdict.judge(answer, P5)
    assert report.findings == []
    assert report.nodes[0].ecc is None


def test_all_the_files_together_are_compared_with_the_file_system() -> None:
    (finding,) = verdict.judge(cluster_of(2, write=0.5), P5).faults
    assert finding.text == "1 GB/s written by all nodes, 33% of the 3 of the file system: other work on it counts too"


def test_tcp_on_nodes_with_efa_and_two_networks_are_faults() -> None:
    answer = cluster_of(3)
    for part in answer["answers"]:
        for line in part["lines"]:
            if line["phase"] == "all-reduce":
                line["transport"] = "Socket"
    assert any("TCP sockets" in finding.text for finding in verdict.judge(answer, P5).faults)
    change(answer, 0, "all-reduce", transport="AWS Libfabric")
    assert any("different networks" in finding.text for finding in verdict.judge(answer, P5).faults)


def test_a_node_that_lost_a_gpu_is_faulty_and_the_rest_is_measured() -> None:
    answer = cluster_of(3)
    answer["answers"].append({"host": "pod-9", "address": "10.0.0.9", "error": "7 of 8 GPUs answer"})
    assert faults(verdict.judge(answer, P5)) == {("pod-9", "start")}
    fewer = verdict.judge(cluster_of(2, gpus=7, pair=55.0), P5)
    assert {finding.text for finding in fewer.faults} == {"7 GPUs answer, the type has 8"}


def test_who_waited_for_a_dead_process_is_not_at_fault() -> None:
    answer = cluster_of(3)
    for part, during, error in (
        (0, "join", "DistBackendError: timeout"), (1, "after memory", "exit code -9"), (2, "join", "DistStoreError")
    ):  # fmt: skip
        lines = [line for line in answer["answers"][part]["lines"] if line["phase"] in ("compute", "memory")]
        failed = {"node": part, "local": 3, "phase": "failed", "during": during, "error": error}
        answer["answers"][part]["lines"] = [*lines, failed]
    report = verdict.judge(answer, P5)
    assert {finding.node for finding in report.faults} == {"pod-1"}
    assert {finding.node for finding in report.findings if "waited" in finding.text} == {"pod-0", "pod-2"}


def test_a_busy_node_is_listed_and_one_node_alone_says_what_it_lacks() -> None:
    answer = cluster_of(1)
    answer["busy"] = [{"host": "pod-7"}]
    report = verdict.judge(answer, P5, names={"pod-0": "i-0", "pod-7": "i-7"})
    assert [(node.name, node.state) for node in report.nodes] == [("i-0", "good"), ("i-7", "busy")]
    assert [finding.sentence for finding in report.findings] == [
        "i-0: fabric: one node: nothing was measured between nodes", "i-7: busy: a run holds it: it was not measured",
    ]  # fmt: skip
    assert report.faults == []
    assert check.record(report, kind="ml.p5.48xlarge").all_reduce_gb_s is None


def test_on_cpu_small_differences_are_no_fault_and_large_ones_are() -> None:
    answer = cluster_of(3, gpus=1, cuda=False, tflops=0.06)
    assert verdict.judge(change(answer, 0, "compute", tflops=0.04), P5).faults == []
    assert verdict.judge(cluster_of(2, gpus=1, cuda=False, write=0.01), P5).faults == []
    assert faults(verdict.judge(change(answer, 0, "compute", tflops=0.01), P5)) == {("pod-0", "compute")}


# --- the rounds -------------------------------------------------------------------------------------------------------


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


# --- nvidia-smi -------------------------------------------------------------------------------------------------------

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
    assert (first["uncorrected"], first["corrected"], first["slowed"], first["rows_pending"]) == (0, 3, 0, 0)
    assert (second["uncorrected_ever"], second["slowed"], second["temperature"], second["rows_pending"]) == (
        7,
        1,
        None,
        1,
    )
    program.write_text("#!/bin/sh\necho 'Unable to determine the device handle for GPU 0' >&2\nexit 15\n")
    (broken,) = node_probe.health()
    assert "device handle" in broken["error"]
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


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path) -> clients.Target:
    (tmp_path / "prod.yaml").write_text((FOLDER / "prod.yaml").read_text())
    return clients.target("prod", folder=tmp_path)


def test_the_test_is_written_into_the_journal_and_drawn(
    target: clients.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "now", lambda: datetime(2026, 11, 23, 8, 30, tzinfo=UTC))
    answer = slow_pairs(cluster_of(3, write=9.0), 1, 30.0)
    hosts = {f"pod-{number}": f"i-{number}" for number in range(3)}
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: Measured(answer=answer, hosts=hosts))
    drawing = tmp_path / "check.svg"
    assert check.run(target, Request(), form=Format.table, picture=drawing) == CONDITION_FALSE
    said = capsys.readouterr()
    assert "! i-1: fabric: slow: 240 GB/s with its best partner, 67% of the others' 360" in said.out
    assert "next: hyperpod-ray nodes show prod i-1" in said.err
    words = text_of(drawing.read_text())
    assert "i-1 (faulty)" in words and "i-0 (good)" in words and "prod: 3 nodes on 2026-11-23, 1 faulty (i-1)" in words
    kept = checked_nodes.newest("prod", tmp_path)
    assert kept is not None
    assert (kept.faulty, kept.transport, kept.all_reduce_gb_s, kept.write_gb_s) == (
        ["i-1"],
        "AWS Libfabric",
        370.0,
        27.0,
    )
    assert kept.sentence == "3 nodes on 2026-11-23, 1 faulty (i-1); all-reduce 370 GB/s over AWS Libfabric"


def test_good_nodes_end_with_zero_and_the_json_has_every_figure(
    target: clients.Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured(answer=cluster_of(2, write=9.0), hosts={})
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: measured)
    assert check.run(target, Request(), form=Format.json) == OK
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "nodes-check"
    assert data["expected"]["network_gb_s"] == 400.0
    assert [node["pair_gb_s"] for node in data["nodes"]] == [360.0, 360.0]
    assert data["findings"] == []


@pytest.mark.parametrize(
    ("busy", "words"), [([], "there is no node to measure"), ([{"host": "pod-1"}], "no node is free: i-1")]
)
def test_nothing_to_measure_is_said_with_exit_code_three(
    target: clients.Target, monkeypatch: pytest.MonkeyPatch, busy: list[Json], words: str
) -> None:
    answer = {"answers": [], "busy": busy, "cuda": False, "ranks": 1}
    measured = Measured(answer=answer, hosts={"pod-1": "i-1"})
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: measured)
    with pytest.raises(OpsError, match=words) as refused:
        check.run(target, Request(), form=Format.table)
    assert refused.value.code == CONDITION_FALSE
    assert checked_nodes.newest("prod", target.folder) is None


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_measured(
    target: clients.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: pytest.fail("measured"))
    with pytest.raises(OpsError, match="does not exist"):
        check.run(target, Request(), form=Format.table, picture=tmp_path / "none" / "a.svg")


def test_what_a_type_should_give_is_of_the_catalogue() -> None:
    kind, expected = check.expected_of(core.load("prod").plan, nodes=2)
    assert (kind, expected.network_gb_s, expected.gpus) == ("ml.p5.48xlarge", 400.0, 8)
    assert expected.tflops == pytest.approx(989.4)
    assert expected.storage_gb_s is not None and expected.storage_gb_s > 0
    kind, expected = check.expected_of(core.load("local").plan, nodes=2)
    assert expected.network_gb_s is None or kind


def test_a_picture_of_a_node_that_was_not_measured_says_so() -> None:
    answer = cluster_of(1, gpus=1)
    answer["busy"] = [{"host": "pod-7"}]
    words = text_of(picture.draw(verdict.judge(answer, P5), P5, title="x"))
    assert "pod-7 (busy)" in words
    assert "not measured" in words


def test_a_driver_that_is_too_old_for_the_image_is_named() -> None:
    """torch then sees no GPU, and CPUs are measured; a type without figures may have none."""
    without = Report(nodes=[], findings=[], transport="", cuda=False)
    assert any("driver of the nodes' AMI" in line for line in check._remarks(without, P5, "ml.p5.48xlarge"))
    assert len(check._remarks(without, Expected(), "ml.m5.2xlarge")) == 1
    seen = Report(nodes=[], findings=[], transport="", cuda=True)
    assert check._remarks(seen, P5, "ml.p5.48xlarge") == []
