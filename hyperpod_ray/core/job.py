"""Every field of a job file, in one place: what runs, on how much of an environment, with which data and secrets.

`hyperpod-ray submit ENV -f job.yaml` takes it; each field is also an option of `submit`. Only what one value can say
about itself is checked here; `hyperpod_ray.core.job_checks` compares the job with its environment.

The JSON Schema for editors and `docs/job-file.md` are generated from this module (`hyperpod-ray env schema`).
"""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from hyperpod_ray.core import names, shapes
from hyperpod_ray.core.model import KubernetesName, Settings, Training

STORAGE = f"{names.MOUNT_PATH}/runs"
"""Where runs are kept, unless a job says otherwise."""


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Workers = Annotated[
    str,
    BeforeValidator(_number_as_text),
    shapes.WORKERS.field(),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": shapes.WORKERS.pattern}]}
    ),
]
Place = Annotated[str, shapes.PLACE.field(max_length=1000)]


class Job(Settings):
    """One job: a command, and what it needs."""

    command: Annotated[str, Field(min_length=1, max_length=8000)]
    """Shell command, for example python train.py --steps 1000. It runs in `working_dir`."""
    name: Annotated[str, shapes.RUN_NAME.field()] | None = None
    """The run. With the same storage and name a job continues where the last one ended. The job gets it as `RUN_NAME`.
    Default: none; the command names its run itself."""
    cluster: Literal["standing", "own"] = "standing"
    """`standing`: the environment's RayCluster. `own`: a RayCluster of its own on the same nodes (a RayJob), which is
    created for the job and deleted after it."""
    workers: Workers | None = None
    """Training workers, each a process: a number, or `MIN:MAX` for a run that continues with fewer. The job gets it as
    `RUN_WORKERS`. Default: the command's own."""
    gpus_per_worker: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs of one worker (`RUN_GPUS_PER_WORKER`). Default: the command's own."""
    spares: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Workers that stand by for a lost one (`RUN_SPARES`). Default: `ray.training_spares` of the environment."""
    image: Annotated[str, shapes.IMAGE_DIGEST.field()] | None = None
    """Container image of the job's pods, for `cluster: own`, by digest, with Ray in the environment's version. Default:
    the environment's image."""
    group: KubernetesName | None = None
    """Worker group of `ray.workers` that carries the workers, for `cluster: own`. Default: the first whose pods have
    the GPUs."""
    pod_gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs of one worker pod, for `cluster: own`: a part of a node, with the same part of its processors, memory and
    EFA interfaces. Default: those of the worker group."""
    pod_cpu: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Processors of one worker pod, for `cluster: own`. Default: the part of the node that its GPUs are."""
    pod_memory_gib: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Memory of one worker pod in GiB, for `cluster: own`. Default: the part of the node that its GPUs are."""
    working_dir: str | None = None
    """Folder that is uploaded and becomes the job's current folder, relative to the job file. Files that git ignores
    are not uploaded. Default: none."""
    py_modules: list[str] = []
    """Folders of Python packages that are uploaded and can be imported, relative to the job file."""
    packages: list[Annotated[str, shapes.PACKAGE.field(max_length=200)]] = []
    """Python packages that Ray installs with pip before the job starts. A closed network reaches no package index."""
    env: dict[Annotated[str, shapes.VARIABLE.field()], str] = {}
    """Environment variables of driver and workers. Everybody who reaches the dashboard reads them: no secrets."""
    secrets: dict[Annotated[str, shapes.VARIABLE.field()], Annotated[str, shapes.SECRET_KEY.field()]] = {}
    """Environment variable to the secret that it gets: `NAME/KEY` of a Kubernetes Secret, or the ARN of a secret in AWS
    Secrets Manager. Only the reference leaves your machine; the value is read inside the pods."""
    notify: Annotated[str, shapes.SECRET_KEY.field()] | None = None
    """Reference to a secret, as in `secrets`, that holds an https address. At its end the job posts `{"text": …}`, as
    incoming webhooks of Slack, Mattermost and Google Chat take it. A job that is killed with its node posts nothing.
    Default: none."""
    storage: Place = STORAGE
    """Folder of all runs (`RUN_STORAGE`): of the shared file system, or `s3://BUCKET/PREFIX` that `ray.access.s3` lets
    pods write."""
    data: list[Place] = []
    """Folders and places in S3 that the command reads; checked before the job is submitted."""
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    """New clusters after a failure of the driver, for `cluster: own`. Default: 3. Lost workers and nodes do not count:
    training continues without a retry."""
    most_hours: Annotated[float, Field(ge=0.1, le=8760)] | None = None
    """Hours after its start at which the job is ended, for `cluster: own` (`activeDeadlineSeconds`): its cluster goes,
    whatever it does, and its checkpoints stay. Time in a queue does not count. Default: none; nothing ends it."""
    team: Annotated[str, shapes.TEAM.field()] | None = None
    """Team of the environment whose namespace, queue and quota the job uses; it then has a cluster of its own. Default:
    none."""
    queue: KubernetesName | None = None
    """LocalQueue of Kueue or HyperPod task governance, for `cluster: own`. Default: the team's, or none."""
    priority: KubernetesName | None = None
    """One of `task_governance.priority_classes`; without a team, a WorkloadPriorityClass. Default: the queue's own."""
    topology: Literal["layer-1", "layer-2", "layer-3", "ultraserver"] | None = None
    """Level of the network below which the queue places each worker group together, where it can: layer 3 is the
    closest. Default: anywhere."""
    topology_required: bool = False
    """Wait until the level has room for all of them, rather than start further apart."""
    training: Training | None = None
    """What is trained, for the estimate of time and cost. Default: the environment's section `training`."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_team(cls, data: Any) -> Any:
        """A team's job has a cluster of its own, unless it says something else."""
        if isinstance(data, dict) and data.get("team") is not None and "cluster" not in data:
            return {**data, "cluster": "own"}
        return data

    @property
    def local_queue(self) -> str | None:
        """The LocalQueue: the field, or the team's."""
        return self.queue or (names.team_queue(self.team) if self.team else None)

    @property
    def priority_class(self) -> str | None:
        """The WorkloadPriorityClass: of a team, the one that HyperPod task governance creates of the class."""
        return names.workload_priority(self.priority) if self.priority and self.team else self.priority

    @property
    def references(self) -> dict[str, str]:
        """References to secrets by the variables that get them: `secrets`, and the address of `notify`."""
        return {**self.secrets, **({names.NOTIFY_VARIABLE: self.notify} if self.notify else {})}

    @property
    def words(self) -> list[str]:
        """The command's words."""
        return words_of(self.command)

    @property
    def sizes(self) -> tuple[int, int] | None:
        """Least and most workers."""
        if self.workers is None:
            return None
        minimum, _, maximum = self.workers.partition(":")
        return int(minimum), int(maximum or minimum)

    @property
    def run_name(self) -> str:
        """The run's name: the field, or the command's `--name`; empty where neither says it."""
        return self.name or option(self.words, "--name")

    @property
    def folder(self) -> str:
        """The run's folder; empty where no name is known."""
        storage = option(self.words, "--storage") or self.storage
        return f"{storage.rstrip('/')}/{self.run_name}" if self.run_name else ""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that the fields become, on top of `env`."""
        job_variables = {
            names.RUN_NAME_VARIABLE: self.name,
            names.RUN_STORAGE_VARIABLE: self.storage if self.name else None,
            names.RUN_WORKERS_VARIABLE: self.workers,
            names.RUN_GPUS_VARIABLE: self.gpus_per_worker,
            names.RUN_SPARES_VARIABLE: self.spares,
        }
        return {**self.env, **{key: str(value) for key, value in job_variables.items() if value is not None}}


def words_of(command: str) -> list[str]:
    """Words of a shell command; one word where a shell would be needed to split it."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def option(words: list[str], name: str) -> str:
    """Value of an option in a command line: `--name x` or `--name=x`; empty where it is not there."""
    for index, word in enumerate(words):
        if word == name and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""
