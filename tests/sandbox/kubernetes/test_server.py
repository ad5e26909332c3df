"""The server as a process: who gets in, what survives a restart, how it fails on demand."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.kubernetes.conftest import PROJECT, PYTHON

pytestmark = pytest.mark.emulator


def test_listens_on_loopback_only_and_keeps_its_secrets_private(cluster: Any) -> None:
    port = cluster.server["port"]
    others = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {
        "127.0.0.1",
        "127.0.1.1",
    }
    for address in others:
        with socket.socket() as probe:
            probe.settimeout(2)
            assert probe.connect_ex((address, port)) != 0
    for name in ("server.json", "kubeconfig", "token", "server.key"):
        assert (cluster.state / name).stat().st_mode & 0o077 == 0


def test_restart_keeps_objects_port_and_token(empty: Any) -> None:
    empty.kubectl("create", "configmap", "kept", "--from-literal=a=b", "--dry-run=client", "-o", "yaml")
    empty.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kept", "namespace": "default"},
            "data": {"a": "b"},
        }
    )
    before, was = empty.get("cm", "kept"), dict(empty.server)
    assert empty.stop() == 0
    empty.start()
    assert empty.get("cm", "kept") == before
    assert (empty.server["url"], empty.server["token"]) == (was["url"], was["token"])


def test_faults(cluster: Any) -> None:
    cluster.post(
        "/rehearsal/faults", {"kind": "error", "verb": "list", "resource": "leases", "status": 503, "count": 1}
    )
    first = cluster.kubectl("get", "leases", "-v=0", ok=False)
    assert first.returncode != 0
    assert "injected fault" in first.stderr
    assert cluster.kubectl("get", "leases").returncode == 0
    # client-go waits as Retry-After says and then succeeds
    throttle = cluster.post(
        "/rehearsal/faults", {"kind": "throttle", "resource": "limitranges", "retry_after_seconds": 1, "count": 1}
    )
    assert cluster.kubectl("get", "limitranges").returncode == 0
    assert throttle["id"] not in json.dumps(cluster.post("/rehearsal/faults", None, "GET"))
    with pytest.raises(urllib.error.HTTPError) as bad:
        cluster.post("/rehearsal/faults", {"kind": "explode"})
    assert bad.value.code == 400


def test_hang_and_clear(cluster: Any) -> None:
    cluster.post("/rehearsal/faults", {"kind": "hang", "resource": "endpoints"})
    hung = cluster.kubectl("get", "endpoints", "--request-timeout=2s", ok=False)
    assert hung.returncode != 0
    cluster.post("/rehearsal/faults", None, "DELETE")
    assert cluster.kubectl("get", "endpoints").returncode == 0


def test_unreachable_refuses_connections_and_comes_back(empty: Any) -> None:
    def refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", empty.server["port"])) != 0

    def seen(seconds: int) -> bool:
        empty.post("/rehearsal/faults", {"kind": "unreachable", "seconds": seconds})
        end = time.monotonic() + seconds
        while not (found := refused()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    # on a busy machine a short time passes between two looks: a longer one then
    assert any(seen(seconds) for seconds in (2, 8, 32, 128)), "connections refused"
    empty.until(lambda: not refused(), "connections accepted again")
    empty.until(lambda: empty.kubectl("get", "ns", ok=False).returncode == 0, "answers again")


# random.sample as the same port for both, and another for the second try
LISTENERS = """
import pathlib, random, sys
from hyperpod_ray_sandbox.kubernetes import server
folder = pathlib.Path(sys.argv[1])
first = server._listener(0, folder)
port = first.getsockname()[1]
server.random.sample = lambda *_: [port, port + 1, port + 2, port + 3]
(folder / "port").unlink()
print(server._listener(0, folder).getsockname()[1] - port)
server._listener(port, folder)
"""


def test_a_port_belongs_to_the_first_that_asks(tools: None, tmp_path: Path) -> None:
    """Before it serves: two servers that start at the same time never choose the same one."""
    command = [str(PYTHON), "-c", LISTENERS, str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert int(done.stdout) > 0, done.stderr
    assert (done.returncode, "is taken; choose another with --port" in done.stderr) == (1, True), done.stderr
