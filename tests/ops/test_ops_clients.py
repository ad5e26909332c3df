"""What is asked of the Kubernetes API and of AWS, by the rules of the two: paging, deletion, patches, credentials."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core import SlurmFile
from hyperpod_ray.core.loader import parse, parse_any
from hyperpod_ray.ops.errors import ApiError, OpsError, explain
from hyperpod_ray.ops.reach import clients, tunnel
from hyperpod_ray.ops.reach.kubeconfig import Credential
from tests.ops.ops_clients_helpers import AUTHORITY, KUBECONFIG, PLAN, URL, Account, Json, Server
from tests.ops.world import ACCOUNT, ROOT, environment_text

REACHABLE = tunnel.reachable


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, no kubeconfig, no way to the endpoint."""
    monkeypatch.setattr(clients, "ApiServer", Server)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(tunnel, "reachable", lambda host, port: False)


def kubernetes(*answers: Any, account: Account | None = None, mode: tunnel.Mode = "auto") -> Any:
    api = clients.Kubernetes(PLAN, account or Account(), mode=mode)  # type: ignore[arg-type]
    api.api.answers = list(answers)  # type: ignore[attr-defined]
    return api


def refused(status: int) -> ApiError:
    return ApiError(status=status, reason="no")


# --- requests --------------------------------------------------------------------------------------------------------


def page(*names: str, token: str = "") -> Json:
    return {"metadata": {"continue": token} if token else {}, "items": [{"metadata": {"name": n}} for n in names]}


def test_a_listing_is_read_to_its_end() -> None:
    """https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks"""
    api = kubernetes(page("a", "b", token="T1"), page("c", token="T2"), page("d"))
    listed = api.items("/api/v1/pods", labels="ray.io/cluster=ray", fields="status.phase=Running")
    assert [pod["metadata"]["name"] for pod in listed] == ["a", "b", "c", "d"]
    queries = [query for _, _, query, _, _ in api.api.sent]
    assert [query.get("continue") for query in queries] == [None, "T1", "T2"]
    # the API server wants the same selectors with each token
    same = {"limit": 500, "labelSelector": "ray.io/cluster=ray", "fieldSelector": "status.phase=Running"}
    assert all({**query, "continue": ""} == {**same, "continue": ""} for query in queries)
    assert {method for method, *_ in api.api.sent} == {"GET"}
    bare = kubernetes({"metadata": None, "items": None})
    assert bare.items("/api/v1/pods") == []
    assert bare.api.sent[0][2] == {"limit": 500}


def test_a_listing_that_the_server_has_forgotten_begins_again() -> None:
    """410: the token is older than what etcd keeps. What was read before is not counted twice."""
    api = kubernetes(page("a", token="T1"), refused(410), page("b", token="T2"), page("c"))
    assert [pod["metadata"]["name"] for pod in api.items("/api/v1/pods")] == ["b", "c"]
    assert [query.get("continue") for _, _, query, _, _ in api.api.sent] == [None, "T1", None, "T2"]
    always = kubernetes(*[page("a", token="T"), refused(410)] * 10)
    with pytest.raises(ApiError):
        always.items("/api/v1/pods")
    assert len(always.api.sent) == 2 * (1 + clients.RESTARTS)
    with pytest.raises(ApiError):
        kubernetes(refused(410), page("a")).items("/api/v1/pods")
    for status in (403, 404, 500):
        with pytest.raises(ApiError):
            kubernetes(page("a", token="T"), refused(status), page("b")).items("/api/v1/pods")


