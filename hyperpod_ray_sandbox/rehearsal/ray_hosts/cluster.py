"""A Ray cluster on loopback: its pods as processes, and what can be done to them.

State is kept in `.local/ray/NAME/` (`state.json`, the manifest, the token, logs, the shared folder `fsx`), so that
every command of `hyperpod-ray local ray` is a process of its own. Nothing here runs `ray stop` or signals by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import yaml

from hyperpod_ray.core.names import CLIENT_PORT, DASHBOARD_PORT, GCS_PORT
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.jobs_api import BY_HAND_SECONDS, Dashboard
from hyperpod_ray_sandbox.rehearsal.ray_hosts.launcher import Launcher
from hyperpod_ray_sandbox.rehearsal.ray_hosts.machine import (
    check_version,
    connects,
    free_network,
    free_port,
    rehearsal_bin,
    wait,
    write_secret,
)
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import ClusterPlan, Manifest, PodPlan, plan
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import FIRST_HOST, ROOT, Pod, State

START_SECONDS = 300  # of the head, then of the nodes; 5 and 8 on a quiet machine
END_SECONDS = 120  # of a pod's processes, after SIGKILL; a moment on a quiet machine
# Ray gives a node 30 s to start (ray/_private/node.py, no setting), too few on a machine that is busy with other things
RESTARTS = 5  # of a container while the cluster starts


class Cluster:
    """A loopback Ray cluster; make one with `start` or take up a running one with `load`."""

    def __init__(self, *, project: Path, state: State, manifest: Manifest) -> None:
        self.project, self.state, self.manifest = project, state, manifest
        self.folder = project / ROOT / state.name
        self.plan: ClusterPlan = plan(manifest, max_pods=state.max_pods, name=state.name, pod_cpus=state.pod_cpus)
        self.bin = rehearsal_bin(project=project)
        self.launcher = Launcher(
            folder=self.folder, bin_folder=self.bin, state=state, token_auth=self.plan.token_auth, save=self.save
        )

    # --- making and finding ---------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        *,
        manifest: Manifest,
        project: Path,
        name: str | None = None,
        max_pods: int = 2,
        pod_cpus: int = 1,
        env: dict[str, str] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> Cluster:
        """Start the pods of a RayCluster manifest and wait until the head counts every node.

        Args:
            manifest: a `ray.io/v1` RayCluster.
            project: the project's folder; state goes to `.local/ray/NAME` in it.
            name: default: the manifest's.
            max_pods: most pods of one worker group (`hyperpod_ray_sandbox.rehearsal.ray_hosts.scale.RULE`).
            pod_cpus: CPUs, and so ranks, of a pod that trains.
            env: set on every pod on top of the manifest's; to shorten a drain in a rehearsal, for example.
            note: receives a line for each thing worth knowing.

        Raises:
            LocalError: it runs already, the environment is missing, or a pod does not come up.
        """
        bin_folder = rehearsal_bin(project=project)
        planned = plan(manifest, max_pods=max_pods, name=name, pod_cpus=pod_cpus)
        folder = project / ROOT / planned.name
        for gone in cls.sweep(project=project):
            note(f"cleared up after {gone}, whose command was killed")
        if planned.name in cls.running(project=project):
            raise LocalError(
                f"ray cluster {planned.name!r} runs already",
                expected="a new name",
                fix=f"hyperpod-ray local ray stop {planned.name}",
            )
        check_version(bin_folder, planned)
        if folder.exists():
            for subfolder in ("logs", "gcs"):  # a GCS must not wake up with the state of an earlier cluster
                shutil.rmtree(folder / subfolder, ignore_errors=True)
        for sub in ("logs", "fsx"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        (folder / "manifest.yaml").write_text(yaml.safe_dump(dict(manifest), sort_keys=False), encoding="utf-8")
        network = free_network()
        head_ip = f"{network}.{FIRST_HOST}"
        backend = planned.fault_tolerance
        if backend == "redis" and not shutil.which("redis-server"):
            backend = "rocksdb"
            note("gcs fault tolerance: redis-server is not installed, Ray's embedded RocksDB takes its place")
        state = State(
            name=planned.name,
            network=network,
            gcs_port=free_port(head_ip, GCS_PORT),
            dashboard_port=free_port(head_ip, DASHBOARD_PORT),
            client_port=free_port(head_ip, CLIENT_PORT),
            mode=isolation.choose(),
            max_pods=max_pods,
            pod_cpus=pod_cpus,
            backend=backend,
            env=dict(env or {}),
        )
        cluster = cls(project=project, state=state, manifest=manifest)
        note(f"isolation: {isolation.MEANING[state.mode]}")
        note(f"scaled: {cluster.plan.rule}")
        try:
            write_secret(cluster.token_path)
            if backend == "redis":
                cluster.launcher.start_store()
            cluster.launcher.start_pod(cluster.plan.head, ip=head_ip)
            cluster.wait_for_gcs()
            for group in cluster.plan.workers:
                for _ in range(group.pods):
                    cluster.launcher.start_pod(group)
            cluster.wait_for_nodes()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @classmethod
    def load(cls, *, name: str, project: Path) -> Cluster:
        """A cluster started earlier. LocalError where there is none of that name."""
        folder = project / ROOT / name
        try:
            raw = json.loads((folder / "state.json").read_text(encoding="utf-8"))
            manifest = yaml.safe_load((folder / "manifest.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            cluster_names = ", ".join(cls.names(project=project)) or "none"
            raise LocalError(
                f"ray cluster: {name!r}",
                expected=f"one of {cluster_names}",
                fix="correct the name, or start it: hyperpod-ray local ray start",
            ) from None
        raw["pods"] = [Pod(**pod) for pod in raw["pods"]]
        raw["store"] = Pod(**raw["store"]) if raw["store"] else None
        return cls(project=project, state=State(**raw), manifest=manifest)

    @staticmethod
    def names(*, project: Path) -> list[str]:
        """Clusters with a state file, in order."""
        return sorted(path.parent.name for path in (project / ROOT).glob("*/state.json"))

    @classmethod
    def running(cls, *, project: Path) -> list[str]:
        """Clusters of which a process lives, in order."""
        return [name for name, cluster in cls._all(project) if cluster._lives()]

    @classmethod
    def sweep(cls, *, project: Path) -> list[str]:
        """Clear up after clusters whose command was killed: token, temp-dirs, state file. Their names."""
        swept = []
        for name, cluster in cls._all(project):
            # a cluster that is being started by another command has no pod in its state yet
            if (cluster.state.pods or cluster.state.store) and not cluster._lives():
                cluster.stop()
                swept.append(name)
        return swept

    @classmethod
    def _all(cls, project: Path) -> Iterator[tuple[str, Cluster]]:
        for name in cls.names(project=project):
            with contextlib.suppress(LocalError):  # another command has just stopped it
                yield name, cls.load(name=name, project=project)

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def head_ip(self) -> str:
        """The head's address: what the head service's DNS name is in Kubernetes; a new head gets the same."""
        return self.launcher.head_ip

    @property
    def fsx(self) -> Path:
        """The folder that stands for the shared file system."""
        return self.folder / "fsx"

    @property
    def token_path(self) -> Path:
        """The token's file, mode 0600."""
        return self.launcher.token_path

    @property
    def dashboard(self) -> Dashboard:
        """Dashboard and Jobs API, with the token."""
        token = self.token_path.read_text(encoding="utf-8").strip() if self.plan.token_auth else None
        return Dashboard(host=self.head_ip, port=self.state.dashboard_port, token=token)

    def client_env(self) -> dict[str, str]:
        """Environment for Ray's own commands against this cluster."""
        return self.launcher.client_env()

    def pod(self, name: str) -> Pod:
        """A pod by name or address; LocalError names the ones there are."""
        for pod in self.state.pods:
            if name in (pod.name, pod.ip):
                return pod
        raise LocalError(
            f"pod: {name!r}",
            expected=f"one of {', '.join(pod.name for pod in self.state.pods) or 'none'}",
            fix="correct the name",
        )

    def alive_pods(self) -> list[Pod]:
        """Pods whose processes exist."""
        return [pod for pod in self.state.pods if pod.alive]

    def training_pods(self) -> list[Pod]:
        """Live pods that offer CPUs to training."""
        groups = {group.group for group in self.plan.workers if group.trains}
        return [pod for pod in self.alive_pods() if pod.group in groups]

    def head(self) -> Pod:
        """The head pod; LocalError where there is none."""
        for pod in self.state.pods:
            if pod.group == self.plan.head.group:
                return pod
        raise LocalError(
            "the cluster has no head pod", expected="one", fix="hyperpod-ray local ray stop, then start", code=1
        )

    def group(self, pod: Pod) -> PodPlan:
        """The plan a pod was made from."""
        return next(group for group in self.plan.groups if group.group == pod.group)

    def members(self, pod: Pod) -> list[int]:
        """A pod's processes, by this system's ids."""
        return isolation.members(pod.process, mode=self.state.mode, marker=pod.name)

    def find(self, pod: Pod, needle: str) -> list[int]:
        """A pod's processes whose command line holds `needle`."""
        return [pid for pid in self.members(pod) if needle in isolation.command_line(pid)]

    def gcs_up(self) -> bool:
        """Whether the head's GCS takes connections and knows the head itself: only then may a worker come."""
        head = self.head()
        return (
            head.alive
            and not head.frozen
            and connects(self.head_ip, self.state.gcs_port)
            and "Ray runtime started" in self.launcher.log(head)
        )

    # --- faults ---------------------------------------------------------------------------------------------------

    def kill(self, pod: Pod) -> None:
        """The machine is gone, from one moment to the next."""
        isolation.destroy(pod.process, mode=self.state.mode, marker=pod.name)
        wait(lambda: not pod.alive, seconds=END_SECONDS, subject=f"end of {pod.name}", every=0.02)
        self.save()

    def freeze(self, pod: Pod, *, thaw: bool = False) -> None:
        """The machine still has power but does nothing; `thaw` lets it continue."""
        isolation.send(self.members(pod), signal.SIGCONT if thaw else signal.SIGSTOP)
        pod.frozen = not thaw
        self.save()

    def kill_worker(
        self,
        pod: Pod,
        *,
        needle: str = "RayTrainWorker",
        inner: list[int] | None = None,
        number: signal.Signals = signal.SIGKILL,
    ) -> int:
        """A signal to one training process of a pod and nothing else; its id, or LocalError where none trains there.

        Args:
            pod: where.
            needle: what its command line holds.
            inner: one of these, by the pod's own process ids; default: any.
            number: the signal.
        """
        for pid in self.find(pod, needle):
            if inner is not None and isolation.inner_id(pid) not in inner:
                continue
            isolation.send([pid], number)
            return pid
        raise LocalError(
            f"{pod.name}: no training process", expected="a worker of the run", fix="choose a pod that trains", code=1
        )

    def delete(self, pod: Pod) -> None:
        """What deleting the pod does: `preStop`, then SIGTERM. `expire` ends what outstays the grace period."""
        group = self.group(pod)
        if group.pre_stop:
            subprocess.run(group.pre_stop, env=self.client_env(), capture_output=True, check=False)
        inside = self.members(pod)
        isolation.send(inside[:1], signal.SIGTERM)
        pod.deleted_at = time.time()
        self.save()

    def expire(self) -> list[Pod]:
        """SIGKILL pods that were deleted longer than their grace period ago; those it ended."""
        late = [
            pod
            for pod in self.state.pods
            if pod.deleted_at and pod.alive and time.time() > pod.deleted_at + self.group(pod).grace_seconds
        ]
        for pod in late:
            self.kill(pod)
        return late

    def drain(self, pod: Pod, *, seconds: int, message: str = "node is about to be replaced") -> None:
        """Tell Ray that a node goes away in `seconds`: the hook for HyperPod's notice of a replacement.

        Source: `ray drain-node --help` (Ray 2.60).
        """
        node_id = self._node_id(pod)
        command = [str(self.bin / "ray"), "drain-node", "--node-id", node_id]
        command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", message]
        command += ["--deadline-remaining-seconds", str(seconds)]
        done = subprocess.run(command, env=self.client_env(), capture_output=True, text=True, check=False)
        if done.returncode:
            last_line = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise LocalError(
                f"ray drain-node failed: exit code {done.returncode}: {last_line}",
                expected="0",
                fix="look at the pods: hyperpod-ray local ray status",
                code=1,
            )

    def _node_id(self, pod: Pod) -> str:
        _, body = self.dashboard.request("/api/v0/nodes?limit=1000&detail=0", timeout=BY_HAND_SECONDS)
        for row in body["data"]["result"]["result"] if body else []:
            if row["node_ip"] == pod.ip and row["state"] == "ALIVE":
                return str(row["node_id"])
        raise LocalError(
            f"{pod.name}: not in the head's list of live nodes",
            expected="a live node",
            fix="look at the pods: hyperpod-ray local ray status",
            code=1,
        )

    def replace(self, pod: Pod, *, wait_for_it: bool = True) -> Pod:
        """A new pod of the same group on a new address; the old one is ended if it still runs.

        A worker gets the next address; a head keeps its own, which stands for the head service's name.
        """
        if pod.alive:
            self.kill(pod)
        self.state.pods.remove(pod)
        group = self.group(pod)
        fresh = self.launcher.start_pod(group, ip=self.head_ip if group.head else None)
        if wait_for_it:
            if group.head:
                self.wait_for_gcs()
            self.wait_for_nodes([fresh])
        return fresh

    def restart(self, pod: Pod) -> Pod:
        """Restart a pod's container in its place, as a kubelet does when `ray start` has ended by itself."""
        self.state.pods.remove(pod)
        (self.folder / "logs" / f"{pod.name}.log").rename(self.folder / "logs" / f"{pod.name}.previous.log")
        return self.launcher.start_pod(self.group(pod), ip=pod.ip, name=pod.name)

    # --- start and stop -------------------------------------------------------------------------------------------

    def wait_for_gcs(self) -> None:
        """Until the head's GCS takes connections and knows the head (KubeRay's init container `wait-gcs-ready`)."""
        restarts: Counter[str] = Counter()

        def up() -> bool:
            self._restart_ended({self.head_ip}, restarts)
            return self.gcs_up()

        wait(up, seconds=START_SECONDS, subject="ray head")

    def wait_for_nodes(self, pods: list[Pod] | None = None) -> None:
        """Until the head counts these pods (default: all of them) as alive nodes."""
        expected = {pod.ip for pod in (self.state.pods if pods is None else pods)}
        restarts: Counter[str] = Counter()

        def up() -> bool:
            self._restart_ended(expected, restarts)
            states = self.dashboard.nodes()
            return all(states.get(ip) == "ALIVE" for ip in expected)

        wait(up, seconds=START_SECONDS, subject="ray nodes", every=0.2)

    def _restart_ended(self, addresses: set[str], restarts: Counter[str]) -> None:
        """What a kubelet does with a container that ends while it starts; LocalError after `RESTARTS` times."""
        for pod in [pod for pod in self.state.pods if pod.ip in addresses and not pod.alive]:
            restarts[pod.ip] += 1
            if restarts[pod.ip] > RESTARTS:
                raise LocalError(
                    f"{pod.name} ended while it started: {self.launcher.last_line(pod)}",
                    expected="a running Ray process",
                    fix="see the pod's log",
                    code=1,
                )
            self.restart(pod)

    def stop(self) -> list[int]:
        """End every process of the cluster and nothing else; the ids that could not be ended (none, as a rule)."""
        pods = [*self.state.pods, *([self.state.store] if self.state.store else [])]
        for pod in pods:
            isolation.destroy(pod.process, mode=self.state.mode, marker=pod.name)
        with contextlib.suppress(LocalError):
            wait(lambda: not any(pod.alive for pod in pods), seconds=END_SECONDS, subject="end of the pods")
        survivors = [pid for pod in pods for pid in self.members(pod)]
        for temp in self.state.temps:
            shutil.rmtree(temp, ignore_errors=True)
        self.state.pods, self.state.store = [], None
        (self.folder / "state.json").unlink(missing_ok=True)
        for secret in ("token", "redis-password"):
            (self.folder / secret).unlink(missing_ok=True)
        return survivors

    def save(self) -> None:
        """Write the state; atomically, since another command may read it."""
        target = self.folder / "state.json"
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(asdict(self.state), indent=1), encoding="utf-8")
        fresh.replace(target)

    def _lives(self) -> bool:
        return bool(self.alive_pods()) or bool(self.state.store and self.state.store.alive)
