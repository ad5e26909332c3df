"""A stand-in for `session-manager-plugin`: called as the real one is, it forwards TCP, and ends as the real one does.

By the plugin's source (github.com/aws/session-manager-plugin): session.go for its arguments and the variable that holds
the token, muxportforwarding.go for what it prints and for the signals that end it. It has no agent on a node: it
connects to the host and port of the session's parameters itself.

Variables: `STAND_IN_RECORD` (a folder: each start writes what it was given), `STAND_IN_VERSION`, `STAND_IN_SILENT`
(open no port), `STAND_IN_LEADS_TO` (HOST:PORT in place of the session's own).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(os.environ.get("STAND_IN_VERSION", "1.2.764.0"))
        return
    assert len(arguments) == 6, arguments
    name, region, operation, _profile, request, endpoint = arguments
    assert (name, operation) == (VARIABLE, "StartSession"), arguments
    assert region and endpoint.startswith("http"), arguments
    session = json.loads(os.environ.pop(VARIABLE))
    assert set(session) == {"SessionId", "TokenValue", "StreamUrl"}, sorted(session)
    if folder := os.environ.get("STAND_IN_RECORD"):
        number = len(list(Path(folder).glob("*.json")))
        seen = {"arguments": arguments, "session": session, "pid": os.getpid()}
        part = Path(folder, f"{number}.part")
        part.write_text(json.dumps(seen), encoding="utf-8")
        part.rename(part.with_suffix(".json"))  # whole at once: a test reads while this runs
    print(f"\nStarting session with SessionId: {session['SessionId']}", flush=True)
    if os.environ.get("STAND_IN_SILENT"):
        print("Cannot perform start session: EOF", flush=True)
        return
    parameters = json.loads(request)["Parameters"]
    host, port = parameters["host"][0], int(parameters["portNumber"][0])
    if other := os.environ.get("STAND_IN_LEADS_TO"):
        host, port = other.rpartition(":")[0], int(other.rpartition(":")[2])
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server = socket.create_server(("127.0.0.1", int(parameters["localPortNumber"][0])))
    print(f"Port {server.getsockname()[1]} opened for sessionId {session['SessionId']}.", flush=True)
    print("Waiting for connections...", flush=True)
    while True:
        near, _ = server.accept()
        far = socket.create_connection((host, port))
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for side in (sink, source):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
