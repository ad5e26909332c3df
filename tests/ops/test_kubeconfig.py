from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.ops.errors import OpsError
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


WRONG: list[tuple[Json, str]] = [
    ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider"),
    ({"user": {"as": "x", "as-groups": ["a", "b"]}}, "more than a user and a group"),
    ({"user": {"client-certificate-data": base64.b64encode(b"x").decode()}}, "one of client certificate and key"),
    ({"user": {"client-key-data": "%%%"}}, "no base64"),
    ({"user": {"tokenFile": "nowhere"}}, "tokenFile"),
    ({"cluster": {"server": "api.example.com"}}, "'api.example.com'"),
    ({"clusters": []}, "no cluster 'k'"),
    ({"users": [{"name": "other"}]}, "no user 'u'. Expected a name of `users`: other"),
    ({"current": ""}, "no current context"),
    ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}}, "v1alpha1"),
    ({"user": {"exec": {"command": "no-such-program", "apiVersion": "client.authentication.k8s.io/v1",
                        "installHint": "get it"}}}, "'no-such-program' cannot be started"),
    ({"user": {"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always"}}}, "asks questions"),
    ({"user": {"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1"}}}, "no ExecCredential"),
    ({"user": {"exec": {"command": "false", "apiVersion": "client.authentication.k8s.io/v1"}}}, "ended with 1"),
    ({"user": {"exec": {"command": "echo", "args": ['{"status": {}}'],
                        "apiVersion": "client.authentication.k8s.io/v1"}}}, "gives no credential"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, settings: Json, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(OpsError) as error:
        Kubeconfig(config(tmp_path, **settings)).credential()
    assert said in error.value.message
    assert error.value.message.startswith("KUBECONFIG cannot be used: ")
    assert "unset KUBECONFIG" in error.value.fix


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    for text, said in (("[1]", "no mapping"), ("a: [", "cannot be read"), ("", "no file at")):
        (tmp_path / "x").write_text(text)
        with pytest.raises(OpsError, match=said):
            Kubeconfig(str(tmp_path / "x"))


def test_keys_are_nowhere_on_disk_afterwards(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certificate, key = ((certificates / f"{file}.pem").read_text() for file in ("client", "key"))
    tls_context(credential=Credential(certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []
