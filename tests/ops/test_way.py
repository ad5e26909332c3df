from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.orchestrators.eks.way import way
from hyperpod_ray.ops.reach import clients, tunnel
from tests.ops.ops_clients_helpers import Account, Server
from tests.ops.world import environment_text


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, no kubeconfig, no way to the endpoint."""
    monkeypatch.setattr(clients, "ApiServer", Server)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(tunnel, "reachable", lambda host, port: False)


@pytest.mark.parametrize(
    ("account", "answers", "plugin", "result", "what"),
    [
        (Account(public=True), False, False, "ok", "its endpoint is public"),
        (Account(public=False), True, False, "ok", "answers from here"),
        (Account(public=False), False, True, "ok", "private: commands open a tunnel by session-manager-plugin"),
        (Account(public=False), False, False, "warning", "'session-manager-plugin' is not installed"),
        (
            Account(ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": ""}}, "DescribeCluster")),
            False, False, "skipped", "the deployment creates the cluster",
        ),
    ],
)  # fmt: skip
def test_the_way_to_the_kubernetes_api(  # noqa: PLR0917
    monkeypatch: pytest.MonkeyPatch, account: Account, answers: bool, plugin: bool, result: str, what: str
) -> None:
    monkeypatch.setattr(tunnel, "reachable", lambda host, port: answers)
    if plugin:
        monkeypatch.setattr(tunnel, "require_plugin", lambda: "session-manager-plugin")
    else:
        monkeypatch.setenv("PATH", "")
    target = clients.Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    target.aws = account  # type: ignore[assignment]
    (outcome,) = way(target)
    assert outcome.result == result
    assert what in outcome.what
    assert bool(outcome.fix) is (result == "warning")


def test_a_refusal_on_the_way_is_not_taken_for_absence() -> None:
    target = clients.Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "DescribeCluster")
    target.aws = Account(denied)  # type: ignore[assignment]
    with pytest.raises(ClientError):
        way(target)
