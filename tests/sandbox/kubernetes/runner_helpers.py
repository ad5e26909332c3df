"""What tests of single requests share: a client of the server, and what it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step

MAPS = "/api/v1/namespaces/harm/configmaps"


@pytest.fixture(scope="module")
def client(cluster: Any) -> Client:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    assert client.send(Step("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": "harm"}})))[0] == 201
    return client


def sent(client: Client, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
    return client.send(Step(method, path, json.dumps(body) if body is not None else "", content_type))
