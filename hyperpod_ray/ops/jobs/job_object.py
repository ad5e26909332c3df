"""The RayJob of a cluster of a job's own: the RayCluster that runs, with the job's size, variables, secrets and queue.

Image, volumes, policies and identity are read from the RayCluster in the Kubernetes API, so that they are the deployed
ones. In the environment's own namespace it shares that cluster's token Secret, because a Ray user may read no other; in
a team's, the operator makes one for it.
"""

from __future__ import annotations

import copy
import json
import math
import zipfile
from collections.abc import Iterator
from io import BytesIO

from hyperpod_ray.core import job_checks, names, team_access
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.core.model import Team
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_files import mounts, team_of, uid
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.jobs.packing import pack
from hyperpod_ray.ops.reach.clients import Json
from hyperpod_ray_rules import kuberay, kueue

RETRIES = 3
"""`backoffLimit`, where the job says none."""
FAILED_CLUSTER_SECONDS = 3600
"""How long the head of a failed job stays, so that you can read its logs."""
RECORD_SECONDS = 7 * 86400
"""How long the RayJob stays after its end, for `runs list`."""
CODE = "code.zip"
CODE_PATH = "/etc/ray-job"
MOST_BYTES = 1_000_000
"""Of the ConfigMap with the code: Kubernetes takes 1 MiB."""
GATES = {**kuberay.DEFAULT_GATES, "RayCronJob": True, kuberay.EMBEDDED_STORE_GATE: True}


def namespace_of(plan: Plan, job: Job) -> str:
    """Where a job's RayJob and its cluster are."""
    return names.team_namespace(job.team) if job.team else plan.settings.ray.namespace


