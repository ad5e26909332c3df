"""`connect`: the dashboard, the Jobs API and Grafana on localhost."""

from __future__ import annotations

import base64
import contextlib
import shlex
import time
from urllib.parse import urlsplit

from ops import gather, names, output
from ops.clients import Json, Target, absent
from ops.errors import OK, OpsError
from ops.forward import Forward

GRAFANA_PORT = 3000


def run(target: Target, *, port: int, grafana: bool) -> int:
    """Forward until Ctrl-C; prints the URLs and the line that submits a job."""
    target.aws.require_account()
    with contextlib.ExitStack() as stack:
        forward = stack.enter_context(dashboard(target, port=port))
        output.write_line(f"dashboard and Jobs API  http://127.0.0.1:{forward.port}")
        if grafana:
            extra = stack.enter_context(_grafana(target))
            output.write_line(f"Grafana                 http://127.0.0.1:{extra.port}")
        output.write_line(f"submit                  {submit_line(target, forward.port)}")
        output.say("only this machine can reach them; Ctrl-C ends it")
        try:
            while True:
                time.sleep(1)
                if forward.failure:
                    output.say(f"a connection failed: {forward.failure}")
                    forward.failure = ""
        except KeyboardInterrupt:
            output.say("closed")
    return OK


def dashboard(target: Target, *, port: int) -> Forward:
    """The head's port 8265."""
    ray = target.plan.settings.ray
    pods = gather.pods(target, ray.namespace)
    heads = [pod for pod in pods if pod.role == "head" and pod.cluster == ray.cluster_name and not pod.deleting_since]
    ready = [pod for pod in heads if pod.ready]
    if not ready:
        what = f"the head of RayCluster '{ray.cluster_name}' " + (
            f"is {heads[0].reason or heads[0].phase}" if heads else "does not exist"
        )
        raise OpsError(what, next=f"python -m ops wait {target.name} --for ray")
    return Forward(
        target.kubernetes, namespace=ray.namespace, pod=ready[0].name, remote=names.DASHBOARD_PORT, local=port
    )


def token(target: Target) -> str:
    """The token of the RayCluster, which KubeRay keeps in a Secret of its name; empty where auth is off."""
    ray = target.plan.settings.ray
    if ray.auth == "none":
        return ""
    try:
        secret = target.kubernetes.request("GET", f"/api/v1/namespaces/{ray.namespace}/secrets/{ray.cluster_name}")
        return base64.b64decode(secret["data"][names.TOKEN_KEY]).decode()
    except Exception as error:
        if not absent(error) and not isinstance(error, KeyError):
            raise
        raise OpsError(
            f"there is no token in Secret {ray.namespace}/{ray.cluster_name}; KubeRay makes it with the RayCluster",
            next=f"python -m ops status {target.name}",
        ) from None


def submit_line(target: Target, port: int) -> str:
    """What a person types to submit a job through the forwarded port; it reads the token, it does not show it."""
    ray = target.plan.settings.ray
    parts = [f"RAY_ADDRESS=http://127.0.0.1:{port}"]
    if ray.auth == "token":
        secret = f"kubectl -n {ray.namespace} get secret {ray.cluster_name}"
        read = f"{secret} -o jsonpath={{.data.{names.TOKEN_KEY}}} | base64 -d"
        parts += ["RAY_AUTH_MODE=token", f'RAY_AUTH_TOKEN="$({read})"']
    parts += ["ray job submit"]
    if ray.gcs_fault_tolerance:
        parts += ["--entrypoint-resources", shlex.quote('{"driver": 1}')]
    return " ".join([*parts, "--working-dir . -- python train.py"])


def _grafana(target: Target) -> Forward:
    """The service that `ray.observability.grafana_host` names."""
    observability = target.plan.settings.ray.observability
    if observability is None:
        raise OpsError("the environment names no Grafana", next="add ray.observability to its file")
    parts = urlsplit(observability.grafana_host)
    name, _, rest = (parts.hostname or "").partition(".")
    namespace = rest.partition(".")[0]
    try:
        service = target.kubernetes.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
    except Exception as error:
        if not absent(error):
            raise
        raise OpsError(
            f"there is no service {namespace}/{name} ({observability.grafana_host})",
            next="install Grafana, or correct ray.observability.grafana_host",
        ) from None
    pod, port = _behind(target, service, parts.port or 80)
    return Forward(target.kubernetes, namespace=namespace, pod=pod, remote=port, local=GRAFANA_PORT)


def _behind(target: Target, service: Json, port: int) -> tuple[str, int]:
    """A running pod behind a service, and the port that it listens on."""
    meta, spec = service["metadata"], service["spec"]
    selector = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items())
    pods = target.kubernetes.items(f"/api/v1/namespaces/{meta['namespace']}/pods", labels=selector)
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        raise OpsError(
            f"no pod runs behind service {meta['namespace']}/{meta['name']}",
            next=f"kubectl -n {meta['namespace']} get pods",
        )
    wanted = next((entry.get("targetPort", port) for entry in spec.get("ports") or [] if entry["port"] == port), port)
    if isinstance(wanted, str):
        listed = [p for c in running[0]["spec"]["containers"] for p in c.get("ports") or []]
        wanted = next((p["containerPort"] for p in listed if p.get("name") == wanted), port)
    return str(running[0]["metadata"]["name"]), int(wanted)
