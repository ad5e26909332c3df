from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training.spares import pulse

pytestmark = pytest.mark.slow


HELLO = {"type": "hello", "uid": "x", "order": 0, "node": "n", "port": 1, "pid": 1}


def hears(stranger: socket.socket) -> bytes:
    """What the coordinator says, until it ends the connection."""
    return b"".join(iter(lambda: stranger.recv(1000), b""))


@pytest.mark.parametrize(
    ("role", "uid", "token", "fresh"),
    [("hello", "x", "guessed", True), ("hello", "y", "secret", True), ("pulse", "x", "secret", True),
     ("hello", "x", "secret", False)],
    ids=["another token", "another member's", "of a pulse", "of another connection"],
)  # fmt: skip
def test_whoever_does_not_know_the_token_is_not_heard(
    *, party: Any, role: str, uid: str, token: str, fresh: bool
) -> None:
    run = party()
    with (
        socket.create_connection(run.address, timeout=600) as stranger,
        socket.create_connection(run.address, timeout=600) as before,
    ):
        asked = [pulse.challenged(connection) for connection in (before, stranger)]
        shown = pulse.proof(token, challenge=asked[fresh], role=role, uid=uid)
        stranger.sendall((json.dumps(HELLO | {"proof": shown}) + "\n").encode())
        assert hears(stranger) == b""
    assert run.coordinator.table.members == {}


def test_the_token_never_goes_over_the_network() -> None:
    """Somebody who reads the wire, or stands in the coordinator's place, learns nothing that opens another door."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        options = {"host": host, "port": port, "token": "secret", "uid": "x", "pid": os.getpid(), "beat_s": 1}
        process = subprocess.Popen([sys.executable, "-I", "-S", pulse.__file__], stdin=subprocess.PIPE)
        assert process.stdin is not None
        with process:
            process.stdin.write((json.dumps(options) + "\n").encode())
            process.stdin.flush()
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                connection.sendall(b'{"challenge": "a"}\n')
                hello = json.loads(lines.readline())
                assert hello.pop("proof") == pulse.proof("secret", challenge="a", role="pulse", uid="x")
                assert "secret" not in json.dumps(hello)
                process.stdin.close()
                assert b"secret" not in lines.read()


HOSTILE = {
    "a line of two megabytes": b"x" * (2 << 20) + b"\n",
    "a line without an end": b"{" * (2 << 20),
    "a value that is nested a hundred thousand deep": b"[" * 100_000 + b"\n",
    "a list": b"[1, 2]\n",
    "no text": b"\xff\xfe\x00\n",
    "a proof that is no text": b'{"type": "hello", "proof": {"a": 1}}\n',
    "a proof beyond ASCII": '{"type": "hello", "proof": "ключ"}\n'.encode(),
    "a pulse without proof": b'{"type": "pulse", "proof": "guessed", "uid": "x"}\n',
    "the token itself": b'{"type": "hello", "token": "secret", "uid": "x"}\n',
}


def test_what_a_stranger_sends_ends_its_own_connection_alone(party: Any) -> None:
    """The coordinator hears the next one, and a member that trains hears nothing of it."""
    run = party(every=5, gates=[4])
    run.start(3)
    run.until_gate(4)
    members = dict(run.coordinator.table.members)
    for sent in HOSTILE.values():
        with socket.create_connection(run.address, timeout=600) as stranger, contextlib.suppress(OSError):
            pulse.challenged(stranger)
            stranger.sendall(sent)
            assert hears(stranger) == b""
    with socket.create_connection(run.address, timeout=600) as stranger:
        shown = pulse.proof("secret", challenge=pulse.challenged(stranger), role="hello", uid="x")
        stranger.sendall((json.dumps({"type": "hello", "proof": shown, "uid": "x"}) + "\n").encode())
        assert hears(stranger) == b"", "a hello without figures"
    assert dict(run.coordinator.table.members) == members
    assert of_ranks()
    assert not [line for line in of_ranks() if "secret" in line], "everybody can read a command line"
    (run.folder / "go-4").touch()
    run.until_done()
    assert not run.events("restore")


def of_ranks() -> list[str]:
    """Command lines of ranks and of what beats beside them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text(encoding="utf-8", errors="replace"))
    return [line for line in lines if "pulse.py" in line]
