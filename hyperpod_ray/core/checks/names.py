"""Rules about names, labels, taints, tags and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hyperpod_ray.core import names, secret_words
from hyperpod_ray.core.checks.lookup import GROUPS
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.names import SYSTEM_NAMESPACES
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.yaml_source import Path

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SYNTAX = "at most 63 letters, digits, - _ . with a letter or digit at both ends"
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_TAG = re.compile(r"[\w .:/=+\-@\u00a0\u2000-\u200a\u202f\u205f\u3000]*")
RESERVED_PREFIXES = ("kubernetes.io", "k8s.io", "sagemaker.amazonaws.com", "karpenter.sh")
"""Label prefixes (and everything below them) that belong to Kubernetes, HyperPod and Karpenter, whose NodePool refuses
its own."""
RAY_CLUSTER_NAME_LENGTH = 53
"""`MaxRayClusterNameLength` of KubeRay: the longest service suffix must fit 63 characters."""
RESERVED_VARIABLES = {
    "RAY_ADDRESS": "remove it: KubeRay sets it",
    "RAY_IP": "remove it: KubeRay sets it",
    "RAY_PORT": "remove it: KubeRay sets it",
    "FQ_RAY_IP": "remove it: KubeRay sets it",
    "RAY_CLUSTER_NAME": "remove it: KubeRay sets it",
    "RAY_CLOUD_INSTANCE_ID": "remove it: KubeRay sets it",
    "RAY_NODE_TYPE_NAME": "remove it: KubeRay sets it",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "remove it: KubeRay sets it",
    "KUBERAY_GEN_RAY_START_CMD": "remove it: KubeRay sets it",
    "RAY_AUTH_MODE": "set ray.auth",
    "RAY_AUTH_TOKEN": "remove it: KubeRay reads it from a Secret",
    "RAY_REDIS_ADDRESS": "set ray.gcs_fault_tolerance",
    "RAY_external_storage_namespace": "set ray.gcs_fault_tolerance",
    "RAY_GRAFANA_HOST": "set ray.observability",
    "RAY_GRAFANA_IFRAME_HOST": "set ray.observability",
    "RAY_PROMETHEUS_HOST": "set ray.observability",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "set ray.drain_timeout_seconds",
    names.SPARES_VARIABLE: "set ray.training_spares",
    "RESILIENCE_HANG_RULES": "set ray.hung_job_detection",
    names.TRACKERS_VARIABLE: "set ray.tracking",
}
"""Variables that something else sets, and what to do instead."""


def _key_fault(key: str) -> Message | None:
    """What is wrong with a label or taint key, None when nothing is."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _DNS_NAME.fullmatch(prefix) or len(prefix) > 253):
        expected = "a DNS name in lower case before the slash"
        return Message(f"'{key[:80]}' is no label key", expected=expected, fix="write it as example.com/key")
    if not _LABEL_NAME.fullmatch(name):
        return Message(f"'{key[:80]}' is no label key", expected=_SYNTAX, fix="correct the key")
    for reserved in RESERVED_PREFIXES:
        if prefix == reserved or prefix.endswith(f".{reserved}"):
            expected = f"another prefix: {reserved}/ is reserved"
            return Message(f"'{key[:80]}'", expected=expected, fix="use a prefix of your own (example.com/key)")
    return None


def _value_fault(value: str) -> Message | None:
    if _LABEL_VALUE.fullmatch(value):
        return None
    return Message(f"'{value[:80]}' is no label value", expected=_SYNTAX, fix="correct the value")


@rule("hyperpod", orchestrator="eks")
def labels_are_valid(plan: Plan) -> Iterator[Finding]:
    """Kubernetes label syntax, and prefixes that are not ours to set.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterKubernetesConfig.html (values of 1 to 63)
    """
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        for key, value in group.labels.items():
            path: Path = (*GROUPS, index, "labels", key)
            if fault := _key_fault(key) or _value_fault(value):
                yield error(*path, what=fault.what, expected=fault.expected, fix=fault.fix)
            elif not value:
                yield error(
                    *path,
                    what="is empty, and HyperPod does not accept empty label values",
                    expected="1 to 63 characters",
                    fix="give it a value",
                )


@rule("hyperpod", orchestrator="eks")
def taints_are_valid(plan: Plan) -> Iterator[Finding]:
    """As for labels; a taint is identified by key and effect, so the pair is unique.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        earlier = set()
        for position, taint in enumerate(group.taints):
            path: Path = (*GROUPS, index, "taints", position)
            if fault := _key_fault(taint.key):
                yield error(*path, "key", what=fault.what, expected=fault.expected, fix=fault.fix)
            if fault := _value_fault(taint.value):
                yield error(*path, "value", what=fault.what, expected=fault.expected, fix=fault.fix)
            if (taint.key, taint.effect) in earlier:
                yield error(
                    *path,
                    what=f"a second taint with key '{taint.key[:80]}' and effect {taint.effect}",
                    expected="each pair once",
                    fix="keep one",
                )
            earlier.add((taint.key, taint.effect))


@rule("tags")
def tags_are_valid(plan: CommonPlan) -> Iterator[Finding]:
    """Tag limits and the reserved prefix.

    https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
    """
    folded: dict[str, str] = {}
    for key, value in plan.settings.tags.items():
        path = ("tags", key)
        if key.casefold().startswith("aws:"):
            yield error(
                *path, what="keys that begin with 'aws:' are reserved", expected="a key of yours", fix="use another key"
            )
        if key.casefold().startswith(names.OWN_TAGS):
            yield error(
                *path,
                what=f"keys that begin with '{names.OWN_TAGS}' are this project's own",
                expected="a key of yours",
                fix="use another key",
            )
        if not 1 <= len(key) <= 128:
            yield error(
                *path,
                what=f"the key has {len(key)} characters",
                expected="1 to 128",
                fix="use a shorter key" if key else "name the tag",
            )
        if len(value) > 256:
            yield error(*path, what=f"the value has {len(value)} characters", expected="at most 256", fix="shorten it")
        if not _TAG.fullmatch(key) or not _TAG.fullmatch(value):
            yield error(
                *path,
                what="a character that tags cannot have",
                expected="letters, digits, spaces and _ . : / = + - @ in keys and values",
                fix="remove the others",
            )
        if folded.setdefault(key.casefold(), key) != key:
            yield error(
                *path,
                what=f"differs from '{folded[key.casefold()][:80]}' in case only, and IAM ignores the case of keys",
                expected="keys that differ in more than case",
                fix="keep one",
            )


@rule("ray")
def ray_cluster_name_fits(plan: Plan) -> Iterator[Finding]:
    """KubeRay accepts a RayCluster name that is a DNS-1035 label of at most 53 characters.

    Such a label begins with a letter; service names derive from it. (ValidateRayClusterMetadata in kuberay's
    ray-operator/controllers/ray/utils)
    """
    name = plan.settings.ray.cluster_name
    if name[0].isdigit():
        yield error(
            "ray",
            "cluster_name",
            what=f"'{name}' begins with a digit",
            expected="a letter first: KubeRay names services after the cluster",
            fix="choose a name that begins with a letter",
        )
    if len(name) > RAY_CLUSTER_NAME_LENGTH:
        yield error(
            "ray",
            "cluster_name",
            what=f"{len(name)} characters",
            expected=f"at most {RAY_CLUSTER_NAME_LENGTH}: KubeRay adds '-serve-svc'",
            fix="shorten it",
        )


@rule("ray")
def namespace_is_ours(plan: Plan) -> Iterator[Finding]:
    """Ray has a namespace of its own: network policies, pod security and the users' rights hang on it."""
    namespace = plan.settings.ray.namespace
    if namespace.startswith(names.TEAM_NAMESPACE_PREFIX):
        yield error(
            "ray",
            "namespace",
            what=f"'{namespace}' is the name of a team's namespace: HyperPod task governance makes it",
            expected=f"a namespace that does not begin with {names.TEAM_NAMESPACE_PREFIX}",
            fix="set ray.namespace: ray",
        )
    elif namespace in SYSTEM_NAMESPACES or namespace.startswith("kube-"):
        yield error(
            "ray",
            "namespace",
            what=f"'{namespace}' belongs to the cluster itself",
            expected="a namespace of Ray's own",
            fix="set ray.namespace: ray",
        )


