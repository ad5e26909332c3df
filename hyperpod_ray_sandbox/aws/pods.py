"""A recorded pod's AWS credentials, for a process of yours in its place: `env --pod NAMESPACE/NAME`."""

from __future__ import annotations

import json
import shlex
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import yaml

from hyperpod_ray_sandbox.aws.client import ControlError
from hyperpod_ray_sandbox.aws.process import Running

NODE_PREFIX = "hyperpod-"


def exports(running: Running, name: str) -> list[str]:
    """Return the shell lines that make a process call AWS as a pod does.

    Args:
        running: The embedded AWS with its local Kubernetes API.
        name: `NAMESPACE/NAME` of the pod.

    Raises:
        ControlError: There is no such pod, or EKS Pod Identity gives it no credentials, and why.
    """
    namespace, slash, pod_name = name.partition("/")
    if not (namespace and slash and pod_name):
        raise ControlError(f"--pod: {name}", expected="NAMESPACE/NAME", fix="kubectl get pods -A lists them")
    pod = _get(running, f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod_name, safe='')}")
    node = str(pod["spec"].get("nodeName") or "")
    if not node.startswith(NODE_PREFIX):
        raise ControlError(
            f"pod {name} runs on {node or 'no node'}",
            expected="a HyperPod node: only its pods have an identity here",
            fix="choose another pod",
        )
    credentials = running.client.pod_credentials(
        cluster=_cluster(running), node_id=node.removeprefix(NODE_PREFIX), pod=pod
    )
    variables = {
        **running.client.environment(),
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["Token"],
    }
    return [f"export {key}={shlex.quote(value)}" for key, value in variables.items()]


def _cluster(running: Running) -> str:
    """The only EKS cluster: the one that the local Kubernetes API stands for."""
    clusters = [r["id"] for r in running.client.inventory() if r["type"] == "AWS::EKS::Cluster"]
    if len(clusters) != 1:
        raise ControlError(
            f"--pod: {len(clusters)} EKS clusters",
            expected="one, which the Kubernetes API stands for",
            fix="delete the other",
        )
    return str(clusters[0]).rpartition("/")[2]


def _get(running: Running, path: str) -> dict[str, Any]:
    with open(running.kubeconfig, encoding="utf-8") as file:  # noqa: PTH123
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "token" not in user or "certificate-authority" not in cluster:
        raise ControlError("--pod: not the local Kubernetes API", expected="it", fix="run `up` without --kubeconfig")
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    request = urllib.request.Request(  # noqa: S310  # the URL of `up`
        cluster["server"] + path, headers={"Authorization": f"Bearer {user['token']}"}
    )
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=300) as answer:
            document: dict[str, Any] = json.load(answer)
            return document
    except urllib.error.HTTPError as error:
        raise ControlError(
            str(json.load(error)["message"]),
            expected="a pod that the Kubernetes API has",
            fix="kubectl get pods -A lists them",
        ) from None
    except OSError as error:
        raise ControlError(
            f"the Kubernetes API does not answer on {running.kubernetes}: {error}",
            expected="an answer",
            fix="run `up` again",
        ) from None
