"""The same requests as a real API server, and the same verdicts; against another server where one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.kubernetes import envtest
from sandbox.kubernetes.conformance.runner import Case, Client, cases, clean, prepare, run

CASES = list(cases())


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Ours; CONFORMANCE_KUBECONFIG or KUBEBUILDER_ASSETS name another."""
    named, assets = os.environ.get("CONFORMANCE_KUBECONFIG"), os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        client = Client.of(Path(named))
        prepare(client)
        yield client
        clean(client)
    elif assets:
        with envtest.started(Path(assets), tmp_path_factory.mktemp("envtest")) as kubeconfig:
            client = Client.of(kubeconfig)
            prepare(client)
            yield client
    else:
        cluster: Any = request.getfixturevalue("cluster")
        client = Client.of(Path(cluster.server["kubeconfig"]))
        prepare(client)
        yield client


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_verdict(case: Case, server: Client) -> None:
    if case.controllers and os.environ.get("KUBEBUILDER_ASSETS") and not os.environ.get("CONFORMANCE_KUBECONFIG"):
        pytest.skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS has not")
    assert not run(server, case)