def test_a_deletion_says_what_becomes_of_dependents() -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/delete-options/"""
    path = "/apis/ray.io/v1/namespaces/ray/rayjobs/first"
    api = kubernetes({"kind": "Status"}, {"kind": "Status"})
    assert api.delete(path) is True
    assert api.delete(path, propagation="Background") is True
    assert [(method, to, body) for method, to, _, _, body in api.api.sent] == [
        ("DELETE", path, {"propagationPolicy": "Foreground"}),
        ("DELETE", path, {"propagationPolicy": "Background"}),
    ]
    assert kubernetes(refused(404)).delete(path) is False
    for status in (403, 409, 500):
        with pytest.raises(ApiError):
            kubernetes(refused(status)).delete(path)


def test_a_patch_is_a_merge_patch_and_everything_else_is_json() -> None:
    """https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/"""
    api = kubernetes({"kind": "Node"}, b"", {"a": 1}, "line \xff".encode("latin-1"))
    assert api.patch("/api/v1/nodes/n", {"spec": {"taints": []}}) == {"kind": "Node"}
    assert api.request("POST", "/api/v1/x", query={"dryRun": "All"}, body={"b": 2}) == {}
    assert api.request("GET", "/api/v1/x") == {"a": 1}
    assert api.text("/api/v1/log", query={"tailLines": 5}) == "line \N{REPLACEMENT CHARACTER}"
    patch, post, get, text = api.api.sent
    assert patch[0] == "PATCH"
    assert patch[3] == {"Accept": "application/json", "Content-Type": "application/merge-patch+json"}
    assert patch[4] == {"spec": {"taints": []}}
    assert post[2:] == ({"dryRun": "All"}, {"Accept": "application/json", "Content-Type": "application/json"}, {"b": 2})
    assert (get[2], get[4]) == ({}, None)
    assert (text[0], text[2], text[3]) == ("GET", {"tailLines": 5}, {"Accept": "*/*"})


@pytest.mark.parametrize("status", [400, 403, 404, 409, 500, 502])
@pytest.mark.parametrize("body", ["", "{}", "[]", "<html>bad gateway</html>", '{"message": "pods is forbidden"}'])
def test_a_refusal_is_one_sentence_whatever_its_body(status: int, body: str) -> None:
    """A load balancer or a proxy in between answers without the `Status` of the API server."""
    failure = explain(ApiError(status=status, reason="no", body=body), environment="demo")
    assert failure is not None
    assert ("pods is forbidden" if "forbidden" in body else "no") in failure.message


# --- the way ---------------------------------------------------------------------------------------------------------


def test_the_clusters_own_address_and_authority_are_used() -> None:
    api = kubernetes()
    assert (api.api.server, api.api.options) == (URL, {"authority": AUTHORITY})
    assert (api.cluster_name, api.tunnel) == (PLAN.eks_cluster_name, None)
    bare = kubernetes(account=Account({"endpoint": URL, "status": "ACTIVE"}))
    assert bare.api.options == {"authority": ""}


@pytest.mark.parametrize(
    ("answer", "says", "fix"),
    [
        (
            ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "DescribeCluster"),
            r"does not exist\. Expected the environment to be deployed",
            "hyperpod-ray deploy demo",
        ),
        ({"status": "CREATING"}, "is CREATING and has no endpoint yet", "hyperpod-ray wait demo --for cluster"),
    ],
)
def test_a_cluster_that_is_not_there_yet_says_what_to_do(answer: Any, says: str, fix: str) -> None:
    with pytest.raises(OpsError, match=says) as failure:
        kubernetes(account=Account(answer))
    assert failure.value.fix == fix


def test_another_refusal_of_eks_is_not_taken_for_absence() -> None:
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster")
    with pytest.raises(ClientError):
        kubernetes(account=Account(denied))


def test_a_token_is_used_for_ten_minutes_and_renewed_when_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """EKS's tokens live 15 minutes. https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html"""
    asked: list[Json] = []
    now = [1000.0]

    def token(session: Any, **about: Any) -> str:
        assert session.name == "session"
        asked.append(about)
        return f"token-{len(asked)}"

    monkeypatch.setattr(clients, "eks_token", token)
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: now[0]))
    credential = kubernetes().api.credential

    def bearer(**options: Any) -> str:
        who: Credential = credential(**options)
        return who.headers["Authorization"]

    assert [bearer(), bearer()] == ["Bearer token-1"] * 2
    assert asked == [{"cluster_name": PLAN.eks_cluster_name, "region": "us-west-2"}]
    now[0] += 9 * 60
    assert bearer() == "Bearer token-1"
    now[0] += 2 * 60
    assert bearer() == "Bearer token-2", "an older one may end in the middle of a command"
    assert bearer(renewed=True) == "Bearer token-3"


