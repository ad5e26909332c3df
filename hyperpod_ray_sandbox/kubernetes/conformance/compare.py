"""Compare an API server's verdicts with the list of requests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hyperpod_ray_sandbox.api_server_folder import has_controllers
from hyperpod_ray_sandbox.errors import SandboxError
from hyperpod_ray_sandbox.kubernetes import envtest
from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, cases, clean, prepare, run


class NoServerError(SandboxError):
    """No API server was named."""


def compare(*, kubeconfig: Path | None, only: str, show: Callable[[str], None]) -> int:
    """Send the list to a server, and delete at the end what the requests created.

    Requests that would change other people's objects, such as a default PriorityClass, go to a server that nobody
    else uses: the embedded one, or one of `KUBEBUILDER_ASSETS`.

    Args:
        kubeconfig: Of a cluster administrator. Default: `KUBECONFIG`, else a server of `KUBEBUILDER_ASSETS`.
        only: Send the requests whose name contains this.
        show: Gets each disagreement, and the sum at the end.

    Returns:
        The number of disagreements.

    Raises:
        NoServerError: No kubeconfig and no `KUBEBUILDER_ASSETS`.
        InUseError: The server has an object that the requests would change.
    """
    with ExitStack() as stack:
        kubeconfig = kubeconfig or Path(os.environ.get("KUBECONFIG", ""))
        controllers, own = True, False
        if not kubeconfig.is_file() and os.environ.get("KUBEBUILDER_ASSETS"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
            assets = Path(os.environ["KUBEBUILDER_ASSETS"])
            kubeconfig = stack.enter_context(envtest.started(assets, state))
            controllers, own = has_controllers(assets), True
        if not kubeconfig.is_file():
            raise NoServerError(
                "no API server", expected="--kubeconfig, KUBECONFIG or KUBEBUILDER_ASSETS", fix="add --kubeconfig FILE"
            )
        client = Client.of(kubeconfig)
        stack.callback(_clean, client, show)
        prepare(client)
        alone = own or client.embedded
        chosen = [case for case in cases() if only in case.name]
        sent = [case for case in chosen if (controllers or not case.controllers) and (alone or not case.alone)]
        disagreements = 0
        for case in sent:
            if difference := run(client, case):
                disagreements += 1
                show(f"{case.name}: {difference}")
        skipped = [case for case in chosen if case not in sent]
        unsafe = sum(case.alone and not alone for case in skipped)
        note = f", {unsafe} not sent: they would change other people's objects" if unsafe else ""
        if needy := len(skipped) - unsafe:
            note += f", {needy} not sent: they need kube-controller-manager"
        show(f"{len(sent)} requests to {client.server()}: {disagreements} disagreements{note}")
    return disagreements


def _clean(client: Client, show: Callable[[str], None]) -> None:
    for path in clean(client):
        show(f"still there: {path}. Fix: kubectl delete --raw {path}")
