from __future__ import annotations

import base64
import datetime
import json
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import kubeconfig
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.kubeconfig import Credential, Kubeconfig, tls_context
from tests.ops.api_server_helpers import Answering, Json


def config(
    folder: Path,
    *,
    cluster: Json | None = None,
    user: Json | None = None,
    name: str = "config",
    current: str = "c",
    **more: Any,
) -> str:
    content = {
        "current-context": current,
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://api.example.com/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    (folder / name).write_text(yaml.safe_dump({**content, **more}))
    return str(folder / name)


def plugin(folder: Path, text: str, **more: Any) -> Json:
    """A user whose credential comes from a program beside the kubeconfig."""
    (folder / "plugin").write_text(f"#!{sys.executable}\nimport json, os, sys\n{text}")
    (folder / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "./plugin", **more}}


COUNTING = """
count = len(open(sys.argv[1]).read()) if os.path.exists(sys.argv[1]) else 0
open(sys.argv[1], "a").write("x")
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{os.environ['PREFIX']}-{count}", **({"expirationTimestamp": sys.argv[2]} if sys.argv[2:] else {})}
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


def bearer(config: Kubeconfig, **options: Any) -> str:
    return config.credential(**options).headers["Authorization"]


def test_a_plugin_is_asked_once_while_its_token_is_good(tmp_path: Path) -> None:
    user = plugin(
        tmp_path, COUNTING, args=[str(tmp_path / "n"), "2999-01-01T00:00:00Z"], env=[{"name": "PREFIX", "value": "t"}]
    )
    read = Kubeconfig(config(tmp_path, user=user))
    assert [bearer(read), bearer(read), bearer(read, renewed=True), bearer(read)] == [
        "Bearer t-0", "Bearer t-0", "Bearer t-1", "Bearer t-1",
    ]  # fmt: skip


@pytest.mark.parametrize("until", ["2001-01-01T00:00:00Z", "2001-01-01T00:00:00+09:00"])
def test_a_plugin_is_asked_again_when_its_token_expires(tmp_path: Path, until: str) -> None:
    user = plugin(tmp_path, COUNTING, args=[str(tmp_path / "n"), until], env=[{"name": "PREFIX", "value": "t"}])
    read = Kubeconfig(config(tmp_path, user=user))
    assert [bearer(read), bearer(read)] == ["Bearer t-0", "Bearer t-1"]


def test_a_server_that_no_longer_knows_the_token_gets_a_new_one(tmp_path: Path, plain: Answering) -> None:
    user = plugin(tmp_path, COUNTING, args=[str(tmp_path / "n")], env=[{"name": "PREFIX", "value": "t"}])
    read = Kubeconfig(config(tmp_path, user=user))
    plain.statuses = [401, 200]
    api = ApiServer(plain.url, read.credential)
    assert json.loads(api.send("GET", "/api", query={}, headers={})) == {"message": "said 200"}
    assert [asked["headers"]["Authorization"] for asked in plain.asked] == ["Bearer t-0", "Bearer t-1"]


def test_certificates_tokens_and_files_beside_the_kubeconfig(tmp_path: Path, certificates: Path) -> None:
    for file in ("ca", "client", "key"):
        (tmp_path / f"{file}.pem").write_bytes((certificates / f"{file}.pem").read_bytes())
    (tmp_path / "token").write_text("from-a-file\n")
    user = {"client-certificate": "client.pem", "client-key": "key.pem", "tokenFile": "token", "token": "older"}
    read = Kubeconfig(config(tmp_path, cluster={"certificate-authority": "ca.pem"}, user=user))
    assert read.authority.startswith("-----BEGIN CERTIFICATE")
    credential = read.credential()
    assert credential.headers == {"Authorization": "Bearer from-a-file"}
    assert "BEGIN CERTIFICATE" in credential.certificate
    assert "BEGIN PRIVATE KEY" in credential.key
    assert "PRIVATE" not in repr(credential)
    (tmp_path / "token").write_text("renewed")
    assert bearer(read) == "Bearer renewed"


def test_several_files_are_one_and_the_first_has_its_way(tmp_path: Path) -> None:
    first = config(tmp_path, user={"token": "first"}, name="first", clusters=[])
    second = config(tmp_path, user={"token": "second"}, name="second", current="other")
    read = Kubeconfig(f"{tmp_path}/absent:{first}:{second}")
    assert (read.server, bearer(read)) == ("https://api.example.com", "Bearer first")


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({"username": "jane", "password": "p:w"}, {"Authorization": f"Basic {base64.b64encode(b'jane:p:w').decode()}"}),
        (
            {"token": "t", "as": "system:masters", "as-groups": ["g"]},
            {"Authorization": "Bearer t", "Impersonate-User": "system:masters", "Impersonate-Group": "g"},
        ),
        (None, {}),
    ],
)
def test_who_asks(tmp_path: Path, user: Json | None, headers: Json) -> None:
    assert Kubeconfig(config(tmp_path, user=user)).credential().headers == headers


V1 = "client.authentication.k8s.io/v1"
UNSET = "unset KUBECONFIG to use the environment's own cluster"
CORRECT = f"correct it, or {UNSET}"
ABOVE = f"do what its message above names, or {UNSET}"
WRONG: list[tuple[Json, str, str, str]] = [
    ({"user": {"auth-provider": {"name": "gcp"}}}, "user 'u' has an auth-provider",
     "an exec plugin, which took its place", CORRECT),
    ({"user": {"as": "x", "as-groups": ["a", "b"]}}, "it impersonates more than a user and a group",
     "`as` and one entry of `as-groups`", CORRECT),
    ({"user": {"as": "x", "as-uid": "7"}}, "it impersonates more than a user and a group",
     "`as` and one entry of `as-groups`", CORRECT),
    ({"user": {"as": "x", "as-user-extra": {"a": ["b"]}}}, "it impersonates more than a user and a group",
     "`as` and one entry of `as-groups`", CORRECT),
    ({"user": {"client-certificate-data": base64.b64encode(b"x").decode()}},
     "the user has one of client certificate and key", "both or neither", CORRECT),
    ({"user": {"client-key-data": "%%%"}}, "client-key-data is no base64 of PEM text", "a certificate or key", CORRECT),
    ({"user": {"client-certificate-data": base64.b64encode(b"\xff").decode()}},
     "client-certificate-data is no base64 of PEM text", "a certificate or key", CORRECT),
    ({"user": {"tokenFile": "/nowhere"}}, "tokenFile /nowhere cannot be read (FileNotFoundError)", "a text file",
     CORRECT),
    ({"cluster": {"server": "api.example.com"}}, "the server of context 'c' is 'api.example.com'",
     "an https:// address", CORRECT),
    ({"clusters": []}, "no cluster 'k'", "a name of `clusters`: none", CORRECT),
    ({"users": [{"name": "other"}, {"name": "more"}]}, "no user 'u'", "a name of `users`: more, other", CORRECT),
    ({"current": "x"}, "no context 'x'", "a name of `contexts`: c", CORRECT),
    ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
     "the exec plugin's apiVersion is 'client.authentication.k8s.io/v1alpha1'", f"{V1} or {V1}beta1", CORRECT),
    ({"user": {"exec": {"command": "no-such-program", "apiVersion": V1, "installHint": "get it"}}},
     "the exec plugin 'no-such-program' cannot be started", "a program that prints an ExecCredential",
     f"install it (get it), or {UNSET}"),
    ({"user": {"exec": {"command": "no-such-program", "apiVersion": V1}}},
     "the exec plugin 'no-such-program' cannot be started", "a program that prints an ExecCredential",
     f"install it, or {UNSET}"),
    ({"user": {"exec": {"command": "true", "apiVersion": V1, "interactiveMode": "Always"}}},
     "the exec plugin 'true' asks questions", "a terminal", CORRECT),
    ({"user": {"exec": {"command": "true", "apiVersion": V1}}}, "the exec plugin 'true' prints no ExecCredential",
     "JSON with a status", CORRECT),
    ({"user": {"exec": {"command": "echo", "args": ["[]"], "apiVersion": V1}}},
     "the exec plugin 'echo' prints no ExecCredential", "JSON with a status", CORRECT),
    ({"user": {"exec": {"command": "echo", "args": ['{"status": {"token": "t", "expirationTimestamp": "x"}}'],
                        "apiVersion": V1}}},
     "the exec plugin 'echo' prints no ExecCredential", "JSON with a status", CORRECT),
    ({"user": {"exec": {"command": "false", "apiVersion": V1}}}, "the exec plugin 'false' ended with 1", "exit code 0",
     ABOVE),
    ({"user": {"exec": {"command": "echo", "args": ['{"status": {}}'], "apiVersion": V1}}},
     "the exec plugin 'echo' gives no credential", "a token or a certificate", CORRECT),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "what", "expected", "fix"), WRONG, ids=[f"{number} {row[1]}" for number, row in enumerate(WRONG)]
)
def test_what_cannot_be_used_is_refused(  # noqa: PLR0917
    tmp_path: Path, settings: Json, what: str, expected: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(OpsError) as error:
        Kubeconfig(config(tmp_path, **settings)).credential()
    assert error.value.what == f"KUBECONFIG cannot be used: {what}"
    assert (error.value.expected, error.value.fix, error.value.code) == (expected, fix, 1)


def test_what_the_cluster_entry_says_of_the_way(tmp_path: Path) -> None:
    """https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#Cluster"""
    plain = Kubeconfig(config(tmp_path))
    assert (plain.server, plain.insecure, plain.tls_server_name, plain.proxy) == (
        "https://api.example.com", False, "", "",
    )  # fmt: skip
    assert plain.authority == ""
    full: Json = {
        "server": "http://127.0.0.1:8001", "insecure-skip-tls-verify": True, "tls-server-name": "api",
        "proxy-url": "http://proxy:3128", "certificate-authority-data": base64.b64encode(b"PEM").decode(),
    }  # fmt: skip
    other = Kubeconfig(config(tmp_path, cluster=full))
    assert (other.server, other.insecure, other.tls_server_name, other.proxy) == (
        "http://127.0.0.1:8001", True, "api", "http://proxy:3128",
    )  # fmt: skip
    assert other.authority == "PEM"
    nobody = Kubeconfig(config(tmp_path, contexts=[{"name": "c", "context": {"cluster": "k"}}]))
    assert nobody.credential() == Credential()