class Opened:
    """Stands for `Tunnel`."""

    port = 4711

    def __init__(self, aws: Any, **options: Any) -> None:
        self.aws, self.options, self.opened = aws, options, 0

    def open(self) -> Opened:
        self.opened += 1
        return self


@pytest.mark.parametrize(
    ("mode", "public", "answers", "tunnelled"),
    [
        ("auto", True, False, False),
        ("auto", False, False, True),
        ("auto", False, True, False),
        ("never", False, False, False),
        ("always", True, True, True),
    ],
)
def test_a_tunnel_is_opened_where_nothing_else_leads_there(
    monkeypatch: pytest.MonkeyPatch, mode: tunnel.Mode, public: bool, answers: bool, tunnelled: bool
) -> None:
    addresses: list[tuple[str, int]] = []

    def reachable(host: str, port: int) -> bool:
        addresses.append((host, port))
        return answers

    monkeypatch.setattr(tunnel, "reachable", reachable)
    monkeypatch.setattr(tunnel, "Tunnel", Opened)
    account = Account(public=public)
    api = kubernetes(account=account, mode=mode)
    host = URL.removeprefix("https://").lower()
    assert addresses in ([], [(host, 443)])
    assert (api.tunnel is not None) is tunnelled
    assert api.api.way == ("https://127.0.0.1:4711" if tunnelled else "")
    if tunnelled:
        assert account.checked == 1, "no session is started in another account"
        assert api.tunnel.opened == 1
        about = {key: api.tunnel.options[key] for key in ("host", "port", "region", "reason")}
        assert about == {"host": host, "port": 443, "region": "us-west-2", "reason": "hyperpod-ray demo"}


def test_a_kubeconfig_is_used_for_this_cluster_and_refused_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(file))
    file.write_text(KUBECONFIG.format(server=URL + "/"))
    api = kubernetes(account=Account(public=False))
    assert api.api.server == URL
    assert api.api.options == {
        "authority": "", "insecure": False, "tls_server_name": "other", "proxy": "http://proxy:3128"
    }  # fmt: skip
    assert api.api.credential().headers == {"Authorization": "Bearer secret"}
    assert api.tunnel is None, "its proxy is the way"
    file.write_text(KUBECONFIG.format(server="https://other"))
    with pytest.raises(OpsError, match=r"current context is https://other\. Expected the environment's cluster") as no:
        kubernetes()
    assert no.value.fix.endswith(f"aws eks update-kubeconfig --name {PLAN.eks_cluster_name} --region us-west-2")


# --- AWS -------------------------------------------------------------------------------------------------------------


