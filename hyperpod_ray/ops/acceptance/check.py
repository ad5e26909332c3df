"""`nodes check`: the acceptance test of an environment's nodes, before the first run and after a repair.

On EKS a Ray job measures the nodes of the standing RayCluster whose GPUs no run holds; on Slurm `srun` does it, started
on a node that mounts the file system. The result is judged here, drawn, and added to the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.acceptance import verdict
from hyperpod_ray.ops.acceptance.verdict import Expected, Report
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.orchestrators.node_check import Request
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.planner import checked_nodes, data, storage
from hyperpod_ray.planner.checked_nodes import Checked

STYLE = {"good": "good", "faulty": "bad", "busy": "quiet"}
DEEP: dict[str, str] = {
    "stress": "InstanceStress", "connectivity": "InstanceConnectivity", "training": "MultiNodeTrainingValidation",
}  # fmt: skip
"""Words of the option, and the service's own (DeepHealthCheckType)."""
MOST_IDS = 500


def run(target: AnyTarget, request: Request, *, form: Format, picture: Path | None = None) -> int:
    """Measure, judge, draw, write the journal. Exit code 3 where a node is faulty, or none could be measured."""
    if picture is not None:
        require_drawing(picture)
    output.log(f"measuring: {request.seconds:g} s of matrix work, then memory, files and the fabric")
    measurement = orchestrators.of(target).node_check.measured(request)
    answer, hosts = measurement.answer, measurement.hosts
    if not answer["answers"]:
        _nothing(target, answer, hosts)
    measured = sum("lines" in part for part in answer["answers"])
    kind, expected = expected_of(target.plan, nodes=measured)
    report = verdict.judge(answer, expected, names=hosts)
    checked = record(report, kind=kind)
    journal = checked_nodes.write(checked, target.name, target.folder)
    if picture is not None:
        from hyperpod_ray.ops.acceptance import picture as drawing

        picture.write_text(drawing.draw(report, expected, title=f"{target.name}: {checked.sentence}"), encoding="utf-8")
        output.log(f"wrote {picture}")
    show(report, expected, target=target, kind=kind, checked=checked, form=form)
    output.log(f"journal: {journal}")
    return CONDITION_FALSE if report.faults else OK


def require_drawing(picture: Path) -> None:
    """Refuse a picture that cannot be written, before anything is measured."""
    from hyperpod_ray.planner import pictures

    if not pictures.there():
        raise OpsError(
            "--picture: matplotlib is not installed", expected="it, for the picture", fix="pip install matplotlib",
            code=BAD_USE,
        )  # fmt: skip
    if not picture.absolute().parent.is_dir():
        raise OpsError(
            f"--picture: {picture.absolute().parent} does not exist", expected="a folder for the picture",
            fix="create it, or correct --picture", code=BAD_USE,
        )  # fmt: skip


def expected_of(plan: CommonPlan, *, nodes: int) -> tuple[str, Expected]:
    """The instance type that trains, and what it should give; nothing of a type without figures, or of several."""
    kinds = sorted({name for group in plan.groups for name in group.types if plan.type_spec(name).accelerators})
    kind = ", ".join(kinds)
    node = data.node_types().get(kind)
    system = storage.of(plan)
    rate = None
    if system is not None and nodes:
        network = node.network_gbps if node else 10.0
        without_efa = replace(system, efa=False)
        rate = storage.rate(without_efa, clients=nodes, network_gbps=network).bytes_per_second / 1e9
    if node is None:
        return kind, Expected(storage_gb_s=rate if kinds else None)
    return kind, Expected(
        network_gb_s=node.network_gbps / 8, tflops=data.gpus()[node.gpu].bf16_tflops, storage_gb_s=rate,
        gpus=plan.type_spec(kind).accelerators,
    )  # fmt: skip


def record(report: Report, *, kind: str) -> Checked:
    """The line of the journal."""
    written = [node.write_gb_s for node in report.nodes if node.write_gb_s is not None]
    several = sum(node.state != "busy" for node in report.nodes) > 1
    return Checked(
        at=output.now(), instance_type=kind, transport=report.transport,
        all_reduce_gb_s=report.all_reduce_gb_s if several else None,
        nodes={node.name: node.state for node in report.nodes},
        findings=tuple(finding.sentence for finding in report.findings), write_gb_s=sum(written) if written else None,
    )  # fmt: skip


