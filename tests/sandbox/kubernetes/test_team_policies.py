"""The admission policy of the teams' namespaces, as rendered, in a server that evaluates it: both ways.

The expressions run in the language's own evaluator. That RayCronJobs cannot have a queue is read from KubeRay's own
definition.
"""

from __future__ import annotations

import copy
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.k8s.team_policies import QUEUED
from tests.k8s.conftest import BINDINGS

pytestmark = pytest.mark.emulator

Json = dict[str, Any]
CRDS = FOLDER.parent / "hyperpod_ray_sandbox" / "charts" / "kuberay-operator" / "crds"
QUEUE = "kueue.x-k8s.io/queue-name"
"""As Kueue spells it (pkg/controller/constants)."""
VISION, SPEECH, OTHER = "hyperpod-ns-vision", "hyperpod-ns-speech", "ray"
OWN = {QUEUE: "hyperpod-ns-vision-localqueue"}
TEMPLATE: Json = {"spec": {"containers": [{"name": "c", "image": "b:1"}]}}
CLUSTER: Json = {"rayVersion": "2.60.0", "headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}}
JOB: Json = {"entrypoint": "true", "shutdownAfterJobFinishes": True, "suspend": True, "rayClusterSpec": CLUSTER}
SPECS: dict[str, Json] = {
    "RayCluster": {**CLUSTER, "suspend": True},
    "RayJob": JOB,
    "RayService": {"rayClusterConfig": CLUSTER},
    "RayCronJob": {"schedule": "@daily", "suspend": True, "jobTemplate": JOB},
}


def crd(kind: str) -> Json:
    """KubeRay's definition; of a kind that the chart here lacks, one that takes anything."""
    path = CRDS / f"ray.io_{kind.lower()}s.yaml"
    if path.exists():
        found: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
        return found
    plural = f"{kind.lower()}s"
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": anything, "subresources": {"status": {}}}
    about = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.RAY_API_GROUP}"},
        "spec": {"group": names.RAY_API_GROUP, "names": about, "scope": "Namespaced", "versions": [version]},
    }


def item(kind: str, name: str, *, namespace: str = VISION, **metadata: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": copy.deepcopy(SPECS[kind]),
    }


def cron_with_labels() -> Json:
    made = item("RayCronJob", "cron", labels=OWN)
    made["spec"]["jobTemplate"]["metadata"] = dict(OWN)
    return made


@pytest.fixture(scope="module")
def policed(cluster: Any) -> Any:
    """A server with KubeRay's definitions, three namespaces, and the policy of the example with teams."""
    plan = load("teams", folder=FOLDER / "examples").plan
    (policy,) = (made.objects for made in k8s.ray_manifests(plan, BINDINGS) if made.name == "TeamQueues")
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (VISION, SPEECH, OTHER)]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([*map(crd, SPECS), *spaces]))
    # what was there before the policy
    old = [item("RayJob", "old"), item("RayCronJob", "old"), item("RayCluster", "held", finalizers=["example.com/x"])]
    kept = [item(kind, "kept", labels=OWN) for kind in ("RayJob", "RayCluster")]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([*old, *kept]))
    cluster.apply(*policy)
    return cluster


@pytest.fixture(scope="module")
def ask(policed: Any) -> Callable[..., str]:
    """A request as an administrator; what the server says against it, or nothing."""
    context = ssl.create_default_context(cafile=policed.server["ca_file"])
    token = policed.server["token"]

    def asked(method: str, kind: str, body: Json | None = None, *, namespace: str = VISION, name: str = "") -> str:
        path = f"/apis/ray.io/v1/namespaces/{namespace}/{kind.lower()}s{'/' if name else ''}{name}"
        sort = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(  # noqa: S310
            policed.server["url"] + path,
            data=json.dumps(body).encode() if body else None,
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": sort},
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=600):  # noqa: S310
                return ""
        except urllib.error.HTTPError as error:
            answer = json.load(error)
            if error.code == 501:
                return str(answer["message"])
            assert (error.code, answer["reason"]) == (422, "Invalid"), answer
            assert answer["details"]["causes"], "kubectl shows these"
            return str(answer["message"])

    return asked