class Session:
    """Stands for a boto3 session: keeps the clients that were made."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requested: list[tuple[str, Json]] = []
        self.paged: list[Json] = []

    def client(self, service: str, **options: Any) -> Any:
        self.requested.append((service, options))
        calls = {name: mock.Mock(return_value=answer) for name, answer in self.answers.items()}
        return SimpleNamespace(get_paginator=self._paginator, **calls)

    def _paginator(self, operation: str) -> Any:
        def paginate(**arguments: Any) -> Any:
            self.paged.append(arguments)
            return self.answers[operation]

        return SimpleNamespace(paginate=paginate)


def aws(**answers: Any) -> tuple[clients.Aws, Session]:
    account, session = clients.Aws(PLAN), Session(**answers)
    account.__dict__["session"] = session
    return account, session


def test_a_client_is_made_once_for_each_region_and_gives_up_in_time() -> None:
    account, session = aws()
    assert account.client("fsx") is account.client("fsx")
    assert account.client("pricing", region="us-east-1") is not account.client("pricing")
    assert [(service, options["region_name"]) for service, options in session.requested] == [
        ("fsx", None),
        ("pricing", "us-east-1"),
        ("pricing", None),
    ]
    config = session.requested[0][1]["config"]
    assert 1 <= config.connect_timeout <= 60
    assert 1 <= config.read_timeout <= 60, "botocore waits a minute by default"
    # https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html
    assert config.retries["mode"] == "adaptive"
    assert 2 <= config.retries["total_max_attempts"] <= 10
    assert config.user_agent_extra.endswith("-ops")


def test_a_listing_takes_all_pages_or_as_many_as_asked() -> None:
    pages: list[dict[str, Any]] = [{"Groups": [1, 2]}, {}, {"Groups": [3]}, {"Groups": [4, 5]}]

    def listed(service: str, operation: str, **options: Any) -> list[Any]:
        return account.pages(service, operation, "Groups", **options)

    account, session = aws(describe_groups=pages, list_clusters=pages)
    assert listed("ec2", "describe_groups", Filters=[]) == [1, 2, 3, 4, 5]
    assert listed("ec2", "describe_groups", limit=3) == [1, 2, 3]
    assert listed("ec2", "describe_groups", limit=1) == [1]
    assert listed("sagemaker", "list_clusters") == [1, 2, 3, 4, 5]
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListClusterNodes.html: 100 at most
    assert session.paged == [{"Filters": []}, {}, {}, {"PaginationConfig": {"PageSize": 100}}]


def test_another_account_is_refused_before_anything_else() -> None:
    account, _ = aws(get_caller_identity={"Account": ACCOUNT, "Arn": "arn:aws:iam::000000000001:user/me"})
    assert account.require_account() == "arn:aws:iam::000000000001:user/me"
    other, _ = aws(get_caller_identity={"Account": "210987654321", "Arn": "arn"})
    with pytest.raises(OpsError, match=f"belong to account 210987654321. Expected {ACCOUNT}, the account of") as no:
        other.require_account()
    assert "AWS_PROFILE" in no.value.fix


def test_a_session_is_of_the_environments_region() -> None:
    assert clients.Aws(PLAN).session.region_name == "us-west-2"


def test_commands_to_copy_name_the_folder_and_are_quoted() -> None:
    file = parse(environment_text(), name="demo", path=Path("demo.yaml"))
    plain, elsewhere = clients.Target(file), clients.Target(file, folder=Path("my files"))
    assert plain.command("wait", "--for", "a b") == "hyperpod-ray wait demo --for 'a b'"
    assert elsewhere.command("wait") == "hyperpod-ray --environments 'my files' wait demo"
    assert elsewhere.deploy_command == "hyperpod-ray --environments 'my files' deploy demo"
    assert clients.Target(file, mode="never").again().mode == "never", "the way stays the one that was asked for"
    again = elsewhere.again()
    assert (again.name, again.folder, again is elsewhere) == ("demo", Path("my files"), False)
    assert again.aws is not elsewhere.aws, "fresh clients"


def test_an_environment_on_slurm_begins_again_in_its_folder() -> None:
    text = (ROOT / "environments" / "examples" / "slurm.yaml").read_text(encoding="utf-8")
    file = parse_any(text, name="slurm", path=Path("slurm.yaml"))
    assert isinstance(file, SlurmFile)
    target = clients.SlurmTarget(file, folder=Path("mine"))
    again = target.again()
    assert (again.name, again.folder, again.plan) == ("slurm", Path("mine"), target.plan)
    assert again.aws is not target.aws
    assert again.deploy_command == "hyperpod-ray --environments mine deploy slurm"


def test_the_kubernetes_api_of_a_target_takes_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    file = parse(environment_text(), name="demo", path=Path("demo.yaml"))
    target = clients.Target(file, mode="always")
    account = Account()
    target.aws = account  # type: ignore[assignment]
    monkeypatch.setattr(tunnel, "Tunnel", Opened)
    assert target.kubernetes is target.kubernetes
    assert target.kubernetes.tunnel is not None
    account.answer = ClientError({"Error": {"Code": "ExpiredToken", "Message": "no"}}, "DescribeCluster")
    again = target.again()
    again.aws = account  # type: ignore[assignment]
    with pytest.raises(OpsError):
        _ = again.kubernetes


# --- the way, as `preflight` says it ---------------------------------------------------------------------------------


def test_an_address_is_reachable_where_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert REACHABLE("127.0.0.1", port) is True
    assert REACHABLE("127.0.0.1", port) is False
