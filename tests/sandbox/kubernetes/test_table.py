"""Tables that kubectl prints, with the columns and cells of a Kubernetes 1.36.2 API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.admission.references import ROOT_CERTIFICATES
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.store import Store
from hyperpod_ray_sandbox.kubernetes.table import table

Json = dict[str, Any]


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def shown(api: Api, kind: str, obj: Json, *, include: str = "Metadata") -> Json:
    answer: Json = table(api.kind("v1", kind), [obj], {}, include=include)
    return answer


def test_the_columns_and_cells_of_a_pod(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "busybox:1"}]}
    pod = api.create(api.kind("v1", "Pod"), "default", {"metadata": {"name": "a"}, "spec": spec})
    answer = shown(api, "Pod", pod)
    columns = [(column["name"], column["priority"]) for column in answer["columnDefinitions"]]
    assert columns == [
        ("Name", 0), ("Ready", 0), ("Status", 0), ("Restarts", 0), ("Age", 0), ("IP", 1), ("Node", 1),
        ("Nominated Node", 1), ("Readiness Gates", 1),
    ]  # fmt: skip
    cells = answer["rows"][0]["cells"]
    assert cells[:4] == ["a", "0/1", "Pending", "0"]
    assert cells[5:] == ["<none>", "<none>", "<none>", "<none>"]


def test_readiness_gates_are_counted(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "b:1"}], "readinessGates": [{"conditionType": "a.b/c"}]}
    pod = api.create(api.kind("v1", "Pod"), "default", {"metadata": {"name": "a"}, "spec": spec})
    assert shown(api, "Pod", pod)["rows"][0]["cells"][-1] == "0/1"
    pod["status"]["conditions"] = [{"type": "a.b/c", "status": "True"}]
    assert shown(api, "Pod", pod)["rows"][0]["cells"][-1] == "1/1"


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")]
)
def test_what_a_row_has_of_its_object(api: Api, include: str, kind: str | None) -> None:
    certificates = api.get(api.kind("v1", "ConfigMap"), "default", ROOT_CERTIFICATES)
    assert "verify the kube-apiserver" in certificates["metadata"]["annotations"]["kubernetes.io/description"]
    row = shown(api, "ConfigMap", certificates, include=include)["rows"][0]
    assert (row["object"] and row["object"]["kind"]) == kind
