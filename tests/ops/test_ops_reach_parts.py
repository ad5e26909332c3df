"""Ways to Ray and Grafana, jobs that end, and RayJobs that go: each part on values of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.errors import STILL_GOING, OpsError
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.reach import connect, jobs_api
from tests.ops.world import environment_text

Json = dict[str, Any]
NAMED: Any = SimpleNamespace(name="demo")


class Refused(Exception):
    """An answer of the Kubernetes API that is no success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class Api:
    """Answers by path; a missing one is 404."""

    def __init__(self, **answers: Any) -> None:
        self.objects: dict[str, Any] = answers.get("objects", {})
        self.lists: dict[str, Any] = answers.get("lists", {})
        self.deleted: list[str] = []

    def request(self, method: str, path: str) -> Json:
        assert method == "GET"
        answer = self.objects.get(path, Refused(404))
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def items(self, path: str, *, labels: str = "") -> list[Json]:
        answer = self.lists.get(f"{path}?{labels}" if labels else path, [])
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def delete(self, path: str) -> None:
        self.deleted.append(path)


def of(api: Api | None = None, extra: str = "") -> Any:
    plan = parse(environment_text() + extra, name="demo", path=Path("demo.yaml")).plan
    return SimpleNamespace(name="demo", plan=plan, kubernetes=api or Api(), aws=None)


# --- Grafana ---------------------------------------------------------------------------------------------------------


def grafana(url: str) -> Any:
    return of(
        extra=f"  observability: {{grafana_host: '{url}', prometheus_host: 'http://prometheus.monitoring:9090'}}\n"
    )


@pytest.mark.parametrize(
    ("url", "outside"),
    [
        ("http://grafana.monitoring:3000", False),
        ("http://grafana.monitoring.svc:3000", False),
        ("http://grafana.monitoring.svc.cluster.local:3000", False),
        ("https://grafana.example.com", True),
        ("https://10.0.0.7:3000", True),
    ],
)
def test_a_grafana_that_is_no_service_needs_no_forward(url: str, outside: bool) -> None:
    assert connect._grafana_outside(grafana(url)) == (url if outside else "")


def test_an_environment_without_grafana_says_where_to_name_it() -> None:
    with pytest.raises(OpsError, match="the environment names no Grafana") as error:
        connect._grafana_outside(of())
    assert error.value.expected == "ray.observability.grafana_host"


def pod(name: str, *, phase: str = "Running", ready: bool = False, going: bool = False) -> Json:
    metadata = {"name": name, **({"deletionTimestamp": "2026-11-21T00:00:00Z"} if going else {})}
    conditions = [{"type": "Ready", "status": str(ready)}]
    containers = [{"ports": [{"name": "http", "containerPort": 3000}]}, {"ports": [{"containerPort": 9}]}]
    return {
        "metadata": metadata,
        "status": {"phase": phase, "conditions": conditions},
        "spec": {"containers": containers},
    }


def service(*ports: Json, selector: Json | None = None) -> Json:
    return {
        "metadata": {"name": "grafana", "namespace": "monitoring"},
        "spec": {"ports": list(ports), "selector": {"app": "grafana"} if selector is None else selector},
    }


PODS = "/api/v1/namespaces/monitoring/pods?app=grafana"


@pytest.mark.parametrize(
    ("pods", "name"),
    [
        ([pod("a"), pod("b", ready=True), pod("c")], "b"),
        ([pod("a")], "a"),
        ([pod("a", going=True), pod("b")], "b"),
        ([pod("a", phase="Pending", ready=True), pod("b")], "b"),
    ],
)
def test_a_pod_that_runs_and_is_ready_is_forwarded_to(pods: list[Json], name: str) -> None:
    assert connect._pod_behind(of(Api(lists={PODS: pods})), service())["metadata"]["name"] == name


@pytest.mark.parametrize("pods", [[], [pod("a", phase="Pending")], [pod("a", going=True)]])
def test_without_a_pod_that_runs_there_is_no_forward(pods: list[Json]) -> None:
    with pytest.raises(OpsError, match="no pod runs behind service monitoring/grafana") as error:
        connect._pod_behind(of(Api(lists={PODS: pods})), service())
    assert error.value.fix == "kubectl -n monitoring get pods -l app=grafana"
    with pytest.raises(OpsError, match="selects no pods"):
        connect._pod_behind(of(), service(selector={}))


@pytest.mark.parametrize(
    ("entry", "port"),
    [
        ({"port": 80, "targetPort": 3000}, 3000),
        ({"port": 80}, 80),
        ({"port": 80, "targetPort": "http"}, 3000),
    ],
)
def test_the_port_on_which_pods_listen(entry: Json, port: int) -> None:
    """https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports"""
    target = of(Api(lists={PODS: [pod("a", ready=True)]}))
    assert connect._port_behind(target, service({"port": 443, "targetPort": 9}, entry), 80) == port


def test_a_port_that_is_not_there_is_named() -> None:
    target = of(Api(lists={PODS: [pod("a", ready=True)]}))
    with pytest.raises(OpsError, match="service monitoring/grafana has no port 81") as absent:
        connect._port_behind(target, service({"port": 80}, {"port": 443}), 81)
    assert absent.value.expected == "one of 80, 443"
    with pytest.raises(OpsError, match="leads to port 'web'"):
        connect._port_behind(target, service({"port": 80, "targetPort": "web"}), 80)