def ray_job(plan: Plan, live: Json, job: Job, *, name: str, code: str = "") -> Json:
    """A `ray.io/v1` RayJob that runs a job on a cluster of its own.

    Args:
        plan: The environment.
        live: Its RayCluster, from the Kubernetes API.
        job: What to run.
        name: of the RayJob.
        code: ConfigMap with the job's folders; empty where it has none.

    Raises:
        OpsError: the KubeRay operator refuses it.
    """
    spec = copy.deepcopy(live["spec"])
    head = copy.deepcopy(spec["headGroupSpec"]["template"]["spec"])
    runtime: Json = {}
    if code:
        runtime["working_dir"] = f"{CODE_PATH}/{CODE}"
    if job.packages:
        runtime["pip"] = {"packages": list(job.packages), "pip_check": False}
    rayjob: Json = {
        "entrypoint": in_ray.COMMAND,
        "backoffLimit": RETRIES if job.retries is None else job.retries,
        **({"activeDeadlineSeconds": math.ceil(3600 * job.most_hours)} if job.most_hours is not None else {}),
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": _submitter(head, code, image=job.image or ""),
        "metadata": {
            "environment": plan.name,
            **({"run": job.run_name, "run_folder": job.folder} if job.folder else {}),
        },
        "rayClusterSpec": _cluster(plan, spec, job, name=name),
    }
    if any(reference.startswith("arn:") for reference in job.references.values()):
        runtime["worker_process_setup_hook"] = in_ray.SETUP_HOOK
    if runtime:
        rayjob["runtimeEnvYAML"] = json.dumps(runtime)
    if plan.settings.ray.gcs_fault_tolerance:
        rayjob["entrypointResources"] = json.dumps({names.DRIVER_GROUP: 1})
    queue, priority = job.local_queue, job.priority_class
    if job.team and (team := team_of(plan, job.team)) is not None:
        for template in _templates(rayjob):
            _as_team(plan, template, team)
    if queue is not None:
        # as Kueue's webhook leaves it: suspended until it is admitted
        rayjob |= {"suspend": True, "shutdownAfterJobFinishes": True}
        for template in _templates(rayjob):
            _placed(plan, template, job)
    else:
        rayjob["deletionStrategy"] = {
            "deletionRules": _deletion_rules(scales=bool(spec.get("enableInTreeAutoscaling")))
        }
    labels = {names.PART_OF_LABEL: names.PROJECT}
    labels |= {names.QUEUE_LABEL: queue} if queue else {}
    labels |= {names.PRIORITY_LABEL: priority} if priority else {}
    annotations = {names.COMMAND_ANNOTATION: job.command}
    manifest = {
        "apiVersion": names.RAY_API_VERSION,
        "kind": "RayJob",
        "metadata": {
            "name": name,
            "namespace": namespace_of(plan, job),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": rayjob,
    }
    cluster = {
        "kind": "RayCluster",
        "metadata": {"name": f"{name}-00000", "labels": {"ray.io/originated-from-crd": "RayJob"}},
        "spec": rayjob["rayClusterSpec"],
    }
    refused = [*kuberay.judge(manifest, gates=GATES), *kuberay.judge(cluster, gates=GATES)]
    if refused:
        raise OpsError(
            f"the KubeRay operator refuses this job: {refused[0].message}",
            expected="a RayJob that it accepts",
            fix="change the job, or deploy the environment again",
            code=BAD_USE,
        )
    for refusal in kueue.judge(manifest):
        raise OpsError(
            f"Kueue refuses this job: {refusal}",
            expected="a RayJob that a queue takes",
            fix="change the job, or submit it without a queue",
            code=BAD_USE,
        )
    return manifest


def _templates(spec: Json) -> Iterator[Json]:
    """Pod templates of a RayJob: head, workers, submitter. Kueue counts each as a pod set."""
    cluster = spec["rayClusterSpec"]
    yield cluster["headGroupSpec"]["template"]
    yield from (group["template"] for group in cluster["workerGroupSpecs"])
    yield spec["submitterPodTemplate"]


def _as_team(plan: Plan, template: Json, team: Team) -> None:
    """The team's user and the team's folders: admission takes a pod of the team with no others.

    The image's files are readable for group 100. Its user's home is not the team's to write, and the team's user has
    no name in the image: libraries take both from the variables.
    """
    pod = template["spec"]
    number = uid(team)
    pod["securityContext"] = {
        **(pod.get("securityContext") or {}),
        "runAsUser": number,
        "runAsGroup": number,
        "supplementalGroups": [names.RAY_GID],
    }
    places = list(mounts(plan, team))
    for container in pod["containers"]:
        listed = list(container.get("volumeMounts") or [])
        if any(mount["name"] == names.CLAIM for mount in listed):
            container["volumeMounts"] = [
                *(
                    {"name": volume_mount.claim, "mountPath": volume_mount.path}
                    | ({"readOnly": True} if volume_mount.read_only else {})
                    for volume_mount in places
                ),
                *(mount for mount in listed if mount["name"] != names.CLAIM),
            ]
        user_env = {"HOME": "/tmp", "USER": team.name, "LOGNAME": team.name}  # noqa: S108 (of the pod alone)
        env = _rights(plan, team, container.get("env") or [])
        named = {variable["name"] for variable in env}
        container["env"] = [
            *({"name": key, "value": value} for key, value in user_env.items() if key not in named),
            *env,
        ]
    volumes = list(pod.get("volumes") or [])
    if any(volume["name"] == names.CLAIM for volume in volumes):
        pod["volumes"] = [
            *(
                {"name": volume_mount.claim, "persistentVolumeClaim": {"claimName": volume_mount.claim}}
                for volume_mount in places
            ),
            *(volume for volume in volumes if volume["name"] != names.CLAIM),
        ]


def _rights(plan: Plan, team: Team, env: list[Json]) -> list[Json]:
    """Variables of the standing cluster that name what it may use in AWS, as the team may."""
    base, server = team_access.tier_base(plan, team), team_access.access_of(plan, team).mlflow_arn
    kept = []
    for variable in env:
        name, value = variable["name"], str(variable.get("value") or "")
        if name == names.TIERED_S3_VARIABLE and base:
            kept.append({"name": name, "value": base})
        elif name == names.TRACKING_VARIABLE and value.startswith("arn:") and server != value:
            kept += [{"name": name, "value": server}] if server else []
        elif name == names.TRACKERS_VARIABLE and not server and _tracks_in_aws(env):
            remaining = [tracker for tracker in value.split(",") if tracker != "mlflow"]
            kept += [{"name": name, "value": ",".join(remaining)}] if remaining else []
        else:
            kept.append(variable)
    return kept


def _tracks_in_aws(env: list[Json]) -> bool:
    return any(
        variable["name"] == names.TRACKING_VARIABLE and str(variable.get("value") or "").startswith("arn:")
        for variable in env
    )


def _placed(plan: Plan, template: Json, job: Job) -> None:
    """Name the instance type, by which Kueue chooses whose quota a pod takes, and the level of the network.

    Without it Kueue takes the first type that has room, and binds a head to GPU nodes that its group never has.
    """
    selector = template["spec"].setdefault("nodeSelector", {})
    group = selector.get(names.INSTANCE_GROUP_LABEL)
    if group is not None:
        selector[names.INSTANCE_TYPE_LABEL] = plan.group(group).type
    is_worker = template["metadata"].get("labels", {}).get(names.CLIENT_LABEL) is None
    if job.topology is not None and is_worker and group != plan.settings.ray.head.instance_group:
        key = names.TOPOLOGY_REQUIRED if job.topology_required else names.TOPOLOGY_PREFERRED
        template["metadata"].setdefault("annotations", {})[key] = names.TOPOLOGY_LEVELS[job.topology]


def _cluster(plan: Plan, spec: Json, job: Job, *, name: str) -> Json:
    """`rayClusterSpec`: the live cluster's, with the job's size, variables and secrets."""
    spec.pop("upgradeStrategy", None)  # KubeRay allows a job's cluster none
    for suspendable in (spec, *spec["workerGroupSpecs"]):
        suspendable.pop("suspend", None)  # the standing cluster may be: the job's would never get pods
    if job.team:
        spec.pop("gcsFaultToleranceOptions", None)  # its store and its token are in another namespace
    elif (spec.get("authOptions") or {}).get("mode") == "token":
        spec["authOptions"] = {"mode": "token", "secretName": plan.settings.ray.cluster_name}
    pods = job_checks.pods_for(plan, job)
    scales = bool(spec.get("enableInTreeAutoscaling")) and job.local_queue is None
    if not scales:
        spec.pop("enableInTreeAutoscaling", None)
        spec.pop("autoscalerOptions", None)
    for group in spec["workerGroupSpecs"]:
        if group["groupName"] in pods:
            minimum, maximum = pods[group["groupName"]]
            group |= {"replicas": minimum if scales else maximum, "minReplicas": minimum if scales else maximum}
            group["maxReplicas"] = maximum
    _of_its_size(plan, spec["workerGroupSpecs"], job)
    if job.sizes is not None:
        spec["workerGroupSpecs"] = [group for group in spec["workerGroupSpecs"] if group["maxReplicas"]]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        template = group["template"]
        template["metadata"]["labels"][names.JOB_LABEL] = name
        _own_mates(template["spec"].get("affinity") or {}, name)
        _own_secrets(template["spec"], job)
        container = template["spec"]["containers"][0]
        container["env"] = [*(container.get("env") or []), *_variables(job)]
        container["image"] = job.image or container["image"]
    return dict(spec)


def _of_its_size(plan: Plan, groups: list[Json], job: Job) -> None:
    """Give worker pods the size that the job asks for. Pods that are a part of a node may share it."""
    if job.pod_gpus is None and job.pod_cpu is None and job.pod_memory_gib is None:
        return
    sizes = {worker.name: worker for worker in job_checks.groups_for(plan, job)}
    for group in groups:
        worker = sizes.get(group["groupName"])
        if worker is None:
            continue
        pod, whole = plan.worker_resources(worker), plan.type_spec(plan.group(worker.instance_group).type)
        spec = group["template"]["spec"]
        container = spec["containers"][0]
        amounts = {"cpu": str(pod.cpu), "memory": f"{pod.memory_gib}Gi"}
        amounts |= {pod.gpu_resource: str(pod.gpus)} if pod.gpus else {}
        amounts |= {names.EFA_RESOURCE: str(pod.efa)} if pod.efa else {}
        container["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
        if not pod.efa:
            # libfabric would look for devices that the pod does not have
            container["env"] = [
                variable for variable in container.get("env") or [] if not variable["name"].startswith("FI_")
            ]
        for volume in spec.get("volumes") or []:
            if volume["name"] == "shared-memory":
                volume["emptyDir"]["sizeLimit"] = f"{pod.shared_memory_gib}Gi"
        apart = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        shares = not pod.gpus or pod.gpus < whole.accelerators
        if shares and (required := apart.pop("requiredDuringSchedulingIgnoredDuringExecution", None)):
            apart["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": 100, "podAffinityTerm": term} for term in required
            ]


def _own_mates(affinity: Json, name: str) -> None:
    """Pods of a job keep apart from each other, not from those of the standing cluster."""
    rules = affinity.get("podAntiAffinity") or {}
    terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
    terms += [
        weighted["podAffinityTerm"] for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    ]  # fmt: skip
    for term in terms:
        labels = term["labelSelector"]["matchLabels"]
        if labels.pop(names.RAY_CLUSTER_LABEL, None) is not None:
            labels[names.JOB_LABEL] = name


def _own_secrets(pod: Json, job: Job) -> None:
    """Secrets of the standing cluster are not this job's: its own come as variables."""
    mounted = {
        volume["name"]
        for volume in pod.get("volumes") or []
        if "secret" in volume and volume["name"].startswith("secret-")
    }
    pod["volumes"] = [volume for volume in pod.get("volumes") or [] if volume["name"] not in mounted]
    container = pod["containers"][0]
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] not in mounted]