TOLD = """
print(json.dumps({"status": {"token": os.environ["KUBERNETES_EXEC_INFO"] + sys.argv[1]}}))
"""


@pytest.mark.parametrize("informed", [False, True])
def test_what_a_plugin_is_told(tmp_path: Path, informed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://kubernetes.io/docs/reference/config-api/client-authentication.v1beta1/"""
    authority = base64.b64encode(b"PEM").decode()
    monkeypatch.setattr("sys.stdin", None)
    user = plugin(tmp_path, TOLD, provideClusterInfo=informed, args=["!"])
    read = Kubeconfig(config(tmp_path, cluster={"certificate-authority-data": authority}, user=user))
    told = bearer(read).removeprefix("Bearer ")
    assert told.endswith("}!")
    cluster = {"server": "https://api.example.com", "certificate-authority-data": authority}
    assert json.loads(told[:-1]) == {
        "apiVersion": f"{V1}beta1", "kind": "ExecCredential",
        "spec": {"interactive": False, **({"cluster": cluster} if informed else {})},
    }  # fmt: skip


def test_a_plugin_may_give_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    status = {"clientCertificateData": "C", "clientKeyData": "K"}
    user = {"exec": {"command": "echo", "args": [json.dumps({"status": status})], "apiVersion": V1}}
    assert Kubeconfig(config(tmp_path, user=user)).credential() == Credential(certificate="C", key="K")


@pytest.mark.parametrize(("seconds", "again"), [(-3600, True), (30, True), (3600, False)])
def test_a_credential_is_renewed_a_minute_before_it_expires(seconds: int, again: bool) -> None:
    now = datetime.datetime.now(tz=datetime.UTC)
    assert kubeconfig._expires(now + datetime.timedelta(seconds=seconds)) is again
    assert not kubeconfig._expires(None)


def test_how_a_server_is_verified() -> None:
    verified, unverified = tls_context(), tls_context(insecure=True)
    assert (verified.check_hostname, verified.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (unverified.check_hostname, unverified.verify_mode) == (False, ssl.CERT_NONE)
    assert not verified.verify_flags & ssl.VERIFY_X509_STRICT, "EKS's authorities carry no Authority Key Identifier"


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "x"
    for text, said, expected in (
        ("[1]", f"{file} holds no mapping", "a kubeconfig"), ("a: [", f"{file} cannot be read (", "YAML"),
        ("", f"no file at {file}", "a kubeconfig"), ("contexts: []", f"{file} has no current context",
                                                     "`current-context`"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(OpsError) as refused:
            Kubeconfig(str(file))
        assert refused.value.what.startswith(f"KUBECONFIG cannot be used: {said}")
        assert (refused.value.expected, refused.value.fix) == (expected, CORRECT)


def test_keys_are_nowhere_on_disk_afterwards(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certificate, key = ((certificates / f"{file}.pem").read_text() for file in ("client", "key"))
    tls_context(credential=Credential(certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []
