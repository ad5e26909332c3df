"""The command of the distribution: `hyperpod-sandbox up | env | status | inventory | fail-node | setup | down`."""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path

from hyperpod_ray_sandbox import __version__
from hyperpod_ray_sandbox.aws import client, commands, install, paths, process


def _version() -> str:
    """The distribution's, which names the commit of one that is no release."""
    try:
        return metadata.version("hyperpod-ray-sandbox")
    except metadata.PackageNotFoundError:  # the source
        return __version__


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = argparse.ArgumentParser(prog="hyperpod-sandbox", description="An AWS and a Kubernetes API on 127.0.0.1.")
    top.add_argument("--version", action="version", version=_version())
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        command = subparsers.add_parser(name, help=about, description=about)
        command.add_argument(
            "--state", type=Path, default=paths.STATE, help="folder of its state and logs (%(default)s)"
        )
        return command

    up = add("up", "start the embedded AWS and its Kubernetes API")
    up.add_argument("--port", type=int, help="port on 127.0.0.1 (default: 4566, or a free one)")
    up.add_argument("--account", help=f"twelve digits (default: {process.ACCOUNT})")
    up.add_argument("--region", help=f"default: {process.REGION}")
    up.add_argument("--kubeconfig", type=Path, help="your own cluster in place of the local Kubernetes API")
    up.add_argument("--api-server", choices=("embedded", "real"), default="embedded",
                    help="real: a kube-apiserver and an etcd of yours (%(default)s)")  # fmt: skip
    up.add_argument("--api-server-folder", type=Path, help="where they are (default: KUBEBUILDER_ASSETS)")
    up.add_argument("--seconds-per-state", type=float, default=process.SECONDS_PER_STATE,
                    help="length of each state (%(default)s)")  # fmt: skip
    add("status", "show where it runs; exit code 3 when it does not")
    env = add("env", 'print the exports for a shell: eval "$(hyperpod-sandbox env)"')
    env.add_argument("--pod", metavar="NAMESPACE/NAME", help="with a pod's credentials by EKS Pod Identity")
    add("inventory", "print everything that exists now as JSON")
    add("fail-node", "make a HyperPod node faulty").add_argument("node_id")
    add("setup", "install the Node packages of Lambda's runtime, kubectl and helm")
    add("down", "stop it and delete everything in it but its logs")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; 1 with one line where it fails."""
    options = parser().parse_args(argv)
    try:
        return _run(options)
    except (process.StartError, install.InstallError, client.ControlError) as error:
        sys.stderr.write(f"hyperpod-sandbox: {error}\n")
        return 1


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "up":
            commands.up(
                state=options.state,
                kubeconfig=options.kubeconfig,
                port=options.port,
                seconds_per_state=options.seconds_per_state,
                account=options.account,
                region=options.region,
                api_server=options.api_server,
                api_server_folder=options.api_server_folder,
            )
        case "status":
            return 0 if commands.status(state=options.state) else 3
        case "env":
            commands.env(state=options.state, pod=options.pod)
        case "inventory":
            commands.show(commands.inventory(state=options.state))
        case "fail-node":
            commands.show(commands.found(options.state).client.fail_node(options.node_id))
        case "setup":
            commands.setup()
        case _:
            commands.down(state=options.state)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
