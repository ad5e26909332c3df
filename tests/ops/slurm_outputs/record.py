"""Records what a real Slurm prints, into this folder: `.venv/bin/python tests/ops/slurm_outputs/record.py`.

Needs Debian's Slurm (docs/slurm.md). The machine's name, its kernel, its folder and its user are replaced; nothing
else is touched.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hyperpod_ray.ops.observe import slurm
from hyperpod_ray_sandbox.rehearsal.slurm.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.slurm.install import found

HERE = Path(__file__).parent
SLEEP = "#!/bin/sh\nenv | sort > $1/environment-$SLURM_RESTART_COUNT\nsleep 300\n"


NODE_KEYS = ("name", "address", "hostname", "state", "state_flags", "partitions", "reason")
JOB_KEYS = ("job_id", "name", "user_name", "job_state", "nodes", "node_count", "batch_host")


def facts(text: str, of: str, keys: tuple[str, ...]) -> str:
    """Some keys of Slurm's own JSON: the judge of what is read from its text."""
    return json.dumps([{key: one[key] for key in keys} for one in json.loads(text)[of]], indent=1) + "\n"


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)


LISTS = (
    "n[1-2,4]", "ip-10-0-1-23", "ip-10-0-[1-2]-[5,7-9]", "gpu[01-03,10],login1", "a[098-101]", "w[1-2]-[01-02]",
)  # fmt: skip


def hostnames(cluster: Cluster) -> dict[str, list[str]]:
    """Lists of hosts, each as Slurm expands it."""
    return {text: cluster.ask("scontrol", "show", "hostnames", text).split() for text in LISTS}


class Recorder:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.folder = cluster, cluster.layout.folder
        self.script = self.folder / "sleep.sh"
        self.script.write_text(SLEEP)

    def keep(self, name: str, text: str) -> None:
        layout = self.cluster.layout
        text = text.replace(str(layout.folder), "/run/slurm").replace(layout.user, "ubuntu")
        text = re.sub(rf"\b{re.escape(layout.host)}\b", "host", text)
        text = re.sub(r"(?<![A-Z])OS=.*", "OS=Linux 6.8.0-1031-aws #33 SMP", text)
        text = re.sub(r"UserId=\w+\(\d+\) GroupId=\w+\(\d+\)", "UserId=ubuntu(1000) GroupId=ubuntu(1000)", text)
        (HERE / name).write_text(text)

    def show(self, name: str, *what: str) -> None:
        self.keep(name, self.cluster.ask("scontrol", "show", *what))

    def snapshot(self, state: str, node: str) -> None:
        ask = self.cluster.ask
        self.keep(f"sinfo-{state}.txt", ask("sinfo"))
        self.keep(f"sinfo-N-{state}.txt", ask("sinfo", "-h", "-N", "-o", slurm.NODES))
        self.keep(f"nodes-{state}.json", facts(ask("sinfo", "--json"), "nodes", NODE_KEYS))
        self.keep(f"jobs-{state}.json", facts(ask("squeue", "--json"), "jobs", JOB_KEYS))
        self.keep(f"sinfo-R-{state}.txt", ask("sinfo", "-R"))
        self.show(f"scontrol-show-node-{state}.txt", "node", node)
        self.keep(f"squeue-{state}.txt", ask("squeue"))
        self.keep(f"squeue-o-{state}.txt", ask("squeue", "-h", "-o", slurm.JOBS))

    def update(self, node: str, *words: str) -> None:
        self.cluster.ask("scontrol", "update", f"nodename={node}", *words)

    def submit(self, *arguments: str) -> str:
        own = (f"--output={self.folder}/%j.out", *arguments, str(self.script), str(self.folder))
        return self.cluster.ask("sbatch", "--parsable", *own, cwd=self.folder).strip()

    def until_job(self, job: str, state: str) -> None:
        until(lambda: self.cluster.job(job).get("JobState") == state)

    def running(self) -> str:
        """Nothing, then one job that runs and one that waits."""
        self.snapshot("idle", "n1")
        self.show("scontrol-show-nodes-idle.txt", "nodes")
        self.keep("scontrol-ping.txt", self.cluster.ask("scontrol", "ping"))
        job = self.submit("--nodes=2", "--no-kill", "--requeue", "-J", "finetune|70b")
        self.until_job(job, "RUNNING")
        waiting = self.submit("--nodes=4", "-J", "waits")
        until(lambda: self.cluster.job(waiting).get("Reason") == "Resources")
        self.snapshot("running", "n1")
        self.show("scontrol-show-job-running.txt", "job", job)
        self.show("scontrol-show-job-pending.txt", "job", waiting)
        self.keep("hostnames.json", json.dumps(hostnames(self.cluster), indent=1) + "\n")
        self.cluster.ask("scancel", waiting)
        return job

    def lost(self, job: str) -> None:
        """A node loses its power: silent, then DOWN. The job goes on without it because of --no-kill."""
        self.cluster.kill_node("n2")
        until(lambda: "NOT_RESPONDING" in self.cluster.states()["n2"].states)
        self.snapshot("silent", "n2")
        until(lambda: "DOWN" in self.cluster.states()["n2"].states)
        self.snapshot("down", "n2")
        self.show("scontrol-show-job-node-down.txt", "job", job)

    def replaced(self) -> None:
        """The documents' commands, on the lost node and on others."""
        self.update("n2", "state=down", "reason=Action:Replace")
        self.update("n4", "state=fail", "reason=Action:Replace")
        self.update("n3", "state=fail", "reason=Action:Reboot")
        self.snapshot("action-replace", "n2")
        self.show("scontrol-show-node-fail-idle.txt", "node", "n4")
        self.show("scontrol-show-nodes-action.txt", "nodes")
        self.update("n1", "state=fail", "reason=Action:Replace")
        self.show("scontrol-show-node-fail-running.txt", "node", "n1")
        for node in ("n1", "n3", "n4"):
            self.update(node, "state=resume")
        self.update("n3", "state=drain", "reason=NVRM Xid 79: GPU has fallen off the bus")
        self.snapshot("drained", "n3")
        self.update("n3", "state=resume")

    def requeued(self, job: str) -> None:
        """The batch host is lost: requeued, and held until the first start's credentials have expired."""
        self.cluster.kill_node("n1")
        self.until_job(job, "PENDING")
        self.snapshot("requeued", "n1")
        self.show("scontrol-show-job-requeued.txt", "job", job)
        self.until_job(job, "RUNNING")
        self.show("scontrol-show-job-restarted.txt", "job", job)
        written = self.folder / "environment-1"
        until(lambda: written.exists() and "SLURM_TASK_PID" in written.read_text())
        own = [line for line in written.read_text().splitlines() if line.startswith("SLURM_")]
        self.keep("environment-restarted.txt", "\n".join(own) + "\n")
        self.cluster.ask("scancel", job)
        self.until_job(job, "CANCELLED")
        self.show("scontrol-show-job-cancelled.txt", "job", job)

    def controller_lost(self) -> None:
        self.cluster.kill_controller()
        command = [str(found("scontrol")), "ping"]
        done = subprocess.run(command, env=self.cluster.env(), capture_output=True, text=True, check=False)
        self.keep("scontrol-ping-controller-lost.txt", done.stdout + done.stderr)


def main() -> None:
    cluster = Cluster.start()
    try:
        recorder = Recorder(cluster)
        job = recorder.running()
        recorder.lost(job)
        recorder.replaced()
        recorder.requeued(job)
        recorder.controller_lost()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