# --- Ray -------------------------------------------------------------------------------------------------------------


def test_the_line_that_submits_reads_the_token_and_does_not_show_it() -> None:
    assert connect.submit_line(of(), 8265) == (
        "RAY_ADDRESS=http://127.0.0.1:8265 RAY_AUTH_MODE=token "
        'RAY_AUTH_TOKEN="$(kubectl -n ray get secret ray -o jsonpath={.data.auth_token} | base64 -d)" '
        "ray job submit --working-dir . -- python train.py"
    )
    assert connect.submit_line(of(extra="  auth: none\n"), 9) == (
        "RAY_ADDRESS=http://127.0.0.1:9 ray job submit --working-dir . -- python train.py"
    )


@pytest.mark.parametrize(
    ("failure", "fix", "status"),
    [
        ("the API server answers 403", "ask for get and create on pods/portforward", 403),
        ("connection refused", "kubectl -n ray logs head --tail 50", None),
        ("timed out", "hyperpod-ray status demo", None),
    ],
)
def test_why_nothing_answers_behind_a_forward(failure: str, fix: str, status: int | None) -> None:
    forward: Any = SimpleNamespace(failure=failure, namespace="ray", pod="head")
    error = connect.unanswered(forward, OSError("x"), endpoint="the dashboard", environment="demo")
    assert error.message.startswith(f"the dashboard does not answer: {failure}. Expected an answer")
    assert error.fix.startswith(fix)
    assert getattr(error, "status", None) == status
    forward.failure = ""
    assert "answer: x" in connect.unanswered(forward, OSError("x"), endpoint="e", environment="demo").message
    assert "answer: TimeoutError" in connect.unanswered(forward, TimeoutError(), endpoint="e", environment="d").message


@pytest.mark.parametrize(
    ("info", "code", "says"),
    [
        ({"status": "SUCCEEDED"}, 0, "j SUCCEEDED"),
        ({"status": "FAILED", "driver_exit_code": 3, "message": "boom\nmore"}, 3, "j FAILED: boom"),
        ({"status": "FAILED", "driver_exit_code": 255}, 255, "j FAILED"),
        ({"status": "FAILED", "driver_exit_code": 0}, 1, "j FAILED"),
        ({"status": "FAILED", "driver_exit_code": 256}, 1, "j FAILED"),
        ({"status": "FAILED", "driver_exit_code": -9}, 1, "j FAILED"),
        ({"status": "STOPPED"}, 1, "j STOPPED"),
    ],
)
def test_the_exit_code_of_a_job(info: Json, code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs_api._ended("j", info, "demo") == code
    lines = capsys.readouterr().err.splitlines()
    assert says in lines
    assert ("next: hyperpod-ray status demo" in lines) is (code != 0)


# --- RayJobs ---------------------------------------------------------------------------------------------------------

BASE = "/apis/ray.io/v1/namespaces/ray"
JOB = {
    "metadata": {"name": "two", "namespace": "ray"},
    "spec": {"rayClusterSpec": {}},
    "status": {"rayClusterName": "two-abc"},
}


def test_a_job_with_a_cluster_of_its_own_goes_with_it() -> None:
    others = [{"metadata": {"name": "other"}}]
    api = Api(objects={f"{BASE}/rayjobs/two": JOB}, lists={f"{BASE}/rayclusters": others})
    own_cluster.stop(of(api), "two", limit_s=0)
    assert api.deleted == [f"{BASE}/rayjobs/two"]


@pytest.mark.parametrize(
    "lists", [{f"{BASE}/rayjobs": [JOB]}, {f"{BASE}/rayclusters": [{"metadata": {"name": "two-abc"}}]}]
)
def test_a_job_that_stays_or_leaves_its_cluster_is_still_going(lists: Json) -> None:
    api = Api(objects={f"{BASE}/rayjobs/two": JOB}, lists=lists)
    with pytest.raises(OpsError, match="two is not gone after") as error:
        own_cluster.stop(of(api), "two", limit_s=-1e-9)
    assert error.value.code == STILL_GOING


def test_a_job_that_is_not_there_is_named() -> None:
    for status in (403, 404):
        with pytest.raises(OpsError, match="RayJob 'two' does not exist") as error:
            own_cluster.find(of(Api(objects={f"{BASE}/rayjobs/two": Refused(status)})), "two")
        assert (error.value.code, error.value.fix) == (2, "hyperpod-ray runs list demo")
    with pytest.raises(Refused):
        own_cluster.find(of(Api(objects={f"{BASE}/rayjobs/two": Refused(500)})), "two")
    assert own_cluster.find(of(Api(objects={f"{BASE}/rayjobs/two": JOB})), "two") == JOB


def test_jobs_without_a_cluster_of_their_own_are_not_listed() -> None:
    selects = {"metadata": {"name": "one"}, "spec": {"clusterSelector": {"ray.io/cluster": "ray"}}}
    assert own_cluster.listed(of(Api(lists={f"{BASE}/rayjobs": [JOB, selects]}))) == [JOB]
    assert own_cluster.listed(of(Api(lists={f"{BASE}/rayjobs": Refused(403)}))) == []
    with pytest.raises(Refused):
        own_cluster.listed(of(Api(lists={f"{BASE}/rayjobs": Refused(500)})))
