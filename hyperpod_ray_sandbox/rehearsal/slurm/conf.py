"""What a rehearsal's Slurm is made of: its folder, its ports and its `slurm.conf`. No process in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PARTITION = "dev"
TUNED, DEFAULT = "tuned", "default"
TIMERS = (TUNED, DEFAULT)


@dataclass(frozen=True, kw_only=True)
class Timers:
    """How soon Slurm acts.

    Args:
        slurmd_timeout_s: `SlurmdTimeout`: a node that is silent for so long is DOWN.
        cred_expire_s: `AuthInfo=cred_expire`: a requeued job begins this much later, plus one second.
    """

    slurmd_timeout_s: int
    cred_expire_s: int


TIMERS_OF = {
    TUNED: Timers(slurmd_timeout_s=5, cred_expire_s=5),
    # SlurmdTimeout is 300 in Slurm's own default; 10 here, so that the wait which cred_expire makes is seen alone
    DEFAULT: Timers(slurmd_timeout_s=10, cred_expire_s=120),
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where everything of one Slurm is.

    Args:
        folder: Its temporary folder. Short: a socket's path has at most 107 characters.
        host: This machine's name; slurmctld refuses to start under another.
        user: Who the daemons run as: the user of the rehearsal.
        controller_port: Of slurmctld.
        node_ports: Of each slurmd, in order; as many nodes.
        timers: How soon it acts.
        first_job: The first job's ID.
    """

    folder: Path
    host: str
    user: str
    controller_port: int
    node_ports: tuple[int, ...]
    timers: Timers = TIMERS_OF[TUNED]
    first_job: int = 1

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, from n1 on."""
        return tuple(f"n{number}" for number in range(1, len(self.node_ports) + 1))

    @property
    def conf(self) -> Path:
        """`slurm.conf`."""
        return self.folder / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Socket of the munge daemon."""
        return self.folder / "munge.socket"

    @property
    def munge_key(self) -> Path:
        """Key of the munge daemon; made for this Slurm alone."""
        return self.folder / "munge.key"

    @property
    def shared(self) -> Path:
        """What `/fsx` is on a cluster."""
        return self.folder / "fsx"

    def render(self) -> str:
        """`slurm.conf`."""
        lines = [
            "ClusterName=rehearsal",
            f"SlurmctldHost={self.host}(127.0.0.1)",
            f"SlurmctldPort={self.controller_port}",
            f"SlurmUser={self.user}",
            f"SlurmdUser={self.user}",
            "AuthType=auth/munge",
            "CredType=cred/munge",
            f"AuthInfo=socket={self.munge_socket},cred_expire={self.timers.cred_expire_s}",
            # without these two, the daemons listen on every address of the machine
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={self.folder}/slurmctld.log",
            f"SlurmdLogFile={self.folder}/slurmd-%n.log",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none",
            "JobCompType=jobcomp/none",
            "MpiDefault=none",
            "SelectType=select/linear",
            # a job takes the place of a lost node into its allocation, as auto-resume does
            "SchedulerParameters=permit_job_expansion,sched_interval=2,bf_interval=2",
            f"SlurmdTimeout={self.timers.slurmd_timeout_s}",
            "SlurmctldTimeout=30",
            "KillWait=5",
            "MinJobAge=3600",
            # a node that was only slow to answer comes back by itself; one that was marked does not
            "ReturnToService=1",
            "JobRequeue=1",
            f"FirstJobId={self.first_job}",
        ]
        for name, port in zip(self.nodes, self.node_ports, strict=True):
            lines.append(
                f"NodeName={name} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
            )
        lines.append(
            f"PartitionName={PARTITION} Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP "
            "OverSubscribe=EXCLUSIVE"
        )
        return "\n".join(lines) + "\n"
