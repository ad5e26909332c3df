"""Compare an API server's verdicts with the list of requests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hyperpod_ray_sandbox.errors import SandboxError
from hyperpod_ray_sandbox.kubernetes import envtest
from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, cases, clean, prepare, run


class NoServerError(SandboxError):
    """No API server was named."""


def compare(*, kubeconfig: Path | None, only: str, show: Callable[[str], None]) -> int:
    """Send the list to a server; creates the namespaces `bad…` and deletes them at the end.

    Args:
        kubeconfig: Of a cluster administrator. Default: `KUBECONFIG`, else a server of `KUBEBUILDER_ASSETS`.
        only: Send the requests whose name contains this.
        show: Gets each disagreement, and the sum at the end.

    Returns:
        The number of disagreements.

    Raises:
        NoServerError: No kubeconfig and no `KUBEBUILDER_ASSETS`.
    """
    with ExitStack() as stack:
        kubeconfig = kubeconfig or Path(os.environ.get("KUBECONFIG", ""))
        controllers = True
        if not kubeconfig.is_file() and os.environ.get("KUBEBUILDER_ASSETS"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
            kubeconfig = stack.enter_context(envtest.started(Path(os.environ["KUBEBUILDER_ASSETS"]), state))
            controllers = False
        if not kubeconfig.is_file():
            raise NoServerError(
                "no API server", expected="--kubeconfig, KUBECONFIG or KUBEBUILDER_ASSETS", fix="add --kubeconfig FILE"
            )
        client = Client.of(kubeconfig)
        prepare(client)
        stack.callback(clean, client)
        chosen = [case for case in cases() if only in case.name]
        sent = [case for case in chosen if controllers or not case.controllers]
        wrong = 0
        for case in sent:
            if found := run(client, case):
                wrong += 1
                show(f"{case.name}: {found}")
        skipped = len(chosen) - len(sent)
        note = f", {skipped} not sent: they need kube-controller-manager" if skipped else ""
        show(f"{len(sent)} requests to {client.server()}: {wrong} disagreements{note}")
    return wrong
