"""Starts the pods of a plan: each `ray start` in a namespace of its own, with the environment that KubeRay gives it."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.isolation import Process
from hyperpod_ray_sandbox.rehearsal.ray_hosts.machine import connects, free_port, wait, write_secret
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import PodPlan
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import FIRST_HOST, Pod, State

LAST_HOST = 250
WORKER_PORTS = range(10100, 19900, 100)  # a hundred ports a pod, so that no two raylets hand out the same one
INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "TMPDIR", "TZ", "USER", leash.VARIABLE)


class Launcher:
    """Makes the processes of one cluster and notes them in its state.

    Args:
        folder: the cluster's, for logs, the GCS's store and secrets.
        bin_folder: with `ray`.
        state: where pods are noted.
        token_auth: whether Ray asks for the token.
        save: writes the state down.
    """

    def __init__(
        self, *, folder: Path, bin_folder: Path, state: State, token_auth: bool, save: Callable[[], None]
    ) -> None:
        self.folder, self.bin, self.state, self.token_auth, self.save = folder, bin_folder, state, token_auth, save

    @property
    def head_ip(self) -> str:
        """The head's address: what the head service's DNS name is in Kubernetes; a new head gets the same."""
        return f"{self.state.network}.{FIRST_HOST}"

    @property
    def token_path(self) -> Path:
        """The token's file, mode 0600."""
        return self.folder / "token"

    def client_env(self) -> dict[str, str]:
        """Environment for Ray's own commands against this cluster."""
        env = {key: os.environ[key] for key in INHERITED if key in os.environ}
        env["PATH"] = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        env |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        env["RAY_ADDRESS"] = f"{self.head_ip}:{self.state.gcs_port}"
        if self.token_auth:
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_path)}
        return env

    def _names(self, group: str) -> Iterator[str]:
        while True:
            yield f"{self.state.name}-{group}-{secrets.token_hex(3)[:5]}"

    def _launch(self, *, name: str, group: str, ip: str, temp: str, command: list[str], env: dict[str, str]) -> Pod:
        log = self.folder / "logs" / f"{name}.log"
        with log.open("ab") as stream:
            started = subprocess.Popen(
                [*isolation.prefix(self.state.mode, fsx=self.folder / "fsx"), *command],
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

    def start_store(self) -> None:
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
        wait(lambda: connects(ip, self.state.store_port), seconds=120, subject="redis for the gcs")

    def start_pod(self, group: PodPlan, *, ip: str | None = None, name: str | None = None) -> Pod:
        """Start a pod of a group, on the next free address if none is given."""
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
        # a script without an address writes and reads Ray's address file in here, not in the machine's /tmp/ray
        # nobody scrapes metrics here, and making them takes a tenth of a rehearsal's processor time
        env = self.client_env() | {"RAY_worker_niceness": "0", "RAY_TMPDIR": temp}
        env["RAY_enable_metrics_collection"] = "false"
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
            write_secret(path)
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

    def log(self, pod: Pod) -> str:
        """All that a pod has said."""
        return (self.folder / "logs" / f"{pod.name}.log").read_text(encoding="utf-8", errors="replace")

    def last_line(self, pod: Pod) -> str:
        """The last thing a pod has said; `unshare` itself adds a line when its child is gone."""
        return (
            [line.strip() for line in self.log(pod).splitlines() if line.strip() and not line.startswith("unshare:")]
            or ["no output"]
        )[-1]