NO_QUEUE, NO_CRON = "names the team's queue", "KubeRay gives its runs no labels"
# what the policy lets in
IN = dict.fromkeys(SPECS, "") | {"RayService": "the sandbox does not model a RayService"}
QUEUEABLE = [kind for kind in SPECS if kind != "RayCronJob"]
CASES: dict[str, tuple[Json, str]] = {
    **{
        f"{kind} of the team's queue": (item(kind, "good", labels=OWN), IN[kind])
        for kind in SPECS
        if kind != "RayCronJob"
    },
    **{f"{kind} without labels": (item(kind, "bare"), NO_QUEUE) for kind in SPECS if kind != "RayCronJob"},
    "labels without the queue": (item("RayJob", "other", labels={"a": "b"}), NO_QUEUE),
    "an empty queue": (item("RayJob", "empty", labels={QUEUE: ""}), NO_QUEUE),
    "another team's queue": (
        item("RayJob", "theirs", labels={QUEUE: "hyperpod-ns-speech-localqueue"}),
        NO_QUEUE,
    ),
    "a queue of that name in another team's namespace": (
        item("RayJob", "foreign", namespace=SPEECH, labels=OWN),
        NO_QUEUE,
    ),
    "Kueue reads no annotation": (item("RayCluster", "noted", annotations=OWN), NO_QUEUE),
    "a RayCronJob": (item("RayCronJob", "cron"), NO_CRON),
    "a RayCronJob with the label": (item("RayCronJob", "cron", labels=OWN), NO_CRON),
    "a RayCronJob with the label in jobTemplate's metadata": (cron_with_labels(), NO_CRON),
    **{f"{kind} elsewhere": (item(kind, "free", namespace=OTHER), IN[kind]) for kind in SPECS},
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_teams_namespace_takes(ask: Callable[..., str], name: str) -> None:
    given, wanted = CASES[name]
    answer = ask("POST", given["kind"], given, namespace=given["metadata"]["namespace"])
    assert (wanted in answer) if wanted else not answer, answer
    if wanted and wanted not in IN.values():
        assert QUEUED in answer


LABELS, NOTED = {"metadata": {"labels": {QUEUE: None}}}, {"metadata": {"annotations": {"a": "b"}}}
THEIRS = {"metadata": {"labels": {QUEUE: "hyperpod-ns-speech-localqueue"}}}
UPDATES: dict[str, tuple[str, str, str, Json | None, str]] = {
    "the label goes": ("PATCH", "RayJob", "kept", LABELS, NO_QUEUE),
    "the label of a RayCluster goes": ("PATCH", "RayCluster", "kept", LABELS, NO_QUEUE),
    "the label becomes another team's": ("PATCH", "RayJob", "kept", THEIRS, NO_QUEUE),
    "something else changes": ("PATCH", "RayJob", "kept", NOTED, ""),
    "one of before the policy": ("PATCH", "RayJob", "old", NOTED, NO_QUEUE),
    "one of before the policy gets its queue": ("PATCH", "RayJob", "old", {"metadata": {"labels": OWN}}, ""),
    "a RayCronJob of before the policy is suspended": (
        "PATCH", "RayCronJob", "old", {"spec": {"suspend": True, "schedule": "@weekly"}}, "",
    ),
    "a RayCronJob of before the policy goes": ("DELETE", "RayCronJob", "old", None, ""),
    "one without a queue goes, with its finalizer": ("DELETE", "RayCluster", "held", None, ""),
    "its finalizer is taken off": ("PATCH", "RayCluster", "held", {"metadata": {"finalizers": None}}, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
def test_what_may_change(ask: Callable[..., str], name: str) -> None:
    method, kind, whose, body, wanted = UPDATES[name]
    answer = ask(method, kind, body, name=whose)
    assert (wanted in answer) if wanted else not answer, answer


def test_kuberays_runs_of_a_cron_job_can_have_no_labels() -> None:
    """`jobTemplate` is a RayJob's spec; its `metadata` are words for Ray's Jobs API, and no labels of an object."""
    (version,) = crd("RayCronJob")["spec"]["versions"]
    template = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["jobTemplate"]
    (job,) = crd("RayJob")["spec"]["versions"]
    spec = job["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(template["properties"]) == set(spec["properties"])
    assert "labels" not in template["properties"]
    assert template["properties"]["metadata"].get("properties") is None
