"""`nodes check`: the acceptance test of an environment's nodes, before the first run and after a repair.

On EKS a Ray job measures the nodes of the standing RayCluster whose GPUs no run holds; on Slurm `srun` does it, started
on a node that mounts the file system. The result is judged here, drawn, and added to the journal.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shlex
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.ops import in_ray, output
from hyperpod_ray.ops.acceptance import verdict
from hyperpod_ray.ops.acceptance.verdict import Expected, Report
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.jobs.submit import post, upload
from hyperpod_ray.ops.observe import gather, slurm
from hyperpod_ray.ops.observe.snapshot import Instance, Snapshot
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget, SlurmTarget, Target
from hyperpod_ray.ops.reach.jobs_api import ENDED, OURS, READ_PREFIX, Jobs, jobs_of
from hyperpod_ray.ops.repair import nodes as repair
from hyperpod_ray.ops.runs import slurm_runs
from hyperpod_ray.planner import checked_nodes, data, storage
from hyperpod_ray.planner.checked_nodes import Checked

PACKAGE = "hyperpod_ray_check"
MARK = "HYPERPOD-RAY-CHECK "
"""Begins the line with the answer; the probes have the same, a test compares."""
MORE_SECONDS = 600.0
"""What a test may take beside its matrix work: start, memory, files, the fabric."""
POLL_SECONDS = 2.0
STORAGE_MIB = 4096
STYLE = {"good": "good", "faulty": "bad", "busy": "quiet"}
DEEP: dict[str, str] = {
    "stress": "InstanceStress", "connectivity": "InstanceConnectivity", "training": "MultiNodeTrainingValidation",
}  # fmt: skip
"""Words of the option, and the service's own (DeepHealthCheckType)."""
MOST_IDS = 500


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is measured, and how long."""

    nodes: tuple[str, ...] = ()
    """Only these. Default: all that are free."""
    seconds: float = 60.0
    """Of matrix work."""
    storage: str = ""
    """Folder of the shared file system. Default: a new one below its mount path. `none`: no file is written."""
    storage_mib: int = STORAGE_MIB
    address: str = ""
    """Ray's dashboard that is reachable already."""
    python: str = "python3"
    """On Slurm: the Python with torch."""

    @property
    def folder(self) -> str:
        """Where files are written; empty: nowhere."""
        if self.storage == "none":
            return ""
        base = self.storage.rstrip("/") or names.MOUNT_PATH
        return f"{base}/.nodes-check-{secrets.token_hex(4)}"

    def content(self, **more: Any) -> dict[str, Any]:
        """For a probe."""
        return {
            "seconds": self.seconds, "storage": self.folder, "storage_mib": self.storage_mib,
            "limit": self.seconds + MORE_SECONDS, **more,
        }  # fmt: skip


def run(target: AnyTarget, request: Request, *, form: Format, picture: Path | None = None) -> int:
    """Measure, judge, draw, write the journal. Exit code 3 where a node is faulty, or none could be measured."""
    if picture is not None:
        require_drawing(picture)
    output.log(f"measuring: {request.seconds:g} s of matrix work, then memory, files and the fabric")
    answer, hosts = _on_slurm(target, request) if isinstance(target, SlurmTarget) else _on_eks(target, request)
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
    kinds = sorted({group.type for group in plan.groups if plan.type_spec(group.type).accelerators})
    kind = ", ".join(kinds)
    node = data.node_types().get(kind)
    system = plan.new_file_system
    rate = None
    if system is not None and nodes:
        files = storage.FileSystem(
            capacity_gib=system.capacity_gib, throughput_mbs_per_tib=system.throughput_mbs_per_tib
        )  # fmt: skip
        network = node.network_gbps if node else 10.0
        rate = storage.rate(files, clients=nodes, network_gbps=network).bytes_per_second / 1e9
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
    elif expected.network_gb_s is None:
        several = (
            "several instance types" if "," in kind else f"no figures of {kind or 'the instance type'} are on file"
        )
        remarks.append(f"{several}: nodes were compared with each other alone")
    return remarks


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}"


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


# --- on EKS: a job of Ray ------------------------------------------------------------------------------------------


def package() -> tuple[str, bytes]:
    """The probes as Ray's package."""
    here = Path(__file__).parent
    texts = {name: (here / f"{name}.py").read_text(encoding="utf-8") for name in ("node_probe", "ray_probe")}
    return in_ray.archive(PACKAGE, {"__init__": "", **texts})


