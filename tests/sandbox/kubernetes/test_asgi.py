"""HTTP: the form of a list, and a subresource that is not there."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest

pytestmark = pytest.mark.emulator


def test_no_containers(cluster: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
           "spec": {"containers": [{"name": "c", "image": "i:1"}]}}  # fmt: skip
    cluster.apply(pod)
    for command in (["logs", "p", "--tail=1"], ["exec", "p", "--pod-running-timeout=30s", "--", "true"]):
        refused = cluster.kubectl(*command, ok=False)
        assert refused.returncode != 0, command
    context = ssl.create_default_context(cafile=cluster.server["ca_file"])
    request = urllib.request.Request(  # noqa: S310
        cluster.server["url"] + "/api/v1/namespaces/default/pods/p/log",
        headers={"Authorization": f"Bearer {cluster.server['token']}"},
    )
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, context=context)  # noqa: S310
    assert refusal.value.code == 501
    assert "no containers" in json.loads(refusal.value.read())["message"]
    cluster.kubectl("delete", "pod", "p", "--now")


def test_a_list_says_its_kind_once_as_a_real_server_does(cluster: Any) -> None:
    """Items of Kubernetes' own kinds have neither kind nor apiVersion; those of custom resources have both."""
    own = json.loads(cluster.kubectl("get", "--raw", "/api/v1/namespaces").stdout)
    assert own["kind"] == "NamespaceList"
    assert own["items"]
    assert not any({"kind", "apiVersion"} & set(item) for item in own["items"])
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.list.example.com"},
        "spec": {"group": "list.example.com", "scope": "Cluster",
                 "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }  # fmt: skip
    cluster.apply(definition)
    cluster.apply({"apiVersion": "list.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}})
    (thing,) = json.loads(cluster.kubectl("get", "--raw", "/apis/list.example.com/v1/things").stdout)["items"]
    assert (thing["apiVersion"], thing["kind"]) == ("list.example.com/v1", "Thing")
