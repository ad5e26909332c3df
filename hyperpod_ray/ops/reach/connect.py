"""`connect`: the dashboard, the Jobs API and Grafana on localhost."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shlex
import time
from typing import Never
from urllib.parse import urlsplit

from hyperpod_ray.core import names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import INTERRUPTED, OK, OpsError, explain
from hyperpod_ray.ops.reach import ray_pods
from hyperpod_ray.ops.reach.clients import Json, Target
from hyperpod_ray.ops.reach.forward import LOOPBACK, Forward

GRAFANA_PORT = 3000
ANSWER_SECONDS = 20
LOOK_SECONDS = 1.0


def run(target: Target, *, port: int, grafana: bool, grafana_port: int = GRAFANA_PORT, check: bool = False) -> int:
    """Forward until Ctrl-C; prints the URLs and the line that submits a job.

    Args:
        check: Only see whether what is forwarded answers, and end.
    """
    target.aws.require_account()
    with contextlib.ExitStack() as stack:
        forward = stack.enter_context(dashboard(target, port=port))
        require_answer(forward, endpoint="Ray's dashboard", environment=target.name)
        forwards = {"dashboard": forward}
        outside = _grafana_outside(target) if grafana else ""
        if grafana and not outside:
            forwards["Grafana"] = stack.enter_context(_grafana(target, port=grafana_port))
            require_answer(forwards["Grafana"], endpoint="Grafana", environment=target.name)
        output.write_line(f"dashboard and Jobs API  http://{LOOPBACK}:{forward.port}")
        if grafana:
            where = outside or f"http://{LOOPBACK}:{forwards['Grafana'].port}"
            output.write_line(f"Grafana                 {where}")
        output.write_line(f"submit                  {submit_line(target, forward.port)}")
        if through := target.kubernetes.tunnel:
            host = target.kubernetes.endpoint.host
            output.write_line(
                f"Kubernetes API          kubectl --server https://{LOOPBACK}:{through.port} --tls-server-name {host}"
            )
        if check:
            return OK
        output.log("only this machine can reach them; Ctrl-C ends it")
        try:
            watch(forwards)
        except KeyboardInterrupt:
            output.log("closed")
            return INTERRUPTED


def watch(forwards: dict[str, Forward]) -> Never:
    """Say what happens to the connections, each thing once until something else happens."""
    reported: dict[str, str] = {}
    while True:
        time.sleep(LOOK_SECONDS)
        for name, forward in forwards.items():
            failure, forward.failure = forward.failure, ""
            if failure and failure != reported.get(name):
                output.log(f"{name}: a connection failed: {failure}")
                reported[name] = failure
            if forward.ended or failure:
                forward.ended = False
                if news := _news(forward):
                    output.log(f"{name}: {news}")
                    reported.pop(name, None)


def _news(forward: Forward) -> str:
    try:
        return forward.news()
    except Exception as error:
        failure = explain(error)
        return f"the pod cannot be looked at: {failure.message if failure else error}"


def require_answer(forward: Forward, *, endpoint: str, environment: str) -> None:
    """Raise an `OpsError` where nothing speaks HTTP at the other end; any answer will do."""
    connection = http.client.HTTPConnection(LOOPBACK, forward.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/api/version")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        raise unanswered(forward, error, endpoint=endpoint, environment=environment) from None
    finally:
        connection.close()


class NotYoursError(OpsError):
    """Kubernetes refuses the port forward to these credentials."""

    status = 403


def unanswered(forward: Forward, error: Exception, *, endpoint: str, environment: str) -> OpsError:
    """Why nothing answers at the other end of a forward, and the next command."""
    why = forward.failure or str(error) or type(error).__name__
    problem, expected = f"{endpoint} does not answer: {why}", "an answer through the port-forward"
    if "answers 403" in why:
        ask = "ask for get and create on pods/portforward: eks.ray_users or eks.admin_role_arns of the environment"
        return NotYoursError(problem, expected=expected, fix=ask)
    if "connection refused" in why:
        return OpsError(problem, expected=expected, fix=f"kubectl -n {forward.namespace} logs {forward.pod} --tail 50")
    return OpsError(problem, expected=expected, fix=f"hyperpod-ray status {environment}")


def dashboard(target: Target, *, port: int, namespace: str = "", cluster: str = "") -> Forward:
    """The head's port 8265; default: of the environment's RayCluster."""
    ray = target.plan.settings.ray
    return Forward(
        target.kubernetes,
        namespace=namespace or ray.namespace,
        find=lambda: _head(target, namespace=namespace or ray.namespace, cluster=cluster or ray.cluster_name),
        remote=names.DASHBOARD_PORT,
        local=port,
        busy=f"hyperpod-ray connect {target.name} --port 0",
    )


def _head(target: Target, *, namespace: str, cluster: str) -> str:
    """The pod of the head that is ready."""
    pods = ray_pods.pods(target, namespace)
    heads = [pod for pod in pods if pod.role == "head" and pod.cluster == cluster and not pod.deleting_since]
    ready = [pod for pod in heads if pod.ready]
    if not ready:
        problem = f"the head of RayCluster '{cluster}' " + (
            f"is {heads[0].reason or heads[0].phase}" if heads else "does not exist"
        )
        raise OpsError(problem, expected="a head pod that is ready", fix=f"hyperpod-ray wait {target.name} --for ray")
    return ready[0].name


def token(target: Target, *, namespace: str = "", cluster: str = "") -> str:
    """The token of the RayCluster, which KubeRay keeps in a Secret of its name; empty where auth is off."""
    ray = target.plan.settings.ray
    if ray.auth == "none":
        return ""
    namespace, cluster = namespace or ray.namespace, cluster or ray.cluster_name
    try:
        secret = target.kubernetes.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{cluster}")
        return base64.b64decode(secret["data"][names.TOKEN_KEY]).decode()
    except Exception as error:
        if not absent(error) and not isinstance(error, KeyError):
            raise
        raise OpsError(
            f"no token in Secret {namespace}/{cluster}",
            expected="the token that KubeRay writes with the RayCluster",
            fix=f"hyperpod-ray status {target.name}",
        ) from None


def submit_line(target: Target, port: int) -> str:
    """The command that submits a job through the forwarded port; it reads the token and does not show it."""
    ray = target.plan.settings.ray
    parts = [f"RAY_ADDRESS=http://127.0.0.1:{port}"]
    if ray.auth == "token":
        secret = f"kubectl -n {ray.namespace} get secret {ray.cluster_name}"
        read = f"{secret} -o jsonpath={{.data.{names.TOKEN_KEY}}} | base64 -d"
        parts += ["RAY_AUTH_MODE=token", f'RAY_AUTH_TOKEN="$({read})"']
    parts += ["ray job submit"]
    if ray.gcs_fault_tolerance:
        parts += ["--entrypoint-resources", shlex.quote(json.dumps({names.DRIVER_GROUP: 1}))]
    return " ".join([*parts, "--working-dir . -- python train.py"])


def _grafana_url(target: Target) -> str:
    observability = target.plan.settings.ray.observability
    if observability is None or observability.grafana_host is None:
        raise OpsError(
            "the environment names no Grafana",
            expected="ray.observability.grafana_host",
            fix="set it in the environment's file",
        )
    return observability.grafana_host


def _grafana_outside(target: Target) -> str:
    """Grafana's address where it is no service of the cluster: it needs no forwarding."""
    url = _grafana_url(target)
    host = (urlsplit(url).hostname or "").removesuffix(".cluster.local").removesuffix(".svc")
    return url if host.count(".") != 1 else ""


