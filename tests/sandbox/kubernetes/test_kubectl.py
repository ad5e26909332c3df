"""The real kubectl, in the ways CDK's kubectl handler calls it and a person does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox.kubernetes.kubectl_helpers import Json, config_map, deployment, namespace

pytestmark = pytest.mark.emulator


def test_what_the_kubectl_handler_runs(cluster: Any, tmp_path: Any) -> None:
    """`create --save-config`, `apply --prune -l`, `patch`, `get -o jsonpath`, `delete`: objects as `{…}{…}`, as it
    writes them.
    """
    label = {"aws.cdk.eks/prune-c8": ""}
    manifest = tmp_path / "manifest.yaml"

    def write(*objects: Json) -> None:
        manifest.write_text("".join(json.dumps(o) for o in objects))

    write(
        namespace("handler"),
        config_map("stays", "handler", label, a="1"),
        config_map("goes", "handler", label),
        deployment("web", "handler", label),
    )
    cluster.kubectl("create", "-f", str(manifest), "--save-config")
    twice = cluster.kubectl("create", "-f", str(manifest), "--save-config", ok=False)
    assert "AlreadyExists" in twice.stderr
    write(
        namespace("handler"),
        config_map("stays", "handler", label, a="2"),
        deployment("web", "handler", label, image="i:2"),
    )
    updated = cluster.kubectl("apply", "-f", str(manifest), "--prune", "-l", "aws.cdk.eks/prune-c8")
    assert "configmap/goes pruned" in updated.stdout
    assert cluster.get("cm", "-n", "handler", "stays")["data"] == {"a": "2"}
    read = cluster.kubectl(
        "get", "-n", "handler", "deployment", "web", "-o=jsonpath='{.spec.template.spec.containers[0].image}'"
    )
    assert read.stdout == "'i:2'"
    cluster.kubectl("patch", "deployment/web", "-n", "handler", "-p", '{"spec":{"replicas":2}}', "--type", "strategic")
    cluster.kubectl("rollout", "status", "-n", "handler", "deployment/web", "--timeout=600s")
    # the namespace goes first and takes the rest along, so kubectl may find the rest gone; the handler swallows that
    # and then does not wait for the namespace itself
    cluster.kubectl("delete", "-f", str(manifest), ok=False)
    cluster.until(
        lambda: cluster.get("ns", "--field-selector=metadata.name=handler")["items"] == [], "the namespace goes"
    )
    assert cluster.get("deploy,rs,pods,cm", "-n", "handler")["items"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": None}, "spec.template.spec.containers[0].image: Required value"),
        ({"bogus": 1}, 'unknown field "spec.template.spec.containers[0].bogus"'),
        ({"env": {"a": "b"}}, "cannot unmarshal object"),
        ({"resources": {"limits": {"memory": "4 GB"}}}, "quantities must match"),
        ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, "must be less than or equal to cpu limit"),
        ({"resources": {"requests": {"nvidia.com/gpu": 1}}}, "Limit must be set for non overcommitable resources"),
        ({"volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}, 'Not found: "nowhere"'),
        ({"name": "Not_A_Name"}, "RFC 1123 label"),
    ],
)
def test_bad_objects_are_refused_as_the_api_server_does(cluster: Any, change: Json, said: str) -> None:
    bad = deployment("bad", "default")
    bad["spec"]["template"]["spec"]["containers"][0] |= change
    refused = cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(bad), ok=False)
    assert refused.returncode != 0
    assert said in refused.stderr
    assert cluster.kubectl("get", "deploy", "bad", ok=False).returncode != 0


def test_other_refusals(cluster: Any) -> None:
    def apply(obj: Json) -> str:
        return str(cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(obj), ok=False).stderr)

    bad = deployment("bad", "default")
    bad["spec"]["selector"]["matchLabels"] = {"app": "other"}
    assert "`selector` does not match template `labels`" in apply(bad)
    assert 'namespaces "nowhere" not found' in apply(config_map("c", "nowhere"))
    assert 'no matches for kind "Widget"' in apply(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    # `kubectl apply` drops nulls before it sends them, `create` does not: the server reads them as absent
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(deployment("null", "default", env=None)))
    assert "env" not in cluster.get("deployment", "null")["spec"]["template"]["spec"]["containers"][0]
    cluster.kubectl("delete", "deployment", "null")
    assert "label must be an empty string" in apply(config_map("c", "default", {"a": "not valid!"}))


def test_dry_run_writes_nothing_and_generate_name_names(cluster: Any) -> None:
    text = yaml.safe_dump(config_map("dry", "default"))
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert cluster.kubectl("get", "cm", "dry", ok=False).returncode != 0
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-", "namespace": "default"}}
    names = {
        cluster.kubectl("create", "-f", "-", "-o", "name", stdin=yaml.safe_dump(made)).stdout.strip() for _ in range(3)
    }
    assert len(names) == 3
    assert all(n.startswith("configmap/made-") for n in names)
    cluster.kubectl("delete", *names)


@pytest.mark.slow
def test_a_service_accounts_token_is_judged_by_its_rights(cluster: Any) -> None:
    """It counts for the account that it was issued for, and for no later one of the same name."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one", "namespace": "tokens"}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "one", "namespace": "tokens"},
        "roleRef": reference,
        "subjects": [{"kind": "ServiceAccount", "name": "one", "namespace": "tokens"}],
    }
    request = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    path = "/api/v1/namespaces/tokens/serviceaccounts/{}/token"
    cluster.apply(namespace("tokens"), account)
    given = cluster.kubectl("create", "--raw", path.format("one"), "-f", "-", stdin=request).stdout
    token = json.loads(given)["status"]["token"]

    def pods(given: str = token) -> Any:
        return cluster.kubectl("--kubeconfig", str(bare), "--token", given, "get", "pods", "-n", "tokens", ok=False)

    config = yaml.safe_load(Path(cluster.server["kubeconfig"]).read_text())
    config["users"][0]["user"] = {}
    bare = cluster.state / "bare"
    bare.write_text(yaml.safe_dump(config))
    refused = pods()
    assert 'User "system:serviceaccount:tokens:one" cannot list resource "pods"' in refused.stderr
    cluster.apply(binding)
    assert pods().returncode == 0
    assert pods(f"{token[:-2]}xx").returncode != 0, "a signature of its own"
    cluster.kubectl("delete", "serviceaccount", "one", "-n", "tokens")
    assert pods().returncode != 0
    cluster.apply(account)
    assert pods().returncode != 0
    unknown = cluster.kubectl("create", "--raw", path.format("two"), "-f", "-", stdin=request, ok=False)
    assert 'serviceaccounts "two" not found' in unknown.stderr
