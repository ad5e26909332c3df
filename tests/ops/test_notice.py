"""The end of a job reaches a webhook: a real process, a real server with TLS."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.core.job import Job
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.in_ray import notice, with_secrets
from hyperpod_ray_sandbox.aws import paths
from tests.ops.ops_team_runs_helpers import package

SECRET = "T0KEN-of-the-webhook"


@dataclass
class Webhook:
    address: str
    authority: Path
    answers: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    # the sandbox's own environment has what makes certificates
    program = "import sys; from pathlib import Path; from hyperpod_ray_sandbox.kubernetes import tls; "
    program += "tls.make(Path(sys.argv[1]))"
    subprocess.run([str(paths.PYTHON), "-c", program, str(tmp_path)], cwd=paths.ROOT, check=True)
    authority, certificate, key = (tmp_path / name for name in ("ca.crt", "server.crt", "server.key"))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = hook.answers.pop(0) if hook.answers else 200
            if status == 200:
                hook.texts.append(body["text"])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    hook = Webhook(address=f"https://localhost:{server.server_port}/{SECRET}", authority=authority)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield hook
    server.shutdown()
    server.server_close()


def job(folder: Path, command: str, hook: Webhook, **variables: str) -> subprocess.Popen[str]:
    environ = {
        **os.environ, "PYTHONPATH": str(package(folder)), "SSL_CERT_FILE": str(hook.authority), "NO_PROXY": "localhost",
        in_ray.COMMAND_VARIABLE: command, names.NOTIFY_VARIABLE: hook.address, **variables,
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", f"{in_ray.PACKAGE}.with_secrets"], env=environ, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [("true", 0, "llama succeeded after 0 min"), ("exit 7", 7, "llama failed with exit code 7 after 0 min"),
     ("kill -9 $$", -9, "llama was ended by SIGKILL after 0 min")],
)  # fmt: skip
def test_how_a_job_ended_is_posted(tmp_path: Path, webhook: Webhook, command: str, code: int, text: str) -> None:
    process = job(tmp_path, f"echo $HYPERPOD_RAY_NOTIFY_URL; {command}", webhook, RUN_NAME="llama")
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, webhook.texts) == (code, [text])
    assert SECRET not in output + errors, "the command does not get the address"


def test_a_job_that_is_stopped_is_posted_too(tmp_path: Path, webhook: Webhook) -> None:
    """Ray sends SIGTERM to the process group of the entrypoint."""
    process = job(tmp_path, "echo begun; exec sleep 600", webhook)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert webhook.texts == ["job was ended by SIGTERM after 0 min"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [([503, 500], ""), ([404], "it answered 404"), ([302], "it answered 302"), ([500] * 3, "it answered 500")],
)
def test_a_webhook_that_fails_is_said_without_its_address(
    webhook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[int],
    words: str,
) -> None:
    texts = [] if words else ["first succeeded after 2 h 5 min"]
    monkeypatch.setenv("SSL_CERT_FILE", str(webhook.authority))
    monkeypatch.setenv("RUN_NAME", "first")
    monkeypatch.setattr(time, "sleep", lambda _: None)
    webhook.answers = answers
    assert notice.post(webhook.address, notice.text(0, 7500)) == bool(texts)
    errors = capsys.readouterr().err
    assert (webhook.texts, words in errors, SECRET in errors, bool(errors)) == (texts, True, False, not texts)


def test_plain_http_gets_nothing(webhook: Webhook, capsys: pytest.CaptureFixture[str]) -> None:
    assert not notice.post(webhook.address.replace("https", "http"), "x")
    assert (webhook.texts, "no https address" in capsys.readouterr().err) == ([], True)


def test_the_address_is_a_reference_wherever_it_travels() -> None:
    fields = Job(command="a", notify="chat/url", secrets={"HF_TOKEN": "hf/token"})
    assert fields.references == {"HF_TOKEN": "hf/token", names.NOTIFY_VARIABLE: "chat/url"}
    assert with_secrets.NOTIFY_VARIABLE == names.NOTIFY_VARIABLE
