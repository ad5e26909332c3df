"""The Ray cluster on loopback: start it, look at it, break it and stop it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.jobs_api import BY_HAND_SECONDS
from hyperpod_ray_sandbox.rehearsal.ray_hosts.source import manifest_of
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import ROOT, Pod

PROJECT = Path(__file__).resolve().parents[3]


def _log(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def only(name: str | None) -> Cluster:
    """The named cluster, or the only running one; where none runs, the only one that left its state."""
    if name is None:
        names = Cluster.running(project=PROJECT) or Cluster.names(project=PROJECT)
        if len(names) != 1:
            raise LocalError("no --name", expected=f"one of {', '.join(names) or 'none'}", fix="add --name")
        name = names[0]
    return Cluster.load(name=name, project=PROJECT)


def _status(cluster: Cluster) -> dict[str, object]:
    nodes = cluster.dashboard.nodes(timeout=BY_HAND_SECONDS)
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


def show(cluster: Cluster, *, as_json: bool) -> None:
    """Print the pods, their processes and what Ray reports of them."""
    status = _status(cluster)
    if as_json:
        _log(json.dumps(status, indent=1))
        return
    _log(f"{status['name']}: dashboard and Jobs API {status['dashboard']}, gcs {status['gcs']}")
    _log(f"  token file {status['token_file']}, gcs fault tolerance {status['fault_tolerance'] or 'none'}")
    _log(f"  shared folder {status['fsx']}, {isolation.MEANING[cluster.state.mode]}")
    for pod in cluster.state.pods:
        row = next(r for r in _status_rows(status) if r["name"] == pod.name)
        _log(f"  {row['name']:<32} {row['address']:<13} {row['process']:<8} ray {row['ray']}")


def _status_rows(status: dict[str, object]) -> list[dict[str, object]]:
    rows = status["pods"]
    assert isinstance(rows, list)  # noqa: S101  # made above
    return rows


def start(env: str, *, name: str | None, max_pods: int, as_json: bool) -> None:
    """Start the pods of an environment's RayCluster, or of a manifest file.

    Args:
        env: An environment's name, or the path of a RayCluster manifest.
        name: Name of the cluster. Default: the manifest's.
        max_pods: Most pods of one worker group.
        as_json: Print the status as JSON.
    """
    cluster = Cluster.start(
        manifest=manifest_of(env, project=PROJECT),
        project=PROJECT,
        name=name,
        max_pods=max_pods,
        note=_note if as_json else _log,
    )
    for line in cluster.plan.not_honoured:
        (_note if as_json else _log)(f"not honoured: {line}")
    show(cluster, as_json=as_json)


def stop(name: str | None) -> None:
    """End every process of a cluster, and nothing else."""
    cluster = only(name)
    survivors = cluster.stop()
    if survivors:
        raise LocalError(f"still running: processes {survivors}", expected="none", fix="end them by id", code=1)
    _log(f"{cluster.state.name}: stopped; logs and the shared folder stay in {ROOT / cluster.state.name}")


def bridge(name: str | None, *, state: Path) -> None:
    """Put the cluster behind the RayCluster of the local Kubernetes API.

    Args:
        name: Name of the cluster. Default: the only one.
        state: State folder of the embedded AWS.
    """
    from hyperpod_ray_sandbox.rehearsal.ray_hosts.bridge import Kubernetes  # ssl and urllib are slow to import
    from hyperpod_ray_sandbox.rehearsal.ray_hosts.bridge import bridge as connect

    _log(connect(only(name), Kubernetes(state / "kubernetes")))
    _log("next: hyperpod-ray connect ENV, hyperpod-ray submit ENV -- COMMAND")


def _pod(cluster: Cluster, name: str | None) -> Pod:
    """The named pod, or the first one that trains."""
    if name:
        return cluster.pod(name)
    pods = cluster.training_pods()
    if not pods:
        raise LocalError("no live worker pod", expected="one", fix="hyperpod-ray local ray replace-node", code=1)
    return pods[0]


def inject(fault: str, *, name: str | None, pod: str | None, seconds: int) -> None:
    """Inject a fault into a cluster that runs.

    Args:
        fault: `worker`, `node`, `head`, `freeze`, `thaw`, `drain` or `delete`.
        name: Name of the cluster. Default: the only one.
        pod: Pod name or address. Default: the first pod that trains.
        seconds: With `drain`, until the node goes away.

    Raises:
        LocalError: No such cluster or pod.
    """
    cluster = only(name)
    chosen = cluster.head() if fault == "head" else _pod(cluster, pod)
    match fault:
        case "worker":
            done = f"training process {cluster.kill_worker(chosen)} killed"
        case "node" | "head":
            cluster.kill(chosen)
            done = f"killed; to replace it: hyperpod-ray local ray replace-node --pod {chosen.name}"
        case "freeze" | "thaw":
            cluster.freeze(chosen, thaw=fault == "thaw")
            done = "continues" if fault == "thaw" else "frozen"
        case "drain":
            cluster.drain(chosen, seconds=seconds)
            done = f"draining, deadline in {seconds} s"
        case _:
            cluster.delete(chosen)
            done = "SIGTERM sent, as deleting the pod does; the grace period is not watched"
    _log(f"{chosen.name}: {done}")


def replace_node(name: str | None, *, pod: str | None) -> None:
    """Start a new pod in place of one that is gone."""
    cluster = only(name)
    if pod:
        chosen = cluster.pod(pod)
    else:
        gone = [candidate for candidate in cluster.state.pods if not candidate.alive or candidate.frozen]
        if not gone:
            raise LocalError(
                "no lost pod: every pod runs", expected="a lost one, or --pod", fix="add --pod to replace one that runs"
            )
        chosen = gone[0]
    fresh = cluster.replace(chosen)
    _log(f"{chosen.name}: replaced by {fresh.name} at {fresh.ip}")


def _note(line: str = "") -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
