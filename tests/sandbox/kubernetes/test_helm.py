"""The real helm: install, upgrade, wait, rollback, uninstall, and a chart that brings a CustomResourceDefinition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.emulator

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["size"], "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "parts": {"type": "array", "items": {"type": "string"}},
                        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                        "port": {"x-kubernetes-int-or-string": True},
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                }}},
            }
        ],
    },
}  # fmt: skip

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}", labels: {app.kubernetes.io/name: "{{ .Chart.Name }}"}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      nodeSelector: {{ toJson .Values.nodeSelector }}
      containers: [{name: c, image: "image:{{ .Values.tag }}"}]
"""


def chart(folder: Path, name: str, *, crd: bool = False) -> Path:
    """A small chart on disk."""
    root = folder / name
    (root / "templates").mkdir(parents=True)
    (root / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": name, "version": "1.0.0"}))
    (root / "values.yaml").write_text(yaml.safe_dump({"replicas": 1, "tag": "1", "nodeSelector": {}}))
    (root / "templates" / "deployment.yaml").write_text(DEPLOYMENT)
    if crd:
        (root / "crds").mkdir()
        (root / "crds" / "widgets.yaml").write_text(yaml.safe_dump(WIDGETS))
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 2}}
        (root / "templates" / "widget.yaml").write_text(yaml.safe_dump(widget))
    return root


def test_release_from_install_to_uninstall(cluster: Any, tmp_path: Path) -> None:
    """With the arguments of CDK's handler: `upgrade RELEASE CHART --install --create-namespace --namespace … --wait
    --timeout …`.
    """
    root = chart(tmp_path, "small")
    common = ("--namespace", "charts", "--wait", "--timeout", "120s")
    cluster.helm("upgrade", "rel", str(root), "--install", "--create-namespace", *common)
    assert cluster.get("deploy", "-n", "charts", "rel")["status"]["availableReplicas"] == 1
    cluster.helm("upgrade", "rel", str(root), "--install", *common, "--set", "replicas=2,tag=2")
    found = cluster.get("deploy", "-n", "charts", "rel")
    assert found["status"]["updatedReplicas"] == 2
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "image:2"
    cluster.helm("rollback", "rel", "1", *common)
    assert (
        cluster.get("deploy", "-n", "charts", "rel")["spec"]["template"]["spec"]["containers"][0]["image"] == "image:1"
    )
    history = json.loads(cluster.helm("history", "rel", "-n", "charts", "-o", "json").stdout)
    assert [h["status"] for h in history] == ["superseded", "superseded", "deployed"]
    cluster.helm("uninstall", "rel", *common)
    assert cluster.get("deploy,rs,pods,secrets", "-n", "charts")["items"] == []


def test_wait_times_out_where_no_node_takes_the_pods(cluster: Any, tmp_path: Path) -> None:
    root = chart(tmp_path, "stuck")
    done = cluster.helm("upgrade", "stuck", str(root), "--install", "--namespace", "default", "--wait", "--timeout", "5s",  # noqa: E501
                        "--set", "nodeSelector.no=where", ok=False)  # fmt: skip
    assert done.returncode != 0
    assert json.loads(cluster.helm("list", "-n", "default", "--failed", "-o", "json").stdout)[0]["name"] == "stuck"
    pods = cluster.get("pods", "-n", "default", "-l", "app=stuck")["items"]
    assert "didn't match Pod's node affinity/selector" in json.dumps(pods)
    cluster.helm("uninstall", "stuck", "-n", "default")


@pytest.mark.slow
def test_chart_with_a_definition(cluster: Any, tmp_path: Path) -> None:
    root = chart(tmp_path, "withcrd", crd=True)
    cluster.helm("upgrade", "crd", str(root), "--install", "--namespace", "default")
    widget = cluster.get("widgets", "w")
    assert widget["spec"] == {"size": 2, "color": "red"}  # the schema's default was filled in
    assert cluster.kubectl("get", "wd").stdout.split()[:4] == ["NAME", "SIZE", "AGE", "w"]
    for spec, said in (
        ({"size": 0}, "less than"),
        ({"size": 1, "color": "green"}, 'supported values: "red", "blue"'),
        ({"size": "1"}, "must be of type integer"),
        ({"size": 1, "extra": 1}, 'unknown field "spec.extra"'),
        ({"color": "red"}, "spec.size: Required value"),
    ):
        bad = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "bad", "namespace": "default"},
            "spec": spec,
        }
        refused = cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(bad), ok=False)
        assert refused.returncode != 0, spec
        assert said in refused.stderr, spec
    # without strict validation unknown fields are pruned, with a warning
    loose = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "loose", "namespace": "default"},
        "spec": {"size": 1, "extra": 1},
    }
    warned = cluster.kubectl("create", "--validate=warn", "-f", "-", stdin=yaml.safe_dump(loose))
    assert "unknown field" in warned.stderr
    assert "extra" not in cluster.get("widgets", "loose")["spec"]
    cluster.helm("uninstall", "crd", "-n", "default")
    assert cluster.kubectl("get", "crd", "widgets.example.com").returncode == 0  # helm keeps definitions
    cluster.kubectl("delete", "crd", "widgets.example.com")
    assert cluster.kubectl("get", "widgets", ok=False).returncode != 0
