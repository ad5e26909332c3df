"""`hyperpod-ray local conformance`: what it prints and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step, cases
from hyperpod_ray_sandbox.kubernetes.resources import builtin_resources


def test_no_server_is_bad_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["local", "conformance"]) == 2
    assert "--kubeconfig" in capsys.readouterr().err


def objects(client: Client) -> dict[str, str]:
    """Each object of the server but events and leases, by kind and name: its content without its version."""
    listed = {}
    definitions = {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}
    collections = {
        f"/apis/{one.api_version}/{one.plural}" if one.group else f"/api/{one.version}/{one.plural}"
        for one in builtin_resources()
        if "list" in one.verbs and one.plural not in ("events", "leases")
    }
    for path in sorted(collections | definitions):
        code, answer = client.send(Step("GET", path, ""))
        assert code == 200, path
        for obj in answer["items"]:
            metadata = obj["metadata"]
            listed[f"{path} {metadata.get('namespace', '')}/{metadata['name']}"] = json.dumps(
                [obj.get("spec"), metadata.get("labels"), obj.get("globalDefault"), obj.get("parameters")]
            )
    return listed


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["embedded", "of a person"])
def test_nothing_is_left_behind(
    cluster: Any, shared: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every object of the server before and after the whole list: the same ones, unchanged."""
    client = Client.of(Path(cluster.server["kubeconfig"]))
    monkeypatch.setattr(Client, "embedded", property(lambda _: not shared))
    defaults: list[str] = []
    sent = Client._sent

    def watched(self: Client, step: Step) -> tuple[int, Any]:
        answer = sent(self, step)
        if answer[0] == 201 and '"globalDefault": true' in step.body:
            defaults.append(step.path)
        return answer

    before = objects(client)
    monkeypatch.setattr(Client, "_sent", watched)
    assert main(["local", "conformance", "--kubeconfig", str(cluster.server["kubeconfig"])]) == 0
    said = capsys.readouterr().out
    assert objects(client) == before
    assert ("2 not sent: they would change other people's objects" in said) is shared
    assert bool(defaults) is not shared, "a default PriorityClass reaches everybody's next pods"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "obj"),
    [
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bad-quota"}}),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "sca"},
                "provisioner": "ebs.csi.aws.com",
            },
        ),
    ],
)
def test_an_object_of_somebody_else_is_refused_and_stays(
    cluster: Any, path: str, obj: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    assert client.send(Step("POST", path, json.dumps(obj)))[0] == 201
    before = objects(client)
    try:
        assert main(["local", "conformance", "--kubeconfig", str(cluster.server["kubeconfig"])]) == 2
        said = capsys.readouterr().err
        assert f"{obj['kind']} {obj['metadata']['name']} is there already" in said
        assert objects(client) == before
    finally:
        mine = f"{path}/{obj['metadata']['name']}"
        client.send(Step("DELETE", mine, ""))
        # a namespace goes a moment later, and the next test compares what is there
        cluster.until(lambda: client.send(Step("GET", mine, ""))[0] == 404, "gone")


@pytest.mark.slow
def test_an_object_of_a_cases_name_is_left_as_it_is(cluster: Any) -> None:
    """A case that changes what it created would change somebody's object of the same name."""
    client = Client.of(Path(cluster.server["kubeconfig"]))
    case = next(case for case in cases() if case.name.endswith("StorageClass mountOptions change"))
    path = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "scm"},
            "provisioner": "ebs.csi.aws.com", "mountOptions": ["ro"]}  # fmt: skip
    assert client.send(Step("POST", path, json.dumps(body)))[0] == 201
    from hyperpod_ray_sandbox.kubernetes.conformance.runner import run

    assert "left as it is" in run(client, case)
    assert client.send(Step("GET", f"{path}/scm", ""))[1]["mountOptions"] == ["ro"]
    client.send(Step("DELETE", f"{path}/scm", ""))
