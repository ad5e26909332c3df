"""`nodes check`: what measurements mean, for types, sizes and faults that nobody planned for; journal and picture."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.ops.acceptance import check, node_probe, picture, verdict
from hyperpod_ray.ops.acceptance.verdict import Expected, Report
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OpsError
from hyperpod_ray.ops.output import Format
from hyperpod_ray.planner import pictures
from tests.ops.nodes_check_helpers import GPU, Json, cluster_of, slow_pairs, text_of

P5 = Expected(network_gb_s=400.0, tflops=989.4, storage_gb_s=3.0, gpus=8)


def change(answer: Json, node: int, phase: str, **figures: Any) -> Json:
    for line in answer["answers"][node]["lines"]:
        if line["phase"] == phase:
            line.update(figures)
    return answer


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
        ("memory", {"gb_s": 1000.0}, "memory", "slow: 1,000 GB/s"),
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


@pytest.mark.parametrize(("before", "after", "grown"), [(5, 5, 0), (5, 7, 2), (None, 3, 3), (7, 2, 0)])
def test_corrected_errors_count_from_the_beginning_of_the_test(before: int | None, after: int, grown: int) -> None:
    answer = cluster_of(2)
    answer["answers"][1]["before"][6] |= {"corrected": before}
    answer["answers"][1]["after"][6] |= {"corrected": after}
    texts = [finding.text for finding in verdict.judge(answer, P5).findings]
    assert texts == ([f"GPU 6: {grown} corrected errors in the test"] if grown else [])


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


def test_where_no_process_ended_by_itself_the_earliest_phase_is_the_cause() -> None:
    """An exit code is of a process that ended; without one, who fails first is at fault, and the others waited."""
    answer = cluster_of(3)
    for part, during in ((0, "pair"), (1, "memory"), (2, "join")):
        lines = [line for line in answer["answers"][part]["lines"] if line["phase"] in ("compute", "memory")]
        failed = {"node": part, "local": 0, "phase": "failed", "during": during, "error": "timeout"}
        answer["answers"][part]["lines"] = [*lines, failed]
    report = verdict.judge(answer, P5)
    assert faults(report) == {("pod-1", "memory")}
    assert {finding.node for finding in report.findings if "waited" in finding.text} == {"pod-0", "pod-2"}


def test_of_two_that_ended_the_earlier_is_the_cause() -> None:
    answer = cluster_of(3)
    for part, during, error in ((0, "pair", "exit code 1"), (1, "join", "exit code -9"), (2, "compute", "timeout")):
        lines = [line for line in answer["answers"][part]["lines"] if line["phase"] in ("compute", "memory")]
        failed = {"node": part, "local": 0, "phase": "failed", "during": during, "error": error}
        answer["answers"][part]["lines"] = [*lines, failed]
    assert faults(verdict.judge(answer, P5)) == {("pod-1", "join")}, "one that only timed out waited, however early"


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


# --- nvidia-smi -------------------------------------------------------------------------------------------------------


# --- the command ------------------------------------------------------------------------------------------------------


def test_what_a_type_should_give_is_of_the_catalogue() -> None:
    kind, expected = check.expected_of(core.load("prod").plan, nodes=2)
    assert (kind, expected.network_gb_s, expected.gpus) == ("ml.p5.48xlarge", 400.0, 8)
    assert expected.tflops == pytest.approx(989.4)
    assert expected.storage_gb_s is not None and expected.storage_gb_s > 0
    kind, expected = check.expected_of(core.load("local").plan, nodes=2)
    assert expected.network_gb_s is None or kind


def shown(report: Report, expected: Expected, kind: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The lines of the table and of what is below it, without empty ones; and what the log says."""
    target: Any = SimpleNamespace(name="prod")
    checked = check.record(report, kind=kind)
    check.show(report, expected, target=target, kind=kind, checked=checked, form=Format.markdown)
    said = capsys.readouterr()
    return [line for line in said.out.splitlines() if line], said.err


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check.require_drawing(tmp_path / "nodes.svg")
    for file, there, message, fix in (
        (tmp_path / "none" / "nodes.svg", True,
         f"--picture: {tmp_path / 'none'} does not exist. Expected a folder for the picture",
         "create it, or correct --picture"),
        (tmp_path / "nodes.svg", False, "--picture: matplotlib is not installed. Expected it, for the picture",
         "pip install matplotlib"),
    ):  # fmt: skip
        monkeypatch.setattr(pictures, "there", lambda there=there: there)
        with pytest.raises(OpsError) as caught:
            check.require_drawing(file)
        assert (caught.value.code, caught.value.message, caught.value.fix) == (BAD_USE, message, fix)


