"""A Ray cluster on loopback: its pods as processes, and what can be done to them.

State is kept in `.local/ray/NAME/` (`state.json`, the manifest, the token, logs, the shared folder `fsx`), so that
every command of `hyperpod-ray local ray` is a process of its own. Nothing here runs `ray stop` or signals by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from core.names import CLIENT_PORT, DASHBOARD_PORT, GCS_PORT
from rehearsal.ray_hosts import isolation
from rehearsal.ray_hosts.errors import LocalError
from rehearsal.ray_hosts.isolation import Process
from rehearsal.ray_hosts.jobs_api import Dashboard
from rehearsal.ray_hosts.manifest import ClusterPlan, Manifest, PodPlan, plan
from sandbox import leash

ROOT = Path(".local") / "ray"
REHEARSAL_ENV = ".venv-rehearsal"
FIRST_HOST = 11  # 127.0.0.11 and up; .10 is the store of the GCS
LAST_HOST = 250
WORKER_PORTS = range(10100, 19900, 100)  # a hundred ports a pod, so that no two raylets hand out the same one
INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "TMPDIR", "TZ", "USER", leash.VARIABLE)
START_SECONDS = 300  # of the head, then of the nodes; 5 and 8 on a quiet machine
# Ray gives a node 30 s to start (ray/_private/node.py, no setting), too few on a machine that is busy with other things
RESTARTS = 5  # of a container while the cluster starts


def rehearsal_bin(*, project: Path) -> Path:
    """The folder with `ray` and `python` of the rehearsal environment.

    Raises:
        LocalError: the environment is missing.
    """
    folder = project / REHEARSAL_ENV / "bin"
    if not (folder / "ray").exists():
        raise LocalError(f"no {REHEARSAL_ENV}", expected="an environment with Ray", fix="make rehearsal-env")
    return folder


@dataclass(kw_only=True)
class Pod:
    """One pod: a process tree with its own address.

    Args:
        name: as Kubernetes would name it.
        group: the group of the plan it was made from.
        ip: its loopback address; also stands for the node it runs on.
        pid: the process started for it.
        started: that process's start time in clock ticks (guards against reused ids).
        temp: Ray's temp-dir of this pod.
        agent_port: its dashboard agent's port.
    """

    name: str
    group: str
    ip: str
    pid: int
    started: int
    temp: str
    agent_port: int
    born: float = 0.0
    frozen: bool = False
    deleted_at: float | None = None

    @property
    def process(self) -> Process:
        """Its outermost process."""
        return Process(pid=self.pid, started=self.started)

    @property
    def alive(self) -> bool:
        """Whether its processes exist (frozen counts)."""
        return self.process.alive


@dataclass(kw_only=True)
class State:
    """What is written to `state.json`."""

    name: str
    network: str
    gcs_port: int
    dashboard_port: int
    client_port: int
    mode: isolation.Mode
    max_pods: int
    backend: str | None
    pod_cpus: int = 1
    store: Pod | None = None
    store_port: int = 0
    pods: list[Pod] = field(default_factory=list)
    next_host: int = FIRST_HOST
    env: dict[str, str] = field(default_factory=dict)
    temps: list[str] = field(default_factory=list)
    """Every temp-dir ever made, also of pods that were replaced: their logs may still be wanted until `stop`."""


def free_port(ip: str, wanted: int = 0) -> int:
    """`wanted` if nothing listens there, else a free one."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((ip, port))
            # Ray's GCS listens on every address, so its port must be free on all of them
            if port and any(_connects(other, port) for other in ("127.0.0.1", "127.0.0.11", "127.0.1.11")):
                continue
            return int(probe.getsockname()[1])
    raise LocalError(
        f"no free port on {ip}", expected="one", fix="free those of other clusters: hyperpod-ray local ray stop", code=1
    )


