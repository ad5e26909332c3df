"""Rules for a RayCluster, and for the `rayClusterSpec` of a RayJob."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray_rules.kuberay import syntax
from hyperpod_ray_rules.kuberay.table import (
    EMBEDDED_STORE_GATE,
    Json,
    Subject,
    containers,
    restart_policy,
    rule,
    token,
)

FT_ANNOTATION = "ray.io/ft-enabled"
STORAGE_ANNOTATION = "ray.io/external-storage-namespace"
AUTOSCALER_V2 = "RAY_enable_autoscaler_v2"
ORIGIN_LABEL = "ray.io/originated-from-crd"
EMBEDDED_VOLUME, EMBEDDED_PATH = "gcs-storage", "/data/gcs"
"""Where the operator mounts the embedded store of the GCS."""
TOKEN_SINCE, KUBERNETES_TOKEN_SINCE, PRIORITY_SINCE = (2, 52, 0), (2, 55, 0), (2, 56, 0)
"""Ray versions from which the operator accepts token authentication, Kubernetes tokens and group priorities."""


@rule("RayCluster", "metadata")
def cluster_name(subject: Subject) -> Iterator[str]:
    """Names of pods and services derive from the cluster's name."""
    name = str(subject.metadata.get("name", ""))
    if len(name) > syntax.MAXIMUM_CLUSTER_NAME:
        yield f"RayCluster name should be no more than {syntax.MAXIMUM_CLUSTER_NAME} characters"
    elif problems := syntax.dns1035(name):
        yield f"RayCluster name should be a valid DNS1035 label: [{' '.join(problems)}]"


@rule("RayCluster", "spec")
def head_has_a_container(subject: Subject) -> Iterator[str]:
    """The first container of a template is Ray's."""
    if not containers(subject.head):
        yield "headGroupSpec should have at least one container"


@rule("RayCluster", "spec")
def head_resources_once(subject: Subject) -> Iterator[str]:
    """Ray's resources come from `rayStartParams` or from `resources`, not from both."""
    yield from _resources("Head", subject.head)


@rule("RayCluster", "spec")
def head_labels(subject: Subject) -> Iterator[str]:
    """Ray's labels stand in `labels` and have Kubernetes syntax."""
    yield from _labels("Head", subject.head)


@rule("RayCluster", "group")
def group_has_a_container(subject: Subject) -> Iterator[str]:
    """The first container of a template is Ray's."""
    if not containers(subject.group):
        yield "workerGroupSpec should have at least one container"


@rule("RayCluster", "group")
def group_replicas(subject: Subject) -> Iterator[str]:
    """Bounds are set (without autoscaling), not negative, and in order."""
    name, low, high = _name(subject), subject.group.get("minReplicas"), subject.group.get("maxReplicas")
    if not subject.autoscaling and (low is None or high is None):
        yield f"worker group {name} must set both minReplicas and maxReplicas when autoscaling is disabled"
    if low is not None and low < 0:
        yield f"worker group {name} has negative minReplicas {low}"
    if high is not None and high < 0:
        yield f"worker group {name} has negative maxReplicas {high}"
    if low is not None and high is not None and low > high:
        yield f"worker group {name} has minReplicas {low} greater than maxReplicas {high}"


@rule("RayCluster", "group")
def group_resources_once(subject: Subject) -> Iterator[str]:
    """As for the head."""
    yield from _resources(_name(subject), subject.group)


@rule("RayCluster", "group")
def group_labels(subject: Subject) -> Iterator[str]:
    """As for the head."""
    yield from _labels(_name(subject), subject.group)


@rule("RayCluster", "group")
def group_idle_timeout(subject: Subject) -> Iterator[str]:
    """A group's own idle timeout exists in autoscaler v2 only."""
    seconds = subject.group.get("idleTimeoutSeconds")
    if seconds is None:
        return
    if seconds < 0:
        yield f"worker group {_name(subject)}: idleTimeoutSeconds must be non-negative, got {seconds}"
    elif not _autoscaler_v2(subject):
        yield (
            f"worker group {_name(subject)}: idleTimeoutSeconds is set, but autoscaler v2 is not enabled. Please set "
            f".spec.autoscalerOptions.version to 'v2' (or set {AUTOSCALER_V2} environment variable to 'true' in the "
            "head pod if using KubeRay < 1.4.0)"
        )