def _on_eks(target: AnyTarget, request: Request) -> tuple[dict[str, Any], dict[str, str]]:
    assert isinstance(target, Target)  # noqa: S101  (there are two)
    hosts = {} if request.address else _pods(target)
    chosen = _chosen(target, request, hosts)
    with jobs_of(target, address=request.address) as jobs:
        return measured_by_ray(jobs, request.content(hosts=chosen)), hosts


def _pods(target: Target) -> dict[str, str]:
    """Instance IDs by the pods that Ray has as hosts."""
    seen = gather.snapshot(target, only=("Kubernetes",))
    return {pod.name: names.instance_id(pod.node) for pod in seen.pods if pod.node}


def _chosen(target: Target, request: Request, hosts: Mapping[str, str]) -> list[str]:
    """Pods of the nodes that are asked for; with an address of Ray, Ray's own names of nodes."""
    if request.address or not request.nodes:
        return list(request.nodes)
    chosen = []
    for node in request.nodes:
        _, instance = repair.find(target, node)
        pods = [pod for pod, of in hosts.items() if of == instance.id]
        if not pods:
            raise OpsError(
                f"--node: {instance.id} has no Ray pod", expected="a node of the standing RayCluster",
                fix=f"hyperpod-ray nodes show {target.name} {instance.id}", code=CONDITION_FALSE,
            )  # fmt: skip
        chosen += pods
    return chosen