def _connects(ip: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((ip, port)) == 0


def wait(check: Callable[[], Any], *, seconds: float, what: str, every: float = 0.1) -> Any:
    """Poll until `check` gives something true; LocalError (exit 1) naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if result := check():
            return result
        if time.monotonic() > deadline:
            raise LocalError(
                f"{what}: not yet",
                expected=f"it within {seconds:g} s",
                fix="run the command again on a quieter machine",
                code=1,
            )
        time.sleep(every)


class Cluster:
    """A loopback Ray cluster; make one with `start` or take up a running one with `load`."""

    def __init__(self, *, project: Path, state: State, manifest: Manifest) -> None:
        self.project, self.state, self.manifest = project, state, manifest
        self.folder = project / ROOT / state.name
        self.plan: ClusterPlan = plan(manifest, max_pods=state.max_pods, name=state.name, pod_cpus=state.pod_cpus)
        self.bin = rehearsal_bin(project=project)

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
            max_pods: most pods of one worker group (`rehearsal.ray_hosts.scale.RULE`).
            pod_cpus: CPUs, and so ranks, of a pod that trains.
            env: set on every pod on top of the manifest's; to shorten a drain in a rehearsal, for example.
            note: receives a line for each thing worth knowing.

        Raises:
            LocalError: it runs already, the environment is missing, or a pod does not come up.
        """
        bin_folder = rehearsal_bin(project=project)
        wanted = plan(manifest, max_pods=max_pods, name=name, pod_cpus=pod_cpus)
        folder = project / ROOT / wanted.name
        for gone in cls.sweep(project=project):
            note(f"cleared up after {gone}, whose command was killed")
        if wanted.name in cls.running(project=project):
            raise LocalError(
                f"ray cluster {wanted.name!r} runs already",
                expected="a new name",
                fix=f"hyperpod-ray local ray stop {wanted.name}",
            )
        _check_version(bin_folder, wanted)
        if folder.exists():
            for old in ("logs", "gcs"):  # a GCS must not wake up with the state of an earlier cluster
                shutil.rmtree(folder / old, ignore_errors=True)
        for sub in ("logs", "fsx"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        (folder / "manifest.yaml").write_text(yaml.safe_dump(dict(manifest), sort_keys=False), encoding="utf-8")
        network = _free_network()
        head_ip = f"{network}.{FIRST_HOST}"
        backend = wanted.fault_tolerance
        if backend == "redis" and not shutil.which("redis-server"):
            backend = "rocksdb"
            note("gcs fault tolerance: redis-server is not installed, Ray's embedded RocksDB takes its place")
        state = State(
            name=wanted.name,
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
            _write_secret(cluster.token_path)
            if backend == "redis":
                cluster._start_store()
            cluster._start_pod(cluster.plan.head, ip=head_ip)
            cluster.wait_for_gcs()
            for group in cluster.plan.workers:
                for _ in range(group.pods):
                    cluster._start_pod(group)
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
            known = ", ".join(cls.names(project=project)) or "none"
            raise LocalError(
                f"ray cluster: {name!r}",
                expected=f"one of {known}",
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
        return f"{self.state.network}.{FIRST_HOST}"

    @property
    def fsx(self) -> Path:
        """The folder that stands for the shared file system."""
        return self.folder / "fsx"

    @property
    def token_path(self) -> Path:
        """The token's file, mode 0600."""
        return self.folder / "token"

    @property
    def dashboard(self) -> Dashboard:
        """Dashboard and Jobs API, with the token."""
        token = self.token_path.read_text(encoding="utf-8").strip() if self.plan.token_auth else None
        return Dashboard(host=self.head_ip, port=self.state.dashboard_port, token=token)

    def client_env(self) -> dict[str, str]:
        """Environment for Ray's own commands against this cluster."""
        env = {key: os.environ[key] for key in INHERITED if key in os.environ}
        env["PATH"] = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        env |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        env["RAY_ADDRESS"] = f"{self.head_ip}:{self.state.gcs_port}"
        if self.plan.token_auth:
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_path)}
        return env

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
            and _connects(self.head_ip, self.state.gcs_port)
            and "Ray runtime started" in self._log(head)
        )

    # --- faults ---------------------------------------------------------------------------------------------------

    def kill(self, pod: Pod) -> None:
        """The machine is gone, from one moment to the next."""
        isolation.destroy(pod.process, mode=self.state.mode, marker=pod.name)
        wait(lambda: not pod.alive, seconds=10, what=f"end of {pod.name}", every=0.02)
        self.save()

    def freeze(self, pod: Pod, *, thaw: bool = False) -> None:
        """The machine still has power but does nothing; `thaw` lets it continue."""
        isolation.send(self.members(pod), signal.SIGCONT if thaw else signal.SIGSTOP)
        pod.frozen = not thaw
        self.save()

    def kill_worker(self, pod: Pod, *, needle: str = "RayTrainWorker", inner: list[int] | None = None) -> int:
        """SIGKILL one training process of a pod and nothing else; its id, or LocalError where none trains there.

        Args:
            pod: where.
            needle: what its command line holds.
            inner: one of these, by the pod's own process ids; default: any.
        """
        for pid in self.find(pod, needle):
            if inner is not None and isolation.inner_id(pid) not in inner:
                continue
            isolation.send([pid], signal.SIGKILL)
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
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise LocalError(
                f"ray drain-node failed: exit code {done.returncode}: {last}",
                expected="0",
                fix="look at the pods: hyperpod-ray local ray status",
                code=1,
            )

    def _node_id(self, pod: Pod) -> str:
        _, body = self.dashboard.request("/api/v0/nodes?limit=1000&detail=0")
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
        fresh = self._start_pod(group, ip=self.head_ip if group.head else None)
        if wait_for_it:
            if group.head:
                self.wait_for_gcs()
            self.wait_for_nodes([fresh])
        return fresh

    def restart(self, pod: Pod) -> Pod:
        """Restart a pod's container in its place, as a kubelet does when `ray start` has ended by itself."""
        self.state.pods.remove(pod)
        (self.folder / "logs" / f"{pod.name}.log").rename(self.folder / "logs" / f"{pod.name}.previous.log")
        return self._start_pod(self.group(pod), ip=pod.ip, name=pod.name)

    # --- start and stop -------------------------------------------------------------------------------------------

    def wait_for_gcs(self) -> None:
        """Until the head's GCS takes connections and knows the head (KubeRay's init container `wait-gcs-ready`)."""
        restarts: Counter[str] = Counter()

        def up() -> bool:
            self._restart_ended({self.head_ip}, restarts)
            return self.gcs_up()

        wait(up, seconds=START_SECONDS, what="ray head")

    def wait_for_nodes(self, pods: list[Pod] | None = None) -> None:
        """Until the head counts these pods (default: all of them) as alive nodes."""
        expected = {pod.ip for pod in (self.state.pods if pods is None else pods)}
        restarts: Counter[str] = Counter()

        def up() -> bool:
            self._restart_ended(expected, restarts)
            states = self.dashboard.nodes()
            return all(states.get(ip) == "ALIVE" for ip in expected)

        wait(up, seconds=START_SECONDS, what="ray nodes", every=0.2)

    def _restart_ended(self, addresses: set[str], restarts: Counter[str]) -> None:
        """What a kubelet does with a container that ends while it starts; LocalError after `RESTARTS` times."""
        for pod in [pod for pod in self.state.pods if pod.ip in addresses and not pod.alive]:
            restarts[pod.ip] += 1
            if restarts[pod.ip] > RESTARTS:
                raise LocalError(
                    f"{pod.name} ended while it started: {self._last_line(pod)}",
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
            wait(lambda: not any(pod.alive for pod in pods), seconds=10, what="end of the pods")
        left = [pid for pod in pods for pid in self.members(pod)]
        for temp in self.state.temps:
            shutil.rmtree(temp, ignore_errors=True)
        self.state.pods, self.state.store = [], None
        (self.folder / "state.json").unlink(missing_ok=True)
        for secret in ("token", "redis-password"):
            (self.folder / secret).unlink(missing_ok=True)
        return left

    def save(self) -> None:
        """Write the state; atomically, since another command may read it."""
        target = self.folder / "state.json"
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(asdict(self.state), indent=1), encoding="utf-8")
        fresh.replace(target)

    def _lives(self) -> bool:
        return bool(self.alive_pods()) or bool(self.state.store and self.state.store.alive)

    def _names(self, group: str) -> Iterator[str]:
        while True:
            yield f"{self.state.name}-{group}-{secrets.token_hex(3)[:5]}"

    def _launch(self, *, name: str, group: str, ip: str, temp: str, command: list[str], env: dict[str, str]) -> Pod:
        log = self.folder / "logs" / f"{name}.log"
        with log.open("ab") as stream:
            started = subprocess.Popen(
                [*isolation.PREFIXES[self.state.mode], *command],
                env=env | {isolation.MARKER: name},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                cwd=self.folder,
            )
        process = Process.of(started.pid)
        return Pod(
            name=name,
            group=group,
            ip=ip,
            pid=process.pid,
            started=process.started,
            temp=temp,
            agent_port=0,
            born=time.time(),
        )

    def _start_store(self) -> None:
        """Redis for the GCS, on loopback with a password, as a pod of its own."""
        ip = f"{self.state.network}.{FIRST_HOST - 1}"
        self.state.store_port = free_port(ip)
        temp = self._temp("redis-")
        password = self._redis_password(make=True)
        config = Path(temp) / "redis.conf"  # not on the command line: everyone can read that
        config.touch(mode=0o600)
        config.write_text(
            f"bind {ip}\nport {self.state.store_port}\nrequirepass {password}\nsave ''\nappendonly no\ndir {temp}\n",
            encoding="utf-8",
        )
        command = ["redis-server", str(config)]
        name = next(self._names("gcs-redis"))
        self.state.store = self._launch(
            name=name, group="redis", ip=ip, temp=temp, command=command, env=self.client_env()
        )
        self.save()
        wait(lambda: _connects(ip, self.state.store_port), seconds=15, what="redis for the gcs")

    def _start_pod(self, group: PodPlan, *, ip: str | None = None, name: str | None = None) -> Pod:
        state = self.state
        if ip is None:
            state.next_host = state.next_host + 1 if state.next_host < LAST_HOST else FIRST_HOST + 1
            ip = f"{state.network}.{state.next_host}"
        host = int(ip.rpartition(".")[2])
        name = name or next(self._names(group.group))
        # Ray puts sockets in there and a socket's path may have 107 characters: not below the project's folder
        temp = self._temp("ray-")
        agent_port = free_port(ip)
        ports = WORKER_PORTS[(host - FIRST_HOST) % len(WORKER_PORTS)]
        command = [str(self.bin / "ray"), "start", "--block", f"--node-ip-address={ip}", f"--temp-dir={temp}"]
        command += [f"--dashboard-agent-listen-port={agent_port}", "--disable-usage-stats"]
        command += [f"--min-worker-port={ports}", f"--max-worker-port={ports + 99}", *group.flags()]
        # Ray's own 15 is for a node of its own: here the rest of the machine would leave workers a thirtieth of a core
        env = self.client_env() | {"RAY_worker_niceness": "0"}
        env |= {
            key: value.format_map({"ip": ip, "pod": name, "node": f"hyperpod-i-{host:017x}"})
            if value in ("{ip}", "{pod}", "{node}")
            else value
            for key, value in group.env.items()
        }
        env |= {"RAY_CLUSTER_NAME": state.name, "RAY_NODE_TYPE_NAME": group.group}  # as KubeRay sets them
        env |= state.env
        if group.head:
            env.pop("RAY_ADDRESS")
            command += ["--head", f"--port={state.gcs_port}", "--include-dashboard=true", f"--dashboard-host={ip}"]
            command += [f"--dashboard-port={state.dashboard_port}", f"--ray-client-server-port={state.client_port}"]
            env |= self._store_env()
            if state.backend == "redis":
                # as KubeRay does; Ray hands it to its own processes as an argument, so it is a secret of its own
                command += [f"--redis-password={self._redis_password()}"]
        else:
            command += [f"--address={self.head_ip}:{state.gcs_port}"]
        pod = self._launch(name=name, group=group.group, ip=ip, temp=temp, command=command, env=env)
        pod.agent_port = agent_port
        state.pods.append(pod)
        self.save()
        return pod

    def _redis_password(self, *, make: bool = False) -> str:
        path = self.folder / "redis-password"
        if make:
            _write_secret(path)
        return path.read_text(encoding="utf-8")

    def _temp(self, prefix: str) -> str:
        self.state.temps.append(tempfile.mkdtemp(prefix=prefix))
        return self.state.temps[-1]

    def _store_env(self) -> dict[str, str]:
        """What makes a head keep its GCS where a new head finds it."""
        if self.state.backend == "redis" and self.state.store:
            return {
                "RAY_REDIS_ADDRESS": f"{self.state.store.ip}:{self.state.store_port}",
                "RAY_external_storage_namespace": self.state.name,
            }
        if self.state.backend == "rocksdb":
            folder = self.folder / "gcs"
            folder.mkdir(exist_ok=True)
            return {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(folder)}
        return {}

    def _log(self, pod: Pod) -> str:
        return (self.folder / "logs" / f"{pod.name}.log").read_text(encoding="utf-8", errors="replace")

    def _last_line(self, pod: Pod) -> str:
        """The last thing a pod has said; `unshare` itself adds a line when its child is gone."""
        return (
            [line.strip() for line in self._log(pod).splitlines() if line.strip() and not line.startswith("unshare:")]
            or ["no output"]
        )[-1]


def _write_secret(path: Path) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_hex(32))


def _check_version(bin_folder: Path, wanted: ClusterPlan) -> None:
    """The manifest's rayVersion must be the Ray that runs: a snapshot of another version does not load."""
    if wanted.ray_version is None:
        return
    for folder in bin_folder.parent.glob("lib/python*/site-packages/ray-*.dist-info"):
        installed = folder.name.removeprefix("ray-").removesuffix(".dist-info")
        if installed != wanted.ray_version:
            raise LocalError(
                f"Ray {installed} in {REHEARSAL_ENV}",
                expected=f"{wanted.ray_version}, the manifest's rayVersion",
                fix="recreate it: make rehearsal-env",
            )


def _free_network() -> str:
    """The first of 127.0.0, 127.0.1, … in which nothing listens on .10 and up."""
    taken = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            address = fields[1].partition(":")[0]  # little-endian hexadecimal
            a, b, c, d = (int(address[i : i + 2], 16) for i in (6, 4, 2, 0))
            if fields[3] == "0A" and a == 127 and d >= FIRST_HOST - 1:
                taken.add(f"127.{b}.{c}")
    return next(f"127.0.{i}" for i in range(256) if f"127.0.{i}" not in taken)
