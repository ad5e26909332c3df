"""The shared file system as Kubernetes sees it: class or volume, claim, and the Job that hands folders to uid 1000."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s

from hyperpod_ray.core import names
from hyperpod_ray.core.model import DynamicStorage, Team
from hyperpod_ray.core.names import (
    CLAIM,
    CSI_DRIVER,
    ENVIRONMENT_TAG,
    MOUNT_PATH,
    RAY_GID,
    RAY_UID,
    STORAGE_NAMESPACE,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import owner_volume, storage_class, volume
from hyperpod_ray.core.team_files import SHARED_FOLDER, TEAMS_FOLDER, Mount, mounts, uid
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.pods import group_tolerations, node_affinity, node_selector, resources

SMALLEST_GIB = 1200
"""Smallest FSx for Lustre file system."""
FOLDERS = ("runs", "data", "code", ".system/redis")
"""Folders created on the file system and handed to uid 1000; the file system's root stays root's."""


def cluster_storage(plan: Plan, bindings: Bindings) -> Manifest:
    """The cluster-wide half: a StorageClass (mode dynamic) or PersistentVolumes (static, existing).

    A PersistentVolume binds one claim, so that the volume-owner Job has one of its own with the same file system.

    Parameters of the FSx CSI driver are all strings; a key it does not know it ignores silently.
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes
    """
    storage = plan.settings.storage

    def define(chart: cdk8s.Chart) -> None:
        if isinstance(storage, DynamicStorage):
            _storage_class(chart, plan, bindings, storage=storage)
        else:
            _persistent_volumes(chart, plan, bindings)

    return build("StorageClass" if isinstance(storage, DynamicStorage) else "PersistentVolume", define)


def _storage_class(chart: cdk8s.Chart, plan: Plan, bindings: Bindings, *, storage: DynamicStorage) -> None:
    parameters = {
        "subnetId": bindings.node_subnet_id,
        "securityGroupIds": bindings.file_system_security_group_id,
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "perUnitStorageThroughput": str(storage.throughput_mbs_per_tib),
        "dataCompressionType": storage.compression,
        "fileSystemTypeVersion": storage.lustre_version,
        "automaticBackupRetentionDays": str(storage.backup_retention_days),
        "extraTags": ",".join(
            f"{key}={value}" for key, value in {ENVIRONMENT_TAG: plan.name, **plan.settings.tags}.items()
        ),
    }
    if storage.backup_retention_days:
        parameters["copyTagsToBackups"] = "true"  # means nothing without backups
    k8s.KubeStorageClass(
        chart,
        "StorageClass",
        metadata=k8s.ObjectMeta(name=storage_class(plan), labels=PART_OF),
        provisioner=CSI_DRIVER,
        parameters=parameters,
        mount_options=["flock"],
        reclaim_policy="Delete" if storage.on_destroy == "delete" else "Retain",
        # the driver grows the file system with the claim (ControllerExpandVolume); shrinking is impossible
        allow_volume_expansion=True,
        # the subnet is fixed, so waiting for a consumer's zone would buy nothing but ten minutes
        volume_binding_mode="Immediate",
    )


def _persistent_volumes(chart: cdk8s.Chart, plan: Plan, bindings: Bindings) -> None:
    _persistent_volume(chart, plan, bindings, name=volume(plan), namespace=plan.settings.ray.namespace)
    _persistent_volume(chart, plan, bindings, name=owner_volume(plan), namespace=STORAGE_NAMESPACE)


def _persistent_volume(
    chart: cdk8s.Chart, plan: Plan, bindings: Bindings, *, name: str, namespace: str, mount: Mount | None = None
) -> None:
    """A volume of the whole file system, or of the folder that `mount` names: Lustre mounts a folder like a root.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-from-fileset.html
    """
    claim_name, folder = (mount.claim, f"/{mount.folder}") if mount else (CLAIM, "")
    k8s.KubePersistentVolume(
        chart,
        f"PersistentVolume-{name}",
        metadata=k8s.ObjectMeta(name=name, labels=PART_OF),
        spec=k8s.PersistentVolumeSpec(
            capacity={"storage": _capacity(plan, is_new=False)},
            access_modes=["ReadWriteMany"],
            mount_options=["flock", *(["ro"] if mount and mount.read_only else [])],
            # the stack owns the file system; deleting the claim must not touch the data
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            claim_ref=k8s.ObjectReference(
                api_version="v1", kind="PersistentVolumeClaim", namespace=namespace, name=claim_name
            ),
            csi=k8s.CsiPersistentVolumeSource(
                driver=CSI_DRIVER,
                # volumes of one pod differ in their handles; the driver asks FSx by it for volumes that it created
                volume_handle=f"{bindings.file_system_id}{folder}",
                volume_attributes={
                    "dnsname": bindings.file_system_dns_name,
                    "mountname": f"{bindings.file_system_mount_name}{folder}",
                },
            ),
        ),
    )


def claim(plan: Plan) -> Manifest:
    """The PersistentVolumeClaim that head and workers mount at /fsx.

    Mode dynamic: makes a file system of `capacity_gib` (about ten minutes). Static and existing: bound to the one
    PersistentVolume and to nothing else; the volume-owner Job's namespace has one more.
    """

    def define(chart: cdk8s.Chart) -> None:
        dynamic = isinstance(plan.settings.storage, DynamicStorage)
        _claim(chart, plan, namespace=plan.settings.ray.namespace, bound=None if dynamic else volume(plan))
        if not dynamic:
            _claim(chart, plan, namespace=STORAGE_NAMESPACE, bound=owner_volume(plan))

    return build("PersistentVolumeClaim", define)


def owner_storage(plan: Plan, bindings: Bindings) -> Manifest:
    """Volume and claim of the volume-owner Job, of the file system that Ray's claim created (mode dynamic)."""

    def define(chart: cdk8s.Chart) -> None:
        _persistent_volume(chart, plan, bindings, name=owner_volume(plan), namespace=STORAGE_NAMESPACE)
        _claim(chart, plan, namespace=STORAGE_NAMESPACE, bound=owner_volume(plan))

    return build("OwnerStorage", define)