@rule("RayCluster", "group")
def group_priority(subject: Subject) -> Iterator[str]:
    """A group's priority needs Ray 2.56 and autoscaler v2."""
    priority, name = subject.group.get("priority"), _name(subject)
    if not priority:
        return
    text = str(subject.spec.get("rayVersion") or "")
    version = syntax.version(text)
    if not text:
        yield (
            f"worker group {name}: priority is set, but RayVersion was not specified. Ray version 2.56.0 or later is "
            "required"
        )
    elif version is None:
        yield f"worker group {name}: priority is set, but RayVersion format is invalid: {text}, {_unparsed(text)}"
    elif version < PRIORITY_SINCE:
        yield f"worker group {name}: priority is set, but minimum Ray version is 2.56.0, got {text}"
    elif not _autoscaler_v2(subject):
        yield (
            f"worker group {name}: priority is set to {priority}, but autoscaler v2 is not enabled. Priority is only "
            "supported with autoscaler v2 enabled"
        )


@rule("RayCluster", "spec")
def fault_tolerance_once(subject: Subject) -> Iterator[str]:
    """GCS fault tolerance is configured by options or by the older annotation."""
    if subject.annotations.get(FT_ANNOTATION) and "gcsFaultToleranceOptions" in subject.spec:
        yield (
            f"{FT_ANNOTATION} annotation and GcsFaultToleranceOptions are both set. Please use only "
            "GcsFaultToleranceOptions to configure GCS fault tolerance"
        )


@rule("RayCluster", "spec")
def redis_address_by_options(subject: Subject) -> Iterator[str]:
    """An address in the head's environment would switch fault tolerance on behind the operator's back."""
    enabled = (
        "gcsFaultToleranceOptions" in subject.spec or str(subject.annotations.get(FT_ANNOTATION, "")).lower() == "true"
    )
    if not enabled and subject.head_env("RAY_REDIS_ADDRESS"):
        yield (
            "RAY_REDIS_ADDRESS is set which implicitly enables GCS fault tolerance, but GcsFaultToleranceOptions is "
            "not set. Please set GcsFaultToleranceOptions to enable GCS fault tolerance"
        )


@rule("RayCluster", "spec")
def redis_settings_by_options(subject: Subject) -> Iterator[str]:
    """With options, nothing of Redis stands in start parameters, environment or annotations."""
    if "gcsFaultToleranceOptions" not in subject.spec:
        return
    use = "when GcsFaultToleranceOptions is enabled - use GcsFaultToleranceOptions"
    if (subject.head.get("rayStartParams") or {}).get("redis-password"):
        yield f"cannot set `redis-password` in rayStartParams {use}.RedisPassword instead"
    if subject.head_env("REDIS_PASSWORD"):
        yield f"cannot set `REDIS_PASSWORD` env var in head Pod {use}.RedisPassword instead"
    if subject.head_env("RAY_REDIS_ADDRESS"):
        yield f"cannot set `RAY_REDIS_ADDRESS` env var in head Pod {use}.RedisAddress instead"
    if subject.annotations.get(STORAGE_ANNOTATION):
        yield f"cannot set `{STORAGE_ANNOTATION}` annotation {use}.ExternalStorageNamespace instead"