def _variables(job: Job) -> Iterator[Json]:
    """Variables of the job's processes. KubeRay hands a runtime_env to a shell; a pod's variables are plain text."""
    for key, value in sorted(job.variables.items()):
        yield {"name": key, "value": value.replace("$(", "$$(")}
    yield {"name": in_ray.COMMAND_VARIABLE, "value": job.command.replace("$(", "$$(")}
    if job.folder:
        yield {"name": in_ray.RUN_FOLDER_VARIABLE, "value": job.folder}
    elsewhere = {key: value for key, value in job.references.items() if value.startswith("arn:")}
    if elsewhere:
        yield {"name": in_ray.SECRETS_VARIABLE, "value": json.dumps(elsewhere, sort_keys=True)}
    for key, value in sorted(job.references.items()):
        if key not in elsewhere:
            secret, _, secret_key = value.partition("/")
            yield {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": secret_key}}}


def _deletion_rules(*, scales: bool) -> list[Json]:
    """A cluster goes at once with a job that succeeded; after a failure, workers first. The record goes last."""

    def after(condition: Json, *policies: tuple[str, int]) -> list[Json]:
        return [
            {"policy": policy, "condition": {**condition, "ttlSeconds": seconds}}
            for policy, seconds in (*policies, ("DeleteSelf", RECORD_SECONDS))
        ]

    succeeded, failed = {"jobStatus": "SUCCEEDED"}, {"jobDeploymentStatus": "Failed"}
    workers = () if scales else (("DeleteWorkers", 0),)
    return [
        *after(succeeded, ("DeleteCluster", 0)),
        *after(failed, *workers, ("DeleteCluster", FAILED_CLUSTER_SECONDS)),
    ]


def _submitter(head: Json, code: str, *, image: str) -> Json:
    """Pod template of the Kubernetes Job that submits to the head: where the head is, admitted by the policies."""
    like = ("securityContext", "nodeSelector")
    lost = (names.NOT_READY, names.UNREACHABLE)  # the Job starts another pod where its node is lost
    amounts = {"cpu": "500m", "memory": "1Gi"}
    container: Json = {
        "name": "ray-job-submitter",
        "image": image or head["containers"][0]["image"],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": copy.deepcopy(head["containers"][0].get("securityContext") or {}),
    }
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        **{key: copy.deepcopy(head[key]) for key in like if key in head},
        "tolerations": [
            copy.deepcopy(toleration)
            for toleration in head.get("tolerations") or []
            if toleration.get("key") not in lost
        ],
        "affinity": {"nodeAffinity": copy.deepcopy((head.get("affinity") or {}).get("nodeAffinity") or {})},
        "containers": [container],
    }
    if code:
        container["volumeMounts"] = [{"name": "code", "mountPath": CODE_PATH, "readOnly": True}]
        spec["volumes"] = [{"name": "code", "configMap": {"name": code}}]
    labels = {names.PART_OF_LABEL: names.PROJECT, names.CLIENT_LABEL: "true"}
    return {"metadata": {"labels": labels}, "spec": spec}


