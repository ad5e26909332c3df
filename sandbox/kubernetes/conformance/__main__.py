"""`python -m sandbox.kubernetes.conformance --kubeconfig FILE`: compare an API server's verdicts with the list.

Makes the namespaces `bad…` and deletes them at the end. The user must be cluster-admin.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from sandbox.kubernetes.conformance import envtest
from sandbox.kubernetes.conformance.runner import Client, cases, clean, prepare, run


def main(argv: list[str] | None = None) -> int:
    """Run the list; 0 when the server agrees with all of it, 1 when it does not, 2 when there is no server."""
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.kubernetes.conformance", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig of the server (default: $KUBECONFIG)")
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    args = parser.parse_args(argv)
    with ExitStack() as stack:
        kubeconfig = args.kubeconfig or Path(os.environ.get("KUBECONFIG", ""))
        controllers = True
        if not kubeconfig.is_file() and os.environ.get("KUBEBUILDER_ASSETS"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
            kubeconfig = stack.enter_context(envtest.started(Path(os.environ["KUBEBUILDER_ASSETS"]), state))
            controllers = False
        if not kubeconfig.is_file():
            parser.error("no API server: name one with --kubeconfig, KUBECONFIG or KUBEBUILDER_ASSETS")
        client = Client.of(kubeconfig)
        prepare(client)
        stack.callback(clean, client)
        wrong = left_out = total = 0
        for case in cases():
            if args.only and args.only not in case.name:
                continue
            if case.controllers and not controllers:
                left_out += 1
                continue
            total += 1
            said = run(client, case)
            if said:
                wrong += 1
                sys.stdout.write(f"{case.name}: {said}\n")
        note = f", {left_out} omitted: they need kube-controller-manager" if left_out else ""
        sys.stdout.write(f"{total} requests, {wrong} disagreements{note}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
