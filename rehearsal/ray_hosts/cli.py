"""`python -m rehearsal ray …`: start, look at, break and stop a Ray cluster on loopback."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rehearsal.ray_hosts import isolation
from rehearsal.ray_hosts.cluster import ROOT, Cluster, Pod
from rehearsal.ray_hosts.errors import LocalError
from rehearsal.ray_hosts.source import manifest_of
from sandbox.aws.paths import STATE

PROJECT = Path(__file__).resolve().parents[2]


def _say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _only(name: str | None) -> Cluster:
    """The named cluster, or the only one that runs; where none does, the only one that left its state."""
    if name is None:
        names = Cluster.running(project=PROJECT) or Cluster.names(project=PROJECT)
        if len(names) != 1:
            raise LocalError(f"--name is needed; running: {', '.join(names) or 'none'}")
        name = names[0]
    return Cluster.load(name=name, project=PROJECT)


def _status(cluster: Cluster) -> dict[str, object]:
    nodes = cluster.dashboard.nodes()
    return {
        "schema_version": 1,
        "name": cluster.state.name,
        "dashboard": cluster.dashboard.address,
        "gcs": f"{cluster.head_ip}:{cluster.state.gcs_port}",
        "token_file": str(cluster.token_path.relative_to(PROJECT)) if cluster.plan.token_auth else None,
        "fault_tolerance": cluster.state.backend,
        "isolation": cluster.state.mode,
        "fsx": str(cluster.fsx.relative_to(PROJECT)),
        "pods": [
            {
                "name": pod.name,
                "group": pod.group,
                "address": pod.ip,
                "process": "frozen" if pod.frozen and pod.alive else "running" if pod.alive else "gone",
                "ray": nodes.get(pod.ip, "UNKNOWN"),
                "processes": len(cluster.members(pod)),
            }
            for pod in cluster.state.pods
        ],
    }


def _show(cluster: Cluster, *, as_json: bool) -> None:
    status = _status(cluster)
    if as_json:
        _say(json.dumps(status, indent=1))
        return
    _say(f"{status['name']}: dashboard and Jobs API {status['dashboard']}, gcs {status['gcs']}")
    _say(f"  token file {status['token_file']}, gcs fault tolerance {status['fault_tolerance'] or 'none'}")
    _say(f"  shared folder {status['fsx']}, {isolation.MEANING[cluster.state.mode]}")
    for pod in cluster.state.pods:
        row = next(r for r in _status_rows(status) if r["name"] == pod.name)
        _say(f"  {row['name']:<32} {row['address']:<13} {row['process']:<8} ray {row['ray']}")


def _status_rows(status: dict[str, object]) -> list[dict[str, object]]:
    rows = status["pods"]
    assert isinstance(rows, list)  # noqa: S101  # made above
    return rows


def _start(options: argparse.Namespace) -> None:
    cluster = Cluster.start(
        manifest=manifest_of(options.env, project=PROJECT),
        project=PROJECT,
        name=options.name,
        max_pods=options.max_pods,
        tell=_say,
    )
    for line in cluster.plan.not_honoured:
        _say(f"not honoured: {line}")
    _show(cluster, as_json=options.json)


def _stop(options: argparse.Namespace) -> None:
    cluster = _only(options.name)
    left = cluster.stop()
    if left:
        raise LocalError(f"still running: processes {left}", code=1)
    _say(f"{cluster.state.name}: stopped; logs and the shared folder stay in {ROOT / cluster.state.name}")


def _bridge(options: argparse.Namespace) -> None:
    from rehearsal.ray_hosts.bridge import Kubernetes, bridge  # noqa: PLC0415  (ssl and urllib are slow to import)

    _say(bridge(_only(options.name), Kubernetes(options.state / "kubernetes")))
    _say("now: python -m ops connect ENV, python -m ops submit ENV -- …")


def _pod(cluster: Cluster, name: str | None) -> Pod:
    """The named pod, or the first one that trains."""
    if name:
        return cluster.pod(name)
    pods = cluster.training_pods()
    if not pods:
        raise LocalError("no live worker pod; python -m rehearsal ray replace-node", code=1)
    return pods[0]


def _act(options: argparse.Namespace) -> None:
    cluster = _only(options.name)
    if options.command == "kill-head":
        cluster.kill(cluster.head())
        name = cluster.head().name
        _say(f"{name}: killed; a new one: python -m rehearsal ray replace-node --pod {name}")
        return
    if options.command == "replace-node" and not options.pod:
        gone = [pod for pod in cluster.state.pods if not pod.alive or pod.frozen]
        if not gone:
            raise LocalError("every pod runs; --pod names the one to replace anyway")
        pod = gone[0]
    else:
        pod = _pod(cluster, options.pod)
    match options.command:
        case "kill-node":
            cluster.kill(pod)
            _say(f"{pod.name}: killed")
        case "freeze-node":
            cluster.freeze(pod, thaw=options.thaw)
            _say(f"{pod.name}: {'goes on' if options.thaw else 'frozen'}")
        case "kill-worker":
            _say(f"{pod.name}: training process {cluster.kill_worker(pod)} killed")
        case "drain-node":
            if options.delete:
                cluster.delete(pod)
                _say(f"{pod.name}: SIGTERM sent, as deleting the pod does; SIGKILL is yours (grace period not watched)")
            else:
                cluster.drain(pod, seconds=options.seconds)
                _say(f"{pod.name}: draining, deadline in {options.seconds} s")
        case "replace-node":
            fresh = cluster.replace(pod)
            _say(f"{pod.name}: replaced by {fresh.name} at {fresh.ip}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="python -m rehearsal ray", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)

    start = commands.add_parser("start", help="start the pods of an environment's RayCluster (or of a manifest file)")
    start.add_argument("env", help="environment name, or the path of a RayCluster manifest")
    start.add_argument("--name", help="left out: the manifest's name")
    start.add_argument("--max-pods", type=int, default=2, metavar="N", help="most pods of one worker group (2)")
    start.add_argument("--json", action="store_true")
    start.set_defaults(run=_start)

    stop = commands.add_parser("stop", help="end every process of a cluster, and nothing else")
    stop.add_argument("name", nargs="?")
    stop.set_defaults(run=_stop)

    status = commands.add_parser("status", help="pods, their processes and what Ray thinks of them")
    status.add_argument("name", nargs="?")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=lambda options: _show(_only(options.name), as_json=options.json))

    bridge = commands.add_parser("bridge", help="put it behind the RayCluster of the local Kubernetes API, for ops")
    bridge.add_argument("name", nargs="?")
    bridge.add_argument(
        "--state", type=Path, default=STATE, metavar="FOLDER", help="of the embedded AWS (.local/aws; .local/demo/aws)"
    )
    bridge.set_defaults(run=_bridge)

    for name, text in (
        ("kill-node", "a machine is gone from one moment to the next"),
        ("freeze-node", "a machine stands still"),
        ("kill-worker", "one training process is killed"),
        ("drain-node", "Ray is told that a node goes away (or its pod is deleted)"),
        ("replace-node", "a fresh pod takes the place of one that is gone"),
        ("kill-head", "the head is gone"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--name", help="the cluster; left out: the only one")
        command.add_argument("--pod", help="pod name or address; left out: the first worker")
        if name == "freeze-node":
            command.add_argument("--thaw", action="store_true", help="let it go on")
        if name == "drain-node":
            command.add_argument("--seconds", type=int, default=30, help="deadline (30)")
            command.add_argument("--delete", action="store_true", help="SIGTERM instead, as deleting the pod does")
        command.set_defaults(run=_act)
    return root


def main(argv: list[str]) -> int:
    """Run one command; 0 done, 1 it failed, 2 bad input."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        options.run(options)
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return 0