def _grafana(target: Target, *, port: int) -> Forward:
    """The service that `ray.observability.grafana_host` names."""
    parts = urlsplit(_grafana_url(target))
    name, _, rest = (parts.hostname or "").partition(".")
    namespace = rest.partition(".")[0]
    try:
        service = target.kubernetes.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
    except Exception as error:
        if not absent(error):
            raise
        raise OpsError(
            f"no service {namespace}/{name} ({_grafana_url(target)})",
            expected="the service of Grafana",
            fix="install Grafana, or correct ray.observability.grafana_host",
        ) from None
    at = parts.port or (443 if parts.scheme == "https" else 80)
    remote = _port_behind(target, service, at)
    return Forward(
        target.kubernetes,
        namespace=namespace,
        find=lambda: str(_pod_behind(target, service)["metadata"]["name"]),
        remote=remote,
        local=port,
        busy=f"hyperpod-ray connect {target.name} --grafana --grafana-port 0",
    )


def _pod_behind(target: Target, service: Json) -> Json:
    """A pod behind a service that runs, a ready one if there is one."""
    meta, selector = service["metadata"], service["spec"].get("selector") or {}
    if not selector:
        raise OpsError(
            f"service {meta['namespace']}/{meta['name']} selects no pods",
            expected="a selector: only pods can be forwarded to",
            fix="correct ray.observability.grafana_host in the environment's file",
        )
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    pods = target.kubernetes.items(f"/api/v1/namespaces/{meta['namespace']}/pods", labels=labels)
    running = [
        pod
        for pod in pods
        if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]
    if not running:
        raise OpsError(
            f"no pod runs behind service {meta['namespace']}/{meta['name']}",
            expected="a running pod",
            fix=f"kubectl -n {meta['namespace']} get pods -l {shlex.quote(labels)}",
        )
    return max(running, key=_is_ready)


def _is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


def _port_behind(target: Target, service: Json, port: int) -> int:
    """The port on which pods listen for a port of the service; a named one is looked up in a pod."""
    name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
    entries = {service_port["port"]: service_port for service_port in service["spec"].get("ports") or []}
    if port not in entries:
        raise OpsError(
            f"service {name} has no port {port}",
            expected=f"one of {', '.join(str(listed_port) for listed_port in entries) or 'none'}",
            fix="correct ray.observability.grafana_host in the environment's file",
        )
    target_port = entries[port].get("targetPort", port)
    if isinstance(target_port, int):
        return target_port
    containers = _pod_behind(target, service)["spec"]["containers"]
    listed = {
        listed_port.get("name"): listed_port["containerPort"]
        for box in containers
        for listed_port in box.get("ports") or []
    }
    if target_port not in listed:
        raise OpsError(
            f"service {name} leads to port '{target_port}'",
            expected="a port that a container of its pods names",
            fix=f"kubectl -n {service['metadata']['namespace']} describe service {service['metadata']['name']}",
        )
    return int(listed[target_port])