def show(report: Report, expected: Expected, *, target: AnyTarget, kind: str, checked: Checked, form: Format) -> None:
    """The table, and what is wrong."""
    if form is Format.json:
        output.write_json(
            "nodes-check",
            {
                "environment": target.name, "at": checked.at, "instance_type": kind, "cuda": report.cuda,
                "transport": report.transport, "expected": asdict(expected),
                "nodes": [asdict(node) for node in report.nodes],
                "findings": [asdict(finding) for finding in report.findings],
            },
        )  # fmt: skip
        return
    from rich.text import Text

    console = output.console(form)
    table = output.table(
        "=node",
        "state",
        ">TFLOP/s",
        ">memory GB/s",
        ">ECC",
        ">write GB/s",
        ">read GB/s",
        ">pair GB/s",
        ">all-reduce GB/s",
    )
    for node in report.nodes:
        table.add_row(
            node.name, Text(node.state, style=STYLE[node.state]),
            *(_figure(value) for value in (node.tflops, node.memory_gb_s)), "" if node.ecc is None else str(node.ecc),
            *(_figure(value) for value in (node.write_gb_s, node.read_gb_s, node.pair_gb_s, node.all_reduce_gb_s)),
        )  # fmt: skip
    limits = (expected.tflops, None, None, expected.storage_gb_s, None, expected.network_gb_s, expected.network_gb_s)
    if report.cuda and any(limits):
        table.add_row("expected", kind, *(_figure(value) for value in limits))
    console.print(table)
    for finding in report.findings:
        console.print(
            f"{'!' if finding.severity == 'fault' else '-'} {finding.sentence}", highlight=False, markup=False
        )
    for line in _remarks(report, expected, kind):
        output.log(line)
    for node in report.nodes:
        if node.state == "faulty" and node.name.startswith("i-"):
            output.log(f"next: hyperpod-ray nodes show {target.name} {node.name}")


def _remarks(report: Report, expected: Expected, kind: str) -> list[str]:
    """What the figures are compared with, where that is less than usual."""
    remarks = []
    if not report.cuda:
        remarks.append("no GPU: CPU and gloo were measured, and nodes compared with each other alone")
        if expected.gpus and not report.faults:
            remarks.append(f"{kind} has {expected.gpus} GPUs: outside of a rehearsal, the AMI or the image lacks CUDA")
    elif expected.network_gb_s is None:
        several = (
            "several instance types" if "," in kind else f"no figures of {kind or 'the instance type'} are on file"
        )
        remarks.append(f"{several}: nodes were compared with each other alone")
    return remarks


def _figure(value: float | None) -> str:
    return "" if value is None else output.figure(value)


def _nothing(target: AnyTarget, answer: Mapping[str, Any], hosts: Mapping[str, str]) -> None:
    busy = [hosts.get(str(host.get("host")), str(host.get("host"))) for host in answer["busy"]]
    if answer.get("error"):
        raise OpsError(
            f"no node could be measured: {answer['error']}", expected="srun to start the test",
            fix=f"hyperpod-ray nodes {target.name}", code=CONDITION_FALSE,
        )  # fmt: skip
    if busy:
        raise OpsError(
            f"no node is free: {', '.join(busy)}", expected="a node whose GPUs no run holds",
            fix=f"wait for the run, or stop it: hyperpod-ray runs list {target.name}", code=CONDITION_FALSE,
        )  # fmt: skip
    raise OpsError(
        "there is no node to measure", expected="a worker node that has joined",
        fix=f"hyperpod-ray status {target.name}", code=CONDITION_FALSE,
    )  # fmt: skip


# --- the service's own checks ---------------------------------------------------------------------------------------


def deep(target: AnyTarget, checks: Sequence[str], *, nodes: Sequence[str] = (), yes: bool) -> int:
    """Start HyperPod's deep health checks on nodes that are there (StartClusterHealthCheck).

    Without nodes, of all groups with accelerators.
    """
    cluster = hyperpod.require_cluster(target)
    words = [DEEP[check] for check in dict.fromkeys(checks)]
    by_group: dict[str, list[str]] = {}
    if nodes:
        for node in nodes:
            instance = orchestrators.of(target).nodes.find(node)
            by_group.setdefault(instance.group, []).append(instance.id)
    else:
        by_group = {group.name: [] for group in cluster.groups if group.accelerated and group.current}
    if not by_group:
        raise OpsError(
            "no group has accelerators and nodes", expected="nodes that deep health checks know",
            fix=f"hyperpod-ray nodes {target.name}", code=CONDITION_FALSE,
        )  # fmt: skip
    configurations = []
    for group, ids in by_group.items():
        entry: dict[str, Any] = {"InstanceGroupName": group, "DeepHealthChecks": words}
        if ids:
            entry["InstanceIds"] = list(dict.fromkeys(ids))[:MOST_IDS]
        configurations.append(entry)
    places = ", ".join(f"{group} ({', '.join(ids) or 'all nodes'})" for group, ids in by_group.items())
    output.log(f"{', '.join(words)} on {places}")
    output.log(
        "  nodes take no work until they pass; HyperPod reboots or replaces a node that fails, with what runs there"
    )
    output.confirm(f"start deep health checks of '{target.name}'?", yes=yes)
    target.aws.call(
        "sagemaker",
        "start_cluster_health_check",
        ClusterName=cluster.name,
        DeepHealthCheckConfigurations=configurations,
    )
    output.log(f"under way; hyperpod-ray nodes {target.name}")
    return OK