def measured_by_ray(jobs: Jobs, content: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe prints that a Ray job starts.

    Raises:
        OpsError: The job cannot be started, fails, or does not end.
    """
    uri = upload(jobs, package(), subject="")
    job = post(
        jobs,
        {
            "entrypoint": shlex.join(["python", "-m", f"{PACKAGE}.ray_probe", json.dumps(content)]),
            "runtime_env": {"py_modules": [uri]},
            "metadata": {OURS: "check"},
            "submission_id": f"{READ_PREFIX}{secrets.token_hex(6)}",
        },
    )
    try:
        return _job_answer(jobs, job, limit=float(content["limit"]) + 300)
    finally:
        with contextlib.suppress(OSError, OpsError):
            jobs.json("POST", f"/api/jobs/{job}/stop")
        with contextlib.suppress(OSError, OpsError):
            jobs.json("DELETE", f"/api/jobs/{job}")


def _job_answer(jobs: Jobs, job: str, *, limit: float) -> dict[str, Any]:
    end = time.monotonic() + limit
    while (info := jobs.json("GET", f"/api/jobs/{job}"))["status"] not in ENDED:
        if time.monotonic() > end:
            raise OpsError(
                f"the test is {info['status']} after {limit:g} s", expected="it to end",
                fix="run it again with --node, to learn which node hangs", code=CONDITION_FALSE,
            )  # fmt: skip
        time.sleep(POLL_SECONDS)
    text = str(jobs.json("GET", f"/api/jobs/{job}/logs").get("logs") or "")
    for line in text.splitlines():
        if line.startswith(MARK):
            return dict(json.loads(line.removeprefix(MARK)))
    last = (text.strip().splitlines() or [str(info.get("message") or "nothing more")])[-1]
    raise OpsError(
        f"the test {info['status']}: {last[:300]}", expected="its measurements",
        fix="correct what it names; the image needs Ray and torch", code=CONDITION_FALSE,
    )  # fmt: skip


# --- on Slurm: srun ------------------------------------------------------------------------------------------------

Runner = Callable[[Sequence[str]], str]
_ON_NODE = """
import os, sys, json, types, base64, zlib, io, contextlib
request = json.loads(sys.argv[1])
folder = request["folder"]
os.makedirs(folder, exist_ok=True)
request["probe"] = os.path.join(folder, "node_probe.py")
with open(request["probe"], "w") as stream:
    stream.write(PROBE)
module = types.ModuleType("slurm_probe")
exec(START, module.__dict__)
printed = io.StringIO()
try:
    with contextlib.redirect_stdout(printed):
        module.main([json.dumps(request)])
finally:
    import shutil
    shutil.rmtree(folder, ignore_errors=True)
sys.stdout.write(base64.encodebytes(zlib.compress(printed.getvalue().encode())).decode())
"""


def _on_slurm(
    target: SlurmTarget, request: Request, *, run: Runner | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    if request.address:
        raise OpsError(
            f"--address: {request.address}", expected="an environment on EKS: Slurm has no Jobs API", fix="remove it",
            code=BAD_USE,
        )  # fmt: skip
    seen = repair.look(target)
    cluster = gather.require_cluster(target)
    instances = gather.instances(target)
    free, busy, hosts = _slurm_nodes(target, seen, instances, request)
    if not free:
        return {"answers": [], "busy": [{"host": host} for host in busy]}, hosts
    node = slurm_runs.reading_node(target, instances)
    if node is None:
        raise OpsError.outcome("no controller or login node runs", fix=target.command("status"))
    kinds = {group.type for group in target.plan.compute}
    gpus = max((target.plan.type_spec(kind).accelerators for kind in kinds), default=0)
    base = (request.storage if request.storage not in ("", "none") else names.MOUNT_PATH).rstrip("/")
    content = request.content(
        hosts=free, python=request.python, gpus=gpus, folder=f"{base}/.nodes-check-{secrets.token_hex(4)}-program"
    )
    limit = 2 * float(content["limit"])
    words = slurm.session(target, cluster, node, slurm_command(content))
    text = (run or _session(limit))(words)
    answer = slurm_answer(text)
    return {**answer, "busy": [*answer["busy"], *({"host": host} for host in busy)]}, hosts


def _session(limit: float) -> Runner:
    fix = "see squeue on the controller, then run the command again"
    return lambda words: slurm.answer(words, seconds=limit, expectation="the test of the nodes to end", fix=fix)


def _slurm_nodes(
    target: SlurmTarget, seen: Snapshot, instances: Sequence[Instance], request: Request
) -> tuple[list[str], list[str], dict[str, str]]:
    """Compute nodes that are idle, those that are not, and instance IDs by Slurm's names."""
    if seen.slurm is None:
        raise OpsError.outcome("Slurm does not answer: which nodes are idle is unknown", fix=target.command("status"))
    wanted_ids = {repair.find(target, node)[1].id for node in request.nodes}
    compute = {group.name for group in target.plan.compute}
    free: list[str] = []
    busy: list[str] = []
    hosts: dict[str, str] = {}
    for instance in instances:
        node = seen.slurm.of(instance)
        if node is None or instance.group not in compute or (wanted_ids and instance.id not in wanted_ids):
            continue
        hosts[node.name] = instance.id
        idle = node.state.rstrip("*~#").lower() == "idle" and not seen.slurm.on(node.name)
        (free if idle else busy).append(node.name)
    return free, busy, hosts


def slurm_command(content: Mapping[str, Any]) -> str:
    """What runs on the node that reads and writes the file system: one line."""
    here = Path(__file__).parent
    texts = {name: (here / f"{name}.py").read_text(encoding="utf-8") for name in ("node_probe", "slurm_probe")}
    program = f"PROBE = {texts['node_probe']!r}\nSTART = {texts['slurm_probe']!r}\n{_ON_NODE}"
    packed = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    start = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
    words = ["python3", "-c", start, json.dumps(content)]
    return f"{slurm.PATH}; echo {slurm.MARK} && {shlex.join(words)} && echo {slurm.DONE}"


def slurm_answer(text: str) -> dict[str, Any]:
    """The answer between the marks of a session."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        inner = lines[lines.index(slurm.MARK) + 1 : lines.index(slurm.DONE)]
        printed = zlib.decompress(base64.b64decode("".join(inner), validate=True)).decode()
        line = next(line for line in printed.splitlines() if line.startswith(MARK))
        return dict(json.loads(line.removeprefix(MARK)))
    except (ValueError, StopIteration, zlib.error):
        raise OpsError(
            "the answer of the test is cut short", expected="all of it over Session Manager",
            fix="run the command again",
        ) from None  # fmt: skip


# --- the service's own checks ---------------------------------------------------------------------------------------


def deep(target: AnyTarget, checks: Sequence[str], *, nodes: Sequence[str] = (), yes: bool) -> int:
    """Start HyperPod's deep health checks on nodes that are there (StartClusterHealthCheck).

    Without nodes, of all groups with accelerators.
    """
    cluster = gather.require_cluster(target)
    words = [DEEP[check] for check in dict.fromkeys(checks)]
    by_group: dict[str, list[str]] = {}
    if nodes:
        for node in nodes:
            _, instance = repair.find(target, node)
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