@rule("RayCluster", "spec")
def fault_tolerance_backend(subject: Subject) -> Iterator[str]:
    """Redis takes no volume, and the embedded store is behind a feature gate and takes nothing of Redis."""
    options: Json | None = subject.spec.get("gcsFaultToleranceOptions")
    if options is None:
        return
    storage: Json | None = options.get("storage")
    if (options.get("backend") or "redis") != "rocksdb":
        if storage is not None:
            yield (
                "cannot set GcsFaultToleranceOptions.Storage when backend is 'redis' - it only applies to the "
                "'rocksdb' backend"
            )
        return
    if not subject.gates.get(EMBEDDED_STORE_GATE):
        yield (
            "the embedded RocksDB GCS fault tolerance backend (GcsFaultToleranceOptions.Backend: 'rocksdb') requires "
            "the GCSFaultToleranceEmbeddedStorage feature gate to be enabled"
        )
    for key in ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace"):
        if options.get(key):
            yield f"cannot set GcsFaultToleranceOptions.{key[0].upper()}{key[1:]} when backend is 'rocksdb'"
    if (storage or {}).get("claimName") and {"size", "storageClassName", "accessModes"} & set(storage or {}):
        yield (
            "GcsFaultToleranceOptions.Storage.ClaimName is mutually exclusive with size, storageClassName, and "
            "accessModes"
        )
    if subject.head_env("RAY_gcs_storage") or subject.head_env("RAY_gcs_storage_path"):
        yield (
            "cannot set `RAY_gcs_storage` or `RAY_gcs_storage_path` env var in head Pod when the embedded GCS FT "
            "backend is used - these are managed by KubeRay"
        )
    suffix = "when the embedded GCS FT backend is used - it is managed by KubeRay"
    spec = (subject.head.get("template") or {}).get("spec") or {}
    for mount in (containers(subject.head) or [{}])[0].get("volumeMounts") or []:
        if mount.get("name") == EMBEDDED_VOLUME or mount.get("mountPath") == EMBEDDED_PATH:
            yield (
                f'cannot set a volume mount named "{EMBEDDED_VOLUME}" or mounted at {EMBEDDED_PATH} in the head '
                f"container {suffix}"
            )
    for volume in spec.get("volumes") or []:
        if volume.get("name") == EMBEDDED_VOLUME:
            yield f'cannot set a volume named "{EMBEDDED_VOLUME}" in the head Pod {suffix}'


@rule("RayCluster", "spec")
def redis_username_by_options(subject: Subject) -> Iterator[str]:
    """A user name stands in the options only, with fault tolerance or without."""
    if (subject.head.get("rayStartParams") or {}).get("redis-username") or subject.head_env("REDIS_USERNAME"):
        yield (
            "cannot set redis username in rayStartParams or environment variables - use "
            "GcsFaultToleranceOptions.RedisUsername instead"
        )


@rule("RayCluster", "spec")
def suspended_groups(subject: Subject) -> Iterator[str]:
    """A suspended worker group needs a feature gate and no autoscaler."""
    for group in subject.groups:
        if not group.get("suspend"):
            continue
        if not subject.gates.get("RayJobDeletionPolicy"):
            yield (
                f"worker group {group.get('groupName')} can be suspended only when the RayJobDeletionPolicy feature "
                "gate is enabled"
            )
        elif subject.autoscaling:
            yield f"worker group {group.get('groupName')} cannot be suspended with Autoscaler enabled"


@rule("RayCluster", "spec")
def autoscaler_variable(subject: Subject) -> Iterator[str]:
    """The head's variable for autoscaler v2 stands neither without an autoscaler nor beside its version."""
    variable = subject.head_env(AUTOSCALER_V2)
    if variable is None:
        return
    value = variable.get("value", "")
    if not subject.autoscaling and value in {"1", "true"}:
        yield (
            f"environment variable {AUTOSCALER_V2} cannot be set to '{value}' when enableInTreeAutoscaling is false. "
            "Please set enableInTreeAutoscaling: true to use autoscaler v2"
        )
    if subject.autoscaling and subject.autoscaler.get("version") is not None:
        yield (
            f"both .spec.autoscalerOptions.version and head Pod env var {AUTOSCALER_V2} are set, please only use the "
            "former"
        )


@rule("RayCluster", "spec")
def autoscaler_restart_policy(subject: Subject) -> Iterator[str]:
    """Autoscaler v2 replaces pods itself, so that no kubelet restarts them."""
    if not subject.autoscaling or subject.autoscaler.get("version") != "v2":
        return
    if restart_policy(subject.head) not in {"", "Never"}:
        yield "restartPolicy for head Pod should be Never or unset when using autoscaler V2"
    for group in subject.groups:
        if restart_policy(group) not in {"", "Never"}:
            yield (
                f"restartPolicy for worker group {group.get('groupName')} should be Never or unset when using "
                "autoscaler V2"
            )


@rule("RayCluster", "spec")
def autoscaler_options(subject: Subject) -> Iterator[str]:
    """The idle timeout is not negative, and the generated start command is the operator's own."""
    seconds = subject.autoscaler.get("idleTimeoutSeconds")
    if seconds is not None and seconds < 0:
        yield f"autoscalerOptions.idleTimeoutSeconds must be non-negative, got {seconds}"
    if any(variable["name"] == "KUBERAY_GEN_AUTOSCALER_START_CMD" for variable in subject.autoscaler.get("env") or []):
        yield (
            "autoscalerOptions.env must not contain KUBERAY_GEN_AUTOSCALER_START_CMD: it is managed by KubeRay and "
            "injected automatically into the autoscaler container"
        )