def _claim(chart: cdk8s.Chart, plan: Plan, *, namespace: str, bound: str | None, name: str = CLAIM) -> None:
    """A claim of the volume `bound`, or of a new one of the StorageClass."""
    k8s.KubePersistentVolumeClaim(
        chart,
        f"Claim-{namespace}" if name == CLAIM else f"Claim-{namespace}-{name}",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=PART_OF),
        spec=k8s.PersistentVolumeClaimSpec(
            access_modes=["ReadWriteMany"],
            storage_class_name=storage_class(plan) if bound is None else "",
            volume_name=bound,
            resources=k8s.ResourceRequirements(requests={"storage": _capacity(plan, is_new=bound is None)}),
        ),
    )


def _capacity(plan: Plan, *, is_new: bool) -> k8s.Quantity:
    """What the driver makes, and grows, for a new volume; otherwise a constant, the smallest file system there is.

    A volume without a class cannot be resized in Kubernetes, and nothing there reads the figure: a file system that the
    stack grows would fail at the claim. Of one without a size (Intelligent-Tiering) no figure would be true.
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/intelligent_tiering
    """
    storage = plan.settings.storage
    gib = storage.capacity_gib if is_new and isinstance(storage, DynamicStorage) else SMALLEST_GIB
    return k8s.Quantity.from_string(f"{gib}Gi")


def team_volumes(chart: cdk8s.Chart, plan: Plan, bindings: Bindings, team: Team) -> None:
    """Volumes and claims of what a team has of the file system, in its namespace."""
    namespace = names.team_namespace(team.name)
    for mount in mounts(plan, team):
        name = names.team_volume(plan.settings.hyperpod.cluster_name, namespace, mount.claim)
        _persistent_volume(chart, plan, bindings, name=name, namespace=namespace, mount=mount)
        _claim(chart, plan, namespace=namespace, bound=name, name=mount.claim)


def _exported(plan: Plan) -> list[str]:
    """Folders linked to S3 that Ray's pods may write to; FSx makes a linked folder as root's."""
    return [link.path.strip("/") for link in plan.data_repositories if link.auto_export and link.path != "/"]


