"""`python3 -m hyperpod_ray.guard`: guard the nodes of one HyperPod cluster until SIGTERM."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from hyperpod_ray.guard.hyperpod import HyperPod, PodIdentity
from hyperpod_ray.guard.kubernetes import SERVICE_ACCOUNT, Kubernetes, KubernetesError
from hyperpod_ray.guard.watching import Guard, log

STUCK_SECONDS = 240
"""A look and a watch take less. A process that is stuck for longer ends, and the kubelet starts another."""
RETRY_SECONDS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m hyperpod_ray.guard", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cluster", required=True, help="HyperPod cluster")
    parser.add_argument("--region", required=True, help="its AWS Region")
    parser.add_argument("--endpoint", required=True, help="URL of the SageMaker API")
    parser.add_argument(
        "--not-ready-seconds", type=int, required=True, help="how long a node is silent before HyperPod is asked"
    )
    parser.add_argument("--ready-file", type=Path, required=True, help="exists while Kubernetes and HyperPod answer")
    parser.add_argument("--service-account", type=Path, default=SERVICE_ACCOUNT, help="folder with token and ca.crt")
    return parser


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, _end)
    try:
        node = os.environ["NODE_NAME"]
        kubernetes = Kubernetes(folder=arguments.service_account)
    except (KeyError, OSError) as error:
        log.error("not in a pod of the guard: %r", error)
        return 2
    guard = Guard(
        kubernetes=kubernetes,
        hyperpod=HyperPod(
            cluster=arguments.cluster, region=arguments.region, endpoint=arguments.endpoint, identity=PodIdentity()
        ),
        node=node,
        not_ready_seconds=arguments.not_ready_seconds,
        ready_file=arguments.ready_file,
    )
    log.info("guarding the nodes of %s from %s", arguments.cluster, node)
    while True:
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        try:
            guard.turn()
        except KubernetesError as error:
            log.warning("Kubernetes: %s", error)
            arguments.ready_file.unlink(missing_ok=True)
            time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
