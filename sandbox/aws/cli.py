"""`python -m rehearsal aws …`: set up, start, look at and stop the embedded AWS."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from sandbox.aws import client, install, paths, process

NOT_RUNNING = "the embedded AWS is not running; start it with `python -m rehearsal aws up`"


def main(argv: list[str]) -> int:
    """Run one command; exit code 0, 1 where it failed, 2 on a wrong command line."""
    options = _parser().parse_args(argv)
    command = {
        "setup": _setup,
        "up": _up,
        "status": _status,
        "env": _env,
        "down": _down,
        "faults": _faults,
        "fail-node": _fail_node,
        "quota": _quota,
        "inventory": _inventory,
    }[options.command]
    try:
        return command(options)
    except (install.InstallError, process.StartError, client.ControlError) as error:
        _say(f"error: {error}")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rehearsal aws", description=__doc__)
    parser.add_argument("--state", type=Path, default=paths.STATE, help="folder of this emulator's state and logs")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("setup", help="install what the embedded AWS runs on (skips what is there)")
    up = commands.add_parser("up", help="start it, and the local Kubernetes API beside it")
    up.add_argument("--kubeconfig", type=Path, help="use this cluster instead of the local Kubernetes API")
    up.add_argument("--port", type=int, help="port on 127.0.0.1 (default: 4566, or a free one where that is taken)")
    up.add_argument("--seconds-per-state", type=float, default=1.0, help="length of each state (default: 1)")
    up.add_argument("--account", default=process.ACCOUNT, help="12 digits, used as access key (default: %(default)s)")
    up.add_argument("--region", default=process.REGION, help="region the clients are told (default: %(default)s)")
    commands.add_parser("status", help="say whether it runs, and where")
    commands.add_parser("env", help='print the exports a shell needs: eval "$(python -m rehearsal aws env)"')
    commands.add_parser("down", help="stop it; everything in it is gone")
    faults = commands.add_parser("faults", help="inject errors, throttles and delays").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    fault = faults.add_parser("set", help="inject a fault: sagemaker.CreateCluster --code ThrottlingException")
    fault.add_argument("operation", help="service.Operation, or AWS::Service::Type.create (update, delete)")
    fault.add_argument("--code", default="", help="error code to answer")
    fault.add_argument("--message", default="injected fault")
    fault.add_argument("--status", type=int, default=400, help="HTTP status of the error (default: 400)")
    fault.add_argument("--delay-seconds", type=float, default=0.0)
    fault.add_argument("--count", type=int, default=1, help="how many times; -1 for every time (default: 1)")
    fault.add_argument("--effect", default="", help="stuck (fsx.DeleteFileSystem), no-capacity (hyperpod.GROUP)")
    faults.add_parser("clear", help="remove every fault")
    faults.add_parser("list", help="show the faults set now")
    fail = commands.add_parser("fail-node", help="make a HyperPod node faulty")
    fail.add_argument("node_id")
    fail.add_argument("--message", default="NVRM: Xid 74: NVLink error")
    quota = commands.add_parser("quota", help="set a service quota")
    quota.add_argument("name", help="a quota's name, or an instance type for its 'for cluster usage' quota")
    quota.add_argument("value", type=float)
    inventory = commands.add_parser("inventory", help="print everything that exists now, as JSON")
    inventory.add_argument("--ignore-stack", action="append", default=[], help="leave out what this stack owns")
    inventory.add_argument("--ignore-service-made", action="store_true", help="leave out log groups that AWS made")
    inventory.add_argument("--fail-if-any", action="store_true", help="exit with 1 where anything is listed")
    return parser


def _setup(_options: argparse.Namespace) -> int:
    install.install(_say)
    _say("the embedded AWS is installed")
    return 0


def _up(options: argparse.Namespace) -> int:
    running = process.find(options.state)
    if running:
        _say(f"already running on {running.client.endpoint}, Kubernetes API {running.kubernetes}")
        return 0
    if not install.installed():
        install.install(_say)
    kubeconfig = options.kubeconfig or (Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)
    running = process.start(
        state=options.state.resolve(),
        port=options.port,
        seconds_per_state=options.seconds_per_state,
        kubeconfig=kubeconfig,
        account=options.account,
        region=options.region,
    )
    _say(f"embedded AWS on {running.client.endpoint}, account {running.account}, region {running.region}")
    _say(f"Kubernetes API {running.kubernetes} ({'given' if kubeconfig else 'local'}), kubeconfig {running.kubeconfig}")
    _say('for this shell: eval "$(python -m rehearsal aws env)"')
    return 0


def _status(options: argparse.Namespace) -> int:
    running = process.find(options.state)
    if not running:
        _say(NOT_RUNNING)
        return 1
    ready = "ready" if running.client.health() else "not answering"
    _print(f"{running.client.endpoint} {ready}, process {running.pid}, log {running.log}")
    _print(f"Kubernetes API {running.kubernetes}, kubeconfig {running.kubeconfig}")
    return 0 if ready == "ready" else 1


def _env(options: argparse.Namespace) -> int:
    running = _running(options)
    for name in client.FORBIDDEN:
        _print(f"unset {name}")
    for name, value in running.client.environment().items():
        _print(f"export {name}={shlex.quote(value)}")
    return 0


def _down(options: argparse.Namespace) -> int:
    running = process.find(options.state)
    if not running:
        _say("the embedded AWS is not running")
        return 0
    process.stop(running, options.state)
    _say("stopped; everything in it is gone")
    return 0


def _faults(options: argparse.Namespace) -> int:
    control = _running(options).client
    if options.action == "set":
        names = ("operation", "code", "message", "status", "delay_seconds", "count", "effect")
        control.set_fault(**{name: getattr(options, name) for name in names})
    elif options.action == "clear":
        control.clear_faults()
    _print(json.dumps(control.faults(), indent=2))
    return 0


def _fail_node(options: argparse.Namespace) -> int:
    _print(json.dumps(_running(options).client.fail_node(options.node_id, options.message), indent=2))
    return 0


def _quota(options: argparse.Namespace) -> int:
    _running(options).client.set_quota(options.name, options.value)
    return 0


def _inventory(options: argparse.Namespace) -> int:
    found = [
        r
        for r in _running(options).client.inventory()
        if r["stack"] not in options.ignore_stack and not (options.ignore_service_made and r["made_by_service"])
    ]
    _print(json.dumps(found, indent=2))
    return 1 if found and options.fail_if_any else 0


def _running(options: argparse.Namespace) -> process.Running:
    running = process.find(options.state)
    if not running:
        raise process.StartError(NOT_RUNNING)
    return running


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
