"""Stands in for the `ray` command where only the handling of processes is tested: nodes and a head that counts them.

A node is a process with a child and a detached grandchild; it is alive as long as its connection to the head is open.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

if sys.argv[1] == "drain-node":  # what it was asked, for the test whose working directory this is
    Path("drained").write_text(json.dumps(sys.argv[1:]))
    sys.exit(0)
options = dict(part[2:].partition("=")[::2] for part in sys.argv[2:] if part.startswith("--"))
ip = options["node-ip-address"]
nodes: dict[str, str] = {}
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
token = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text() if os.environ.get("RAY_AUTH_MODE") == "token" else None


class Registration(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        node = self.rfile.readline().decode().strip()
        if node:
            nodes[node] = "ALIVE"
            self.rfile.read()
            nodes[node] = "DEAD"


class Dashboard(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = token is None or self.headers.get("Authorization") == f"Bearer {token}"
        rows = [{"node_ip": n, "state": s, "node_id": n} for n, s in nodes.items()]
        body = json.dumps({"data": {"result": {"result": rows}}}).encode() if allowed else b"{}"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["sleep", "1001"], start_new_session=True)
print("environment", json.dumps({k: v for k, v in os.environ.items() if k.startswith("RAY_")}), flush=True)
print("arguments", json.dumps(sys.argv[1:]), flush=True)
if "head" in options:
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    gcs = socketserver.ThreadingTCPServer((ip, int(options["port"])), Registration)
    web = http.server.ThreadingHTTPServer((ip, int(options["dashboard-port"])), Dashboard)
    for server in (gcs, web):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    nodes[ip] = "ALIVE"
    print("Ray runtime started.", flush=True)
    while True:
        time.sleep(1000)
host, _, port = options["address"].partition(":")
with socket.create_connection((host, int(port))) as connection:
    connection.sendall(f"{ip}\n".encode())
    connection.recv(1)  # until the head is gone
sys.exit(1)