OWNER_SCRIPT = 'for folder in "$@"; do install -d -o {uid} -g {gid} -m 0775 "{mount}/$folder"; done'
TEAMS_SCRIPT = """
cd "$1"; shift
while [ "$1" != -- ]; do install -d -o {uid} -g {gid} -m 0755 "$1"; shift; done; shift
install -d -o 0 -g 0 -m 0755 {teams}
install -d -o 0 -g 0 -m 1777 {shared}
fail() {{ echo "error: $*" >&2; exit 1; }}
while [ "$#" -gt 0 ]; do
  own={teams}/$1 uid=$2; shift 2
  [ ! -L "$own" ] || fail "$own is a link. Expected a folder"
  [ -d "$own" ] || mkdir -m 0700 "$own"
  owner=$(stat -c %u "$own")
  if [ "$owner" = 0 ]; then
    # nobody but root gets in until it is handed over
    chown 0:0 "$own"; chmod 0700 "$own"
  elif [ "$owner" != "$uid" ]; then
    fail "$own belongs to user $owner. Expected $uid. Fix: uid: $owner for this team, or another name"
  fi
  while [ "$1" != -- ]; do
    from=$1; shift
    [ -e "$from" ] || [ -L "$from" ] || continue
    [ "$owner" = 0 ] || fail "$from was not moved: $own is the team's already. Fix: remove it from moves"
    [ ! -e "$own/$from" ] || fail "$from was not moved: $own/$from is there"
    mkdir -p "$(dirname "$own/$from")"
    mv -n -T "$from" "$own/$from"
    echo "moved $from to $own/$from"
  done; shift
  places=$1; shift
  if [ "$owner" = 0 ]; then
    for place in $places; do mkdir -p "$own/$place"; done
    chown -R -h -P "$uid:$uid" "$own"
    chmod 0700 "$own"
  fi
done
""".strip()
"""The same with teams. Arguments: the mount, folders for uid 1000, `--`, and for each team its name, its user, what
moves to it, `--`, and where other folders are mounted in its own.

Teams' pods are in the image's group too, which must not write to the environment's folders: hence mode 0755. A team
writes in its folder and root does not: what it may have put there, links above all, leads nowhere.
"""


def _of_teams(plan: Plan) -> Iterator[str]:
    for team in plan.settings.teams:
        yield from (team.name, str(uid(team)), *team.moves, "--")
        yield " ".join(mount.folder for mount in mounts(plan, team) if mount.path != MOUNT_PATH)


def _owner_pod(plan: Plan, container: dict[str, Any]) -> dict[str, Any]:
    group = plan.settings.ray.head.instance_group
    return {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": node_selector(group),
        "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
        "tolerations": group_tolerations(plan, group),
        "containers": [container],
        "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
    }


def volume_owner(plan: Plan, bindings: Bindings) -> Manifest:
    """The Job that makes `FOLDERS` and the folders exported to S3, and gives them to uid 1000, group 100.

    Each team gets a folder of its own (mode 0700), with what moves to it. It is handed over once and never touched
    again. All teams share one (mode 1777: nobody removes another's file).

    A Lustre volume's root stays root's (the driver's fsGroupPolicy ignores ReadWriteMany), and Ray does not run as
    root. The Job runs as root with CHOWN, FOWNER and DAC_OVERRIDE only, touches the named folders and not what is in
    them, and may run any number of times. A Job's template is immutable, so its name ends in a hash of its content:
    when that changes, a new Job runs and the old one is pruned. CDK tokens (whose numbers differ between synths) are
    not part of the hash; `Bindings.image_content` stands for the image.
    """
    folders = [*FOLDERS, *_exported(plan)]
    if plan.settings.teams:
        script = TEAMS_SCRIPT.format(uid=RAY_UID, gid=RAY_GID, teams=TEAMS_FOLDER, shared=SHARED_FOLDER)
        arguments = [MOUNT_PATH, *folders, "--", *_of_teams(plan)]
    else:
        script, arguments = OWNER_SCRIPT.format(uid=RAY_UID, gid=RAY_GID, mount=MOUNT_PATH), folders
    container = {
        "name": "owner",
        "image": bindings.image_uri,
        "command": ["/bin/sh", "-euc", script, "owner"],
        "args": arguments,
        "resources": resources(cpu="100m", memory="128Mi"),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        },
        "volumeMounts": [{"name": CLAIM, "mountPath": MOUNT_PATH}],
    }
    pod = _owner_pod(plan, container)
    spec = {"backoffLimit": 20, "template": {"metadata": {"labels": {**PART_OF, "app": "volume-owner"}}, "spec": pod}}
    built = plan.image_repository
    identity = plan.existing_image or [plan.settings.account, plan.settings.region, built, bindings.image_content]
    hashed = _digest([{**spec, "template": {"pod": {**pod, "containers": [{**container, "image": identity}]}}}])

    def define(chart: cdk8s.Chart) -> None:
        job = cdk8s.ApiObject(
            chart,
            "VolumeOwner",
            api_version="batch/v1",
            kind="Job",
            metadata=cdk8s.ApiObjectMetadata(
                name=f"volume-owner-{hashed}", namespace=STORAGE_NAMESPACE, labels=PART_OF
            ),
        )
        job.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))

    return build("VolumeOwner", define)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