def test_the_table_has_each_figure_below_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    answer = change(change(cluster_of(3), 0, "compute", tflops=500.0), 0, "memory", gb_s=3352.1)
    answer["busy"] = [{"host": "pod-7"}]
    names = {"pod-0": "i-0", "pod-1": "i-1"}
    lines, log = shown(verdict.judge(answer, P5, names=names), P5, "ml.p5.48xlarge", capsys)
    assert lines == [
        "| node | state | TFLOP/s | memory GB/s | ECC | write GB/s | read GB/s | pair GB/s | all-reduce GB/s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| i-0 | faulty | 500 | 3,352 | 0 | 2 | 2.5 | 360 | 370 |",
        "| i-1 | good | 640 | 2,400 | 0 | 2 | 2.5 | 360 | 370 |",
        "| pod-2 | good | 640 | 2,400 | 0 | 2 | 2.5 | 360 | 370 |",
        "| pod-7 | busy |  |  |  |  |  |  |  |",
        "| expected | ml.p5.48xlarge | 989 |  |  | 3 |  | 400 | 400 |",
        "! i-0: compute: slow: 500 TFLOP/s, 78% of the others' 640",
        "- pod-7: busy: a run holds it: it was not measured",
    ]
    assert log == "next: hyperpod-ray nodes show prod i-0\n", "of the node that is faulty"


def test_without_figures_of_the_type_no_row_says_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, why in (
        ("", "no figures of the instance type are on file"), ("ml.x.1", "no figures of ml.x.1 are on file"),
        ("ml.g5.8xlarge, ml.g6.8xlarge", "several instance types"),
    ):  # fmt: skip
        lines, log = shown(verdict.judge(cluster_of(3), Expected()), Expected(), kind, capsys)
        assert len(lines) == 5 and "expected" not in lines[-1]
        assert log == f"{why}: nodes were compared with each other alone\n"
    lines, log = shown(verdict.judge(on_cpus("", ""), P5), P5, "ml.p5.48xlarge", capsys)
    assert "expected" not in lines[-1], "figures of GPUs"
    assert log.startswith("no GPU: CPU and gloo were measured")


@pytest.mark.parametrize(
    ("answer", "message", "fix"),
    [
        ({"error": "srun: no", "busy": []}, "no node could be measured: srun: no. Expected srun to start the test",
         "hyperpod-ray nodes prod"),
        ({"busy": [{"host": "a"}, {"host": "b"}]},
         "no node is free: i-1, b. Expected a node whose GPUs no run holds",
         "wait for the run, or stop it: hyperpod-ray runs list prod"),
        ({"busy": []}, "there is no node to measure. Expected a worker node that has joined",
         "hyperpod-ray status prod"),
    ],
)  # fmt: skip
def test_where_no_node_is_measured_it_says_why(answer: Json, message: str, fix: str) -> None:
    target: Any = SimpleNamespace(name="prod")
    with pytest.raises(OpsError) as caught:
        check._nothing(target, answer, {"a": "i-1"})
    assert (caught.value.code, caught.value.message, caught.value.fix) == (CONDITION_FALSE, message, fix)


def test_a_picture_of_a_node_that_was_not_measured_says_so() -> None:
    answer = cluster_of(1, gpus=1)
    answer["busy"] = [{"host": "pod-7"}]
    words = text_of(picture.draw(verdict.judge(answer, P5), P5, title="x"))
    assert "pod-7 (busy)" in words
    assert "not measured" in words


def on_cpus(driver: str, cuda: str) -> Json:
    """Three nodes whose torch uses no GPU."""
    answer = cluster_of(3, gpus=1, cuda=False)
    for part in answer["answers"]:
        part["driver"] = driver
    for node in range(3):
        change(answer, node, "compute", cuda=cuda)
    return answer


@pytest.mark.parametrize(
    ("driver", "cuda"), [("550.163.01", "13.0"), ("470.256.02", "12.8"), ("579", "13.2"), ("418.87", "11.8")]
)
def test_a_driver_that_is_too_old_for_the_image_makes_each_node_faulty(driver: str, cuda: str) -> None:
    """torch then sees no GPU, and CPUs would be measured and found equal."""
    report = verdict.judge(on_cpus(driver, cuda), P5)
    assert faults(report) == {(f"pod-{node}", "driver") for node in range(3)}
    assert all(f"CUDA {cuda} of the image needs driver" in finding.text for finding in report.faults)
    assert all(f"the AMI has {driver}" in finding.text for finding in report.faults)
    assert check._remarks(report, P5, "ml.p5.48xlarge")[1:] == []


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("580.159.04", "13.0"), ("550.163.01", "12.8"), ("550.163.01", ""), ("", "13.0"), ("", ""), ("600.1", "99.0")],
)
def test_a_rehearsal_on_a_machine_with_a_gpu_is_no_old_driver(driver: str, cuda: str) -> None:
    report = verdict.judge(on_cpus(driver, cuda), P5)
    assert report.faults == []
    (_, remark) = check._remarks(report, P5, "ml.p5.48xlarge")
    assert "ml.p5.48xlarge has 8 GPUs" in remark
    assert len(check._remarks(report, Expected(), "ml.m5.2xlarge")) == 1
    assert check._remarks(Report(nodes=[], findings=[], transport="", cuda=True), P5, "ml.p5.48xlarge") == []


def test_the_driver_is_what_nvidia_smi_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://docs.nvidia.com/deploy/nvidia-smi/index.html: one line for each GPU."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert node_probe.driver() == ""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --query-gpu=driver_version ] && printf "550.163.01\\n550.163.01\\n"\n')
    program.chmod(0o755)
    assert node_probe.driver() == "550.163.01"
    program.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    assert node_probe.driver() == ""
