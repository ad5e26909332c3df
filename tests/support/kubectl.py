"""The real kubectl and helm, as commands of a test."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence

from hyperpod_ray_sandbox.aws import paths
from tests.support import surroundings

PATIENCE_SECONDS = 600
# client-go gives a server ten seconds for the handshake; a server that gets no processor for so long saw no request
UNSENT = "TLS handshake timeout"


def run(
    tool: str, arguments: Sequence[str], *, environment: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run kubectl or helm to its end, again where the server never saw the request."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = subprocess.run(
            [str(paths.KUBECTL_LAYER / tool / tool), *arguments],
            input=stdin, text=True, capture_output=True, timeout=PATIENCE_SECONDS,
            env={**surroundings.GO, **environment}, check=False,
        )  # fmt: skip
        if done.returncode == 0 or UNSENT not in done.stderr or time.monotonic() > end:
            return done


def output(*arguments: str, environment: Mapping[str, str]) -> str:
    """What kubectl prints; a failure fails the test with its message."""
    done = run("kubectl", arguments, environment=environment)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