@rule("RayCluster", "spec")
def gated_options(subject: Subject) -> Iterator[str]:
    """History server, network policy and TLS of the operator are behind feature gates that are off by default."""
    for key, gate, message in (
        ("historyServerOptions", "RayClusterHistoryServer", "RayClusterHistoryServer feature gate is not enabled"),
        (
            "networkPolicy",
            "RayClusterNetworkPolicy",
            "spec.networkPolicy requires the RayClusterNetworkPolicy feature gate to be enabled",
        ),
        ("tlsOptions", "RayClusterMTLS", "spec.tlsOptions requires the RayClusterMTLS feature gate to be enabled"),
    ):
        if key in subject.spec and not subject.gates.get(gate):
            yield message


@rule("RayCluster", "spec")
def authentication(subject: Subject) -> Iterator[str]:
    """Token authentication needs a Ray version that has it."""
    options: Json = subject.spec.get("authOptions") or {}
    text = str(subject.spec.get("rayVersion") or "")
    if options.get("mode") != "token":
        if token(subject.spec):
            yield "authOptions.enableK8sTokenAuth is enabled but authOptions.mode not set to 'token'"
        return
    version = syntax.version(text)
    if not text:
        yield ("authOptions.mode is 'token' but RayVersion was not specified. Ray version 2.52.0 or later is required")
    elif version is None:
        yield f"authOptions.mode is 'token' but RayVersion format is invalid: {text}, {_unparsed(text)}"
    elif version < TOKEN_SINCE:
        yield f"authOptions.mode is 'token' but minimum Ray version is 2.52.0, got {text}"
    elif token(subject.spec) and version < KUBERNETES_TOKEN_SINCE:
        yield f"authOptions.enableK8sTokenAuth is enabled but minimum Ray version is 2.55.0, got {text}"
    elif token(subject.spec) and options.get("secretName"):
        yield "authOptions.enableK8sTokenAuth is enabled and authOptions.secretName is also set"


@rule("RayCluster", "upgrade")
def upgrade_strategy(subject: Subject) -> Iterator[str]:
    """Only a RayCluster that nothing else created has an upgrade strategy."""
    chosen = (subject.spec.get("upgradeStrategy") or {}).get("type")
    if chosen is None:
        return
    if chosen not in {"Recreate", "None"}:
        yield (
            f"The RayCluster spec is invalid: Spec.UpgradeStrategy.Type value {chosen} is invalid, valid options are "
            "Recreate or None"
        )
    creator = (subject.metadata.get("labels") or {}).get(ORIGIN_LABEL)
    if creator in {"RayJob", "RayService"}:
        yield f"upgradeStrategy cannot be set when RayCluster is created by {creator}"


def _name(subject: Subject) -> str:
    return str(subject.group.get("groupName", ""))


def _unparsed(text: str) -> str:
    return f'could not parse "{text}" as version'


def _autoscaler_v2(subject: Subject) -> bool:
    variable = subject.head_env(AUTOSCALER_V2) or {}
    return subject.autoscaler.get("version") == "v2" or variable.get("value") in {"1", "true"}


def _resources(name: str, group: Json) -> Iterator[str]:
    parameters = group.get("rayStartParams") or {}
    if group.get("resources") and any(parameters.get(key) for key in ("num-cpus", "num-gpus", "memory", "resources")):
        yield (
            f"resource fields should not be set in both rayStartParams and Resources for {name} group; please use only "
            "one"
        )


def _labels(name: str, group: Json) -> Iterator[str]:
    if "labels" in (group.get("rayStartParams") or {}):
        yield (
            f"rayStartParams['labels'] is not supported for {name} group; please use the top-level Labels field instead"
        )
    problems = []
    for key, value in (group.get("labels") or {}).items():
        problems += [
            f"invalid label key for {name} group: '{key}', error: {problem}" for problem in syntax.label_key(str(key))
        ]
        problems += [
            f"invalid label value for key '{key}' in {name} group: '{value}', error: {problem}"
            for problem in syntax.label_value(str(value))
        ]
    if problems:
        yield "; ".join(problems)
