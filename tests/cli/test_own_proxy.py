"""The person's own proxy: the command's requests to AWS, to Kubernetes and for charts go through it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PROXY = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    with client:
        client.settimeout(10)
        print(client.recv(4096).split(b"\\r\\n")[0].decode(), flush=True)
        client.sendall(b"HTTP/1.1 403 Forbidden\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
"""
"""A proxy that says what it is asked for, and refuses."""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its URL, and the file with what it was asked for."""
    log = tmp_path / "asked"
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-c", PROXY], stdout=output)
        try:
            while not (port := log.read_text().partition("\n")[0]):
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}", log
        finally:
            process.terminate()
            process.wait()


def command(*words: str, home: Path, proxy: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "HYPERPOD_RAY_")) and not name.lower().endswith("_proxy")
    }
    environment = {
        **kept, "HOME": str(home), "XDG_CACHE_HOME": str(home), "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "none", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
        "HTTPS_PROXY": proxy, **more,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "hyperpod_ray.cli", *words], cwd=PROJECT, env=environment, capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL, timeout=300, check=False,
    )  # fmt: skip


def test_requests_to_aws_go_through_it(proxy: tuple[str, Path], tmp_path: Path) -> None:
    url, log = proxy
    done = command("status", "dev", home=tmp_path, proxy=url)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    asked = log.read_text().splitlines()[1:]
    assert asked, done.stderr
    assert all(line.startswith("CONNECT ") and ".amazonaws.com:443 " in line for line in asked), asked
    assert any("sts." in line for line in asked), asked


def test_charts_are_downloaded_through_it(proxy: tuple[str, Path], tmp_path: Path) -> None:
    url, log = proxy
    lock = tmp_path / "own.lock.yaml"
    lock.write_text(
        "folder: packages\ncharts:\n  reporter:\n    chart: reporter\n    version: 1.0.0\n"
        f"    source: {{repository: 'https://charts.example.com'}}\n    sha256: '{'0' * 64}'\n"
    )
    done = command("charts", "fetch", "--lock", str(lock), home=tmp_path, proxy=url)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert log.read_text().splitlines()[1:] == ["CONNECT charts.example.com:443 HTTP/1.0"], done.stderr


def test_no_proxy_is_kept(proxy: tuple[str, Path], tmp_path: Path) -> None:
    url, log = proxy
    lock = tmp_path / "own.lock.yaml"
    lock.write_text(
        "folder: packages\ncharts:\n  reporter:\n    chart: reporter\n    version: 1.0.0\n"
        f"    source: {{repository: 'https://127.0.0.1:9'}}\n    sha256: '{'0' * 64}'\n"
    )
    done = command("charts", "fetch", "--lock", str(lock), home=tmp_path, proxy=url, NO_PROXY="127.0.0.1")
    assert done.returncode != 0
    assert "127.0.0.1:9" in done.stderr
    assert log.read_text().splitlines()[1:] == []