def code_of(file: JobFile) -> bytes:
    """The job's folders as one zip file: working folder, packages, and what this program sends beside them.

    Raises:
        OpsError: it is too large, or two of them have the same file.
    """
    job = file.job
    parts = [pack(file.local("working_dir", job.working_dir))] if job.working_dir else []
    parts += [pack(file.local("py_modules", module), inside=True) for module in job.py_modules]
    buffer = BytesIO()
    archived: set[str] = set()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for _, data in [*parts, in_ray.package()]:
            with zipfile.ZipFile(BytesIO(data)) as part:
                for info in part.infolist():
                    if info.filename in archived:
                        raise OpsError(
                            f"{info.filename}: in two of the job's folders",
                            expected="each file once: they become one folder",
                            fix="rename it, or remove one of py_modules",
                            code=BAD_USE,
                        )
                    archived.add(info.filename)
                    archive.writestr(info, part.read(info))
    data = buffer.getvalue()
    if len(data) > MOST_BYTES:
        raise OpsError(
            f"the job's folders pack to {len(data):,} bytes",
            expected=f"at most {MOST_BYTES:,}, which a ConfigMap takes",
            fix=f"put data on {names.MOUNT_PATH} and what is not needed into .gitignore, or use cluster: standing",
            code=BAD_USE,
        )
    return data
