"""The same requests as a real API server, and the same verdicts; against another server where one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.api_server_folder import has_controllers
from hyperpod_ray_sandbox.kubernetes import envtest
from hyperpod_ray_sandbox.kubernetes.conformance.runner import Case, Client, cases, clean, prepare, run

CASES = list(cases())


def announced(client: Client, request: pytest.FixtureRequest) -> Client:
    """Make what the cases need, and write which server is judged, also where nothing fails."""
    prepare(client)
    request.config.get_terminal_writer().line(f"\nconformance: {len(CASES)} requests to {client.server()}")
    return client


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Ours; CONFORMANCE_KUBECONFIG or KUBEBUILDER_ASSETS name another."""
    named, assets = os.environ.get("CONFORMANCE_KUBECONFIG"), os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        client = announced(Client.of(Path(named)), request)
        yield client
        clean(client)
    elif assets:
        with envtest.started(Path(assets), tmp_path_factory.mktemp("envtest")) as kubeconfig:
            yield announced(Client.of(kubeconfig), request)
    else:
        cluster: Any = request.getfixturevalue("cluster")
        yield announced(Client.of(Path(cluster.server["kubeconfig"])), request)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_verdict(case: Case, server: Client) -> None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    own = assets and not os.environ.get("CONFORMANCE_KUBECONFIG")
    if case.controllers and own and not has_controllers(Path(assets or "")):
        pytest.skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS has not")
    assert not run(server, case)


def test_the_server_that_is_judged_is_named(server: Client) -> None:
    said = server.server()
    assert server.url in said
    if not os.environ.get("CONFORMANCE_KUBECONFIG") and not os.environ.get("KUBEBUILDER_ASSETS"):
        assert said.startswith("the embedded API v1.")


def test_the_page_counts_what_a_server_answered() -> None:
    """Cases that hold less than a server's whole answer are weaker evidence, and the page says how many there are."""
    page = " ".join((Path(__file__).parents[3] / "docs" / "embedded-aws.md").read_text().split())
    answered = sum(case.name.startswith(("recorded: ", "families: ", "judged: ")) for case in CASES)
    assert f"Of its {len(CASES)} cases, {answered} hold the answer of a real 1.36.2 API server" in page
    assert f"The other {len(CASES) - answered} follow Kubernetes' source" in page