@rule("hyperpod", "account", "region")
def bucket_name_fits(plan: CommonPlan) -> Iterator[Finding]:
    """The bucket of the lifecycle scripts is named after the cluster; bucket names have at most 63 characters.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    """
    name = plan.lifecycle_bucket_name
    if len(name) > 63:
        longest = len(plan.settings.hyperpod.cluster_name) - (len(name) - 63)
        yield error(
            "hyperpod",
            "cluster_name",
            what=(
                f"'{plan.settings.hyperpod.cluster_name}' is too long: the bucket '{name}' would have "
                f"{len(name)} characters"
            ),
            expected=f"at most {longest} characters in {plan.settings.region}, because S3 allows 63",
            fix="shorten cluster_name",
        )


@rule("hyperpod")
def mails_differ(plan: CommonPlan) -> Iterator[Finding]:
    """SNS makes one subscription per address."""
    mails = plan.settings.hyperpod.alarm_emails
    for index, mail in enumerate(mails):
        if mail.casefold() in (earlier.casefold() for earlier in mails[:index]):
            yield error(
                "hyperpod",
                "alarm_emails",
                index,
                what=f"'{mail}' is named twice",
                expected="each address once",
                fix="keep one",
            )


BUCKET_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
BUCKET_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")


@rule("storage", "hyperpod", eks=("ray",))
def bucket_names_are_valid(plan: CommonPlan) -> Iterator[Finding]:
    """S3's rules for bucket names beside length and characters.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    """
    for path, bucket in plan.buckets:
        if ".." in bucket or ".-" in bucket or "-." in bucket:
            fault = "single dots, between letters and digits"
        elif _ADDRESS.fullmatch(bucket):
            fault = "a name that is not an IP address"
        elif bucket.startswith(BUCKET_PREFIXES):
            fault = f"a name without a reserved prefix ({', '.join(BUCKET_PREFIXES)})"
        elif bucket.endswith(BUCKET_SUFFIXES):
            fault = f"a name without a reserved suffix ({', '.join(BUCKET_SUFFIXES)})"
        else:
            continue
        yield error(*path, what=f"'{bucket}' is no bucket name", expected=fault, fix="name the bucket itself")


@rule("image")
def folder_is_inside(plan: CommonPlan) -> Iterator[Finding]:
    """The image's folder lies in the project: what is built is what was reviewed."""
    if plan.built_image is None:
        return
    folder = plan.built_image.folder
    if not folder.strip() or folder.startswith(("/", "~")) or ".." in folder.replace("\\", "/").split("/"):
        yield error(
            "image",
            "folder",
            what=f"'{folder[:80]}' is no folder inside the project",
            expected="a relative path",
            fix="set image.folder: image",
        )


@rule("helm")
def lock_file_is_inside(plan: Plan) -> Iterator[Finding]:
    """The charts' lock file lies in the project, too."""
    if ".." in plan.settings.helm.lock_file.split("/"):
        yield error(
            "helm",
            "lock_file",
            what=f"'{plan.settings.helm.lock_file[:80]}' leaves the project",
            expected="a path inside it",
            fix="set helm.lock_file: charts.lock.yaml",
        )


@rule("ray")
def variables_are_free(plan: Plan) -> Iterator[Finding]:
    """Some variables are set by KubeRay, by Ray's start-up or by a setting of their own.

    Setting them twice breaks the cluster in ways that are hard to see. Secrets belong into a Secret, not into a file
    under version control.
    """
    ray = plan.settings.ray
    places: list[tuple[Path, dict[str, str]]] = [(("ray", "env"), ray.env), (("ray", "head", "env"), ray.head.env)]
    places += [(("ray", "workers", index, "env"), worker.env) for index, worker in enumerate(ray.workers)]
    for path, variables in places:
        for name, value in variables.items():
            if name in RESERVED_VARIABLES:
                yield error(
                    *path,
                    name,
                    what="is not yours to set",
                    expected="a variable that nothing else sets",
                    fix=RESERVED_VARIABLES[name],
                )
            elif secret_words.of_variable(name, value):
                yield warning(
                    *path,
                    name,
                    what="looks like a secret",
                    expected="no secrets in files under version control",
                    fix="keep it in a Kubernetes Secret, and name that in ray.secrets",
                )
