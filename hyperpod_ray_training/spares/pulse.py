"""Beats beside a worker, from a process of its own: `python -I -S pulse.py`, with one line of JSON on stdin.

A worker that holds Python's lock in one long call cannot beat, and lives. This process says so: it reads the worker's
state and processor time from `/proc`. It ends with the worker, or with the connection. A fence that the coordinator
sends here is obeyed at once, also where the worker stands still.

It imports nothing but the standard library, so that it costs a few megabytes and no time.
"""

from __future__ import annotations

import hmac
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path


def state_of(pid: int) -> tuple[str, int]:
    """A process's state (`R`, `S`, `D`; stopped: `T`; in a debugger: `t`) and its processor time in ticks."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    return words[0], int(words[11]) + int(words[12])


CHALLENGE_S = 60.0
"""Most seconds until the coordinator speaks: its machine may be busy."""
_LONGEST_CHALLENGE = 256


def proof(token: str, *, challenge: str, role: str, uid: str) -> str:
    """Shows that the token is known, and does not say it: for one connection, role and member alone."""
    return hmac.new(f"coordinator:{token}".encode(), f"{challenge}\n{role}\n{uid}".encode(), "sha256").hexdigest()


def challenged(connection: socket.socket) -> str:
    """What the coordinator asks each connection first, and each another thing; the connection then has no limit.

    Raises:
        OSError: It says nothing, or something else.
    """
    connection.settimeout(CHALLENGE_S)
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part or len(line) > _LONGEST_CHALLENGE:
            raise ConnectionError("the coordinator asks for no proof")
        line += part
    connection.settimeout(None)
    return str(json.loads(line)["challenge"])


def main() -> int:
    """Until the worker or the connection ends."""
    options = json.loads(sys.stdin.readline())
    worker = int(options["pid"])
    with socket.create_connection((options["host"], options["port"]), timeout=10) as connection:
        uid = options["uid"]
        shown = proof(options["token"], challenge=challenged(connection), role="pulse", uid=uid)
        hello = {"type": "pulse", "proof": shown, "uid": uid}
        connection.sendall((json.dumps(hello) + "\n").encode())
        while os.getppid() == worker:
            state, ticks = state_of(worker)
            connection.sendall((json.dumps({"state": state, "ticks": ticks}) + "\n").encode())
            ready, _, _ = select.select([connection, sys.stdin], [], [], float(options["beat_s"]))
            if sys.stdin in ready:
                return 0  # the worker is done with this connection
            if connection in ready:
                if b"fence" in connection.recv(4096) and os.getppid() == worker:
                    os.kill(worker, signal.SIGKILL)
                return 0
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, LookupError, TypeError):
        sys.exit(0)
