"""The certificate of the server: for names of this machine alone, private, and kept over a restart."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.emulator


def hello(cluster: Any, name: str, *, trusted: str) -> None:
    """One handshake, as a client that trusts an authority and expects a name."""
    context = ssl.create_default_context(cafile=trusted)
    with (
        socket.create_connection(("127.0.0.1", cluster.server["port"]), timeout=120) as plain,
        context.wrap_socket(plain, server_hostname=name),
    ):
        pass


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "kubernetes.default.svc"])
def test_clients_of_this_machine_and_pods_find_their_name(cluster: Any, name: str) -> None:
    """A client compares the name with the alternative names: https://www.rfc-editor.org/rfc/rfc9525#section-6"""
    hello(cluster, name, trusted=cluster.server["ca_file"])


@pytest.mark.parametrize("name", ["example.com", "127.0.0.2"])
def test_another_name_is_refused(cluster: Any, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|doesn't match|not valid for"):
        hello(cluster, name, trusted=cluster.server["ca_file"])


def test_another_authority_is_not_trusted(cluster: Any, empty: Any) -> None:
    """Each server has an authority of its own: a client of one does not take another for it."""
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        hello(cluster, "localhost", trusted=empty.server["ca_file"])


def test_a_restart_keeps_the_authority_and_nobody_reads_the_key(empty: Any) -> None:
    """A kubeconfig of before the restart works after it. The authority's own key is nowhere."""
    authority = Path(empty.server["ca_file"])
    before = authority.read_bytes()
    assert empty.stop() == 0
    empty.start()
    assert authority.read_bytes() == before
    keys = [path for path in empty.state.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert [path.name for path in keys] == ["server.key"]
    assert keys[0].stat().st_mode & 0o077 == 0
