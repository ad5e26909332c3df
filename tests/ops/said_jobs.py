"""The RayJobs that `submit` creates, property by property: `jobs.txt`, for a person to read. `make records` writes it.

The plain job of an environment stands with what differs from its RayCluster, of which it is made; each other job with
what differs from the plain one.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
from pathlib import Path
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.job import Job
from hyperpod_ray.ops.jobs import job_object
from tests.k8s.conftest import BINDINGS
from tests.support import records
from tests.support.recorded import EXAMPLES, STRANGERS

Json = dict[str, Any]
FILE = Path(__file__).with_name("jobs.txt")
FOLDERS = {"teams": EXAMPLES, "behind-a-proxy": STRANGERS}
IMAGE = "registry.example.com/own@sha256:" + "1" * 64
SECRETS = {
    "HUB": "hub/token",
    "KEY": "arn:aws:secretsmanager:us-west-2:111122223333:secret:x-AbCdEf",
}
PLAIN = "plain"
TITLE = "The RayJobs that `submit` creates: what differs from the RayCluster that runs, and from the plain job."
JOBS: dict[str, dict[str, Json]] = {
    "teams": {
        PLAIN: {},
        "named": {"name": "first", "command": "python main.py --lr $(LR)", "env": {"LR": "1", "B": "$(A)"}},
        "with code": {"code": "x-code"},
        "with packages": {"packages": ["numpy==2.1.0"], "code": "x-code"},
        "with secrets": {"secrets": SECRETS, "notify": "hooks/address"},
        "with its own image": {"image": IMAGE},
        "with workers": {"workers": "2", "gpus_per_worker": 1, "spares": 1},
        "from one to three workers": {"workers": "1:3"},
        "with an end": {"retries": 0, "most_hours": 1.0001},
        "in a queue": {"queue": "research", "priority": "high", "workers": "2"},
        "near each other": {"queue": "research", "topology": "layer-2", "workers": "2"},
        "near each other at any price": {"queue": "research", "topology": "layer-1", "topology_required": True},
        "of a team": {"team": "vision", "workers": "2"},
        "of another team, before others": {"team": "speech", "workers": "2", "priority": "deadline"},
        "of small pods": {"workers": "2", "pod_gpus": 0, "pod_cpu": 2, "pod_memory_gib": 8},
        "of a cluster that grows": {
            "workers": "1:3",
            "live": {"enableInTreeAutoscaling": True, "autoscalerOptions": {}},
        },
        "of a team, of a cluster that grows": {
            "workers": "1:3",
            "team": "vision",
            "live": {"enableInTreeAutoscaling": True, "autoscalerOptions": {}},
        },
        "of a cluster that is suspended": {"live": {"suspend": True, "upgradeStrategy": {"type": "Recreate"}}},
    },
    "behind-a-proxy": {
        PLAIN: {},
        "with workers": {"workers": "2:3"},
        "with half a node": {"workers": "2", "pod_gpus": 2, "group": "gpu"},
        "with one GPU and room": {"workers": "2", "pod_gpus": 1, "pod_cpu": 4, "pod_memory_gib": 30, "group": "more"},
        "of a team": {"team": "design", "workers": "2"},
        "of a team without a right": {"team": "docking", "workers": "1", "secrets": {"HUB": "hub/token"}},
        "with the tracker of the platform": {"variables": {"MLFLOW_TRACKING_URI": "arn:aws:sagemaker:x"}},
        "of a team, with the tracker of the platform": {
            "team": "docking",
            "variables": {"MLFLOW_TRACKING_URI": "arn:aws:sagemaker:x", "RESILIENCE_TRACKING": "wandb,mlflow"},
        },
        "of a team, with a tracker alone": {
            "team": "docking",
            "variables": {"MLFLOW_TRACKING_URI": "arn:aws:sagemaker:x", "RESILIENCE_TRACKING": "mlflow"},
        },
        "of a team, with a tracker elsewhere": {
            "team": "docking",
            "variables": {"MLFLOW_TRACKING_URI": "https://mlflow.example.com", "RESILIENCE_TRACKING": "mlflow"},
        },
    },
}
"""By environment: the job's fields, what its RayCluster has otherwise (`live`), and variables of its pods."""


@functools.cache
def plan(name: str) -> Plan:
    """An environment."""
    return load(name, folder=FOLDERS[name]).plan


@functools.cache
def _live(name: str) -> Json:
    """Its RayCluster."""
    objects = [each for manifest in k8s.ray_manifests(plan(name), BINDINGS) for each in manifest.objects]
    (cluster,) = [each for each in objects if each["kind"] == "RayCluster"]
    return cluster


def manifest(environment: str, name: str) -> Json:
    """A job of `JOBS` as it is created."""
    fields = copy.deepcopy(JOBS[environment][name])
    live, code = copy.deepcopy(_live(environment)), fields.pop("code", "")
    live["spec"] |= fields.pop("live", {})
    variables = [{"name": key, "value": value} for key, value in fields.pop("variables", {}).items()]
    for group in (live["spec"]["headGroupSpec"], *live["spec"]["workerGroupSpecs"]):
        container = group["template"]["spec"]["containers"][0]
        container["env"] = [*(each for each in container["env"] if each["name"] not in variables), *variables]
    job = Job(**{"command": "python main.py", "cluster": "own", **fields})
    return job_object.ray_job(plan(environment), live, job, name="x", code=code)


SHORT = (
    (re.compile(r"^spec\.rayClusterSpec\.headGroupSpec\."), "head."),
    (re.compile(r"^spec\.rayClusterSpec\.workerGroupSpecs\[(.+?)\]\."), r"\1."),
    (re.compile(r"^spec\.submitterPodTemplate\."), "submitter.template."),
    (re.compile(r"\.template\.spec\.containers\[[\w-]+\](?=\.)"), ""),
    (re.compile(r"\.template\.spec\."), ".pod."),
)
"""Words for where a property of a pod is."""


def _properties(objects: Json) -> dict[str, str]:
    ((_, properties),) = records.of_objects({"job": [objects]}).items()
    return properties


def _differing(properties: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    """What one has and the other has not; a name is in the path of what it names already."""
    own = {path: text for path, text in properties.items() if base.get(path) != text}
    gone = dict.fromkeys(base.keys() - properties.keys(), "nothing")
    return {_shortly(path): text for path, text in (own | gone).items() if not path.endswith("].name")}


def _shortly(path: str) -> str:
    for pattern, word in SHORT:
        path = pattern.sub(word, path)
    return path


def today() -> records.Record:
    """Of the plain jobs what differs from the RayCluster that runs, and of the others what differs from those."""
    record: records.Record = {}
    for environment, jobs in JOBS.items():
        live = _properties(_live(environment))
        base = {f"spec.rayClusterSpec.{path.removeprefix('spec.')}": text for path, text in live.items()
                if path.startswith("spec.")}  # fmt: skip
        plain = _properties(manifest(environment, PLAIN))
        record[f"{environment}: {PLAIN}"] = _differing(plain, base)
        for name in jobs.keys() - {PLAIN}:
            record[f"{environment}: {name}"] = _differing(_properties(manifest(environment, name)), plain)
    return record


def write() -> int:
    """Write the file."""
    text = records.written(today(), title=TITLE)
    FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(text.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
