"""The embedded AWS: set it up, start it, look at it, inject faults and stop it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from hyperpod_ray_sandbox.aws import client, install, paths, pods, process

NOT_RUNNING = "the embedded AWS is not running"


def setup() -> None:
    """Install what the embedded AWS runs on; skips what is there."""
    install.install(_log)
    _log("the embedded AWS is installed")


def up(
    *,
    state: Path = paths.STATE,
    kubeconfig: Path | None = None,
    port: int | None = None,
    seconds_per_state: float = process.SECONDS_PER_STATE,
    account: str | None = None,
    region: str | None = None,
    api_server: str = "embedded",
    api_server_folder: Path | None = None,
) -> process.Running:
    """Start the embedded AWS, and the local Kubernetes API beside it; returns the running one where there is one.

    Args:
        state: Folder of its state and logs.
        kubeconfig: Use this cluster. Default: the cluster of KUBECONFIG, else the local Kubernetes API.
        port: Port on 127.0.0.1. Default: 4566, or a free one where that is taken.
        seconds_per_state: Length of each state of a resource. Default: 0.3.
        account: Twelve digits, used as access key. Default: 000000000001.
        region: Region of its clients and of the Kubernetes nodes. Default: us-west-2.
        api_server: `real` starts a kube-apiserver and an etcd. Default: `embedded`, the local Kubernetes API.
        api_server_folder: Where their binaries are. Default: KUBEBUILDER_ASSETS.

    Raises:
        StartError: one runs with another port, account or region, or another `up` starts one in this folder.
    """
    running = process.find(state)
    if running and (broken := [part for part in process.parts(running) if part.state != process.READY]):
        raise process.StartError(
            "the embedded AWS runs, but not all of it: "
            + ", ".join(f"its {part.name} is {part.state}" for part in broken),
            expected="each of its processes to answer",
            fix=_fix(broken[0], state),
        )
    if running:
        settings = {"port": port, "account": account, "region": region}
        conflicts = [f"{name} {getattr(running, name)}" for name, value in settings.items()
                 if value and value != getattr(running, name)]  # fmt: skip
        if conflicts:
            raise process.StartError(
                f"the embedded AWS runs already, with {', '.join(conflicts)}",
                expected="one with the same options",
                fix=f"`{paths.command('down', state)}`, or --state",
            )
        _log(f"already running on {running.client.endpoint}, Kubernetes API {running.kubernetes}")
        return running
    if not install.installed():
        install.install(_log)
    if api_server == "embedded":
        kubeconfig = kubeconfig or (Path(os.environ["KUBECONFIG"]) if os.environ.get("KUBECONFIG") else None)
    elif kubeconfig:
        raise process.StartError(
            "--api-server real with --kubeconfig: both given", expected="one", fix="remove one of the two"
        )
    running = process.start(
        state=state.resolve(),
        port=port,
        seconds_per_state=seconds_per_state,
        kubeconfig=kubeconfig,
        account=account or process.ACCOUNT,
        region=region or process.REGION,
        api_server=api_server,
        api_server_folder=api_server_folder,
        entrypoints=paths.entrypoint_program(),
    )
    _log(f"embedded AWS on {running.client.endpoint}, account {running.account}, region {running.region}")
    backend = "given" if kubeconfig else api_server
    _log(f"Kubernetes API {running.kubernetes} ({backend}), kubeconfig {running.kubeconfig}")
    _log(f'for this shell: eval "$({paths.command("env", state)})"')
    return running


def status(*, state: Path = paths.STATE) -> bool:
    """Print where it runs and how each of its processes is; whether all of them answer."""
    running = process.find(state)
    if not running:
        remaining = len(process.marked(state.resolve()))
        hint = f"{remaining} processes of one that was killed remain; " if remaining else ""
        _log(f"{NOT_RUNNING}; {hint}start it with `{paths.command('up', state)}`")
        return False
    parts = process.parts(running)
    for part in parts:
        _print(f"{part.name}: {part.state}, process {part.pid}, log {part.log}")
        if part.state != process.READY:
            _print(f"  fix: {_fix(part, state)}")
    _print(f"endpoint {running.client.endpoint}")
    _print(f"Kubernetes API {running.kubernetes}, kubeconfig {running.kubeconfig}")
    return all(part.state == process.READY for part in parts)


def _fix(part: process.Part, state: Path) -> str:
    """The command that brings a process back. What the embedded AWS has is in its memory alone."""
    if part.name == process.EMBEDDED_AWS:
        return f"{paths.command('down', state)}, then {paths.command('up', state)}: what is deployed is lost"
    return f"{paths.command('repair', state)}, which keeps what is deployed"


def repair(*, state: Path = paths.STATE) -> bool:
    """Start what ended or no longer answers of a running one, with its objects; whether everything runs then.

    Raises:
        StartError: none runs.
    """
    running = found(state)
    for part in process.restart(running, state.resolve()):
        _log(f"{part.name}: {part.state}; it runs again, with what it had")
    return status(state=state)


def env(*, state: Path = paths.STATE, pod: str | None = None) -> None:
    """Print the exports that point a shell at it.

    Args:
        state: Folder of its state.
        pod: `NAMESPACE/NAME` of a recorded pod: its credentials by EKS Pod Identity, instead of the root user's.
    """
    running = found(state)
    if pod:
        for line in [*(f"unset {name}" for name in client.FORBIDDEN), *pods.exports(running, pod)]:
            _print(line)
        return
    for name in client.FORBIDDEN:
        _print(f"unset {name}")
    for name, value in running.client.exports().items():
        _print(f"export {name}={shlex.quote(value)}")


def down(*, state: Path = paths.STATE) -> None:
    """Stop it, end what one that was killed left running, and remove all it kept but its logs."""
    running = process.find(state)
    if not running:
        ended = process.clear(state)
        leftovers = (
            f"; {ended} processes of one that was killed are ended, and what it kept is removed" if ended else ""
        )
        _log(f"the embedded AWS is not running{leftovers}")
        return
    process.stop(running, state)
    local = "its Kubernetes objects too"
    objects = local if running.kubernetes_pid else f"the cluster of {running.kubeconfig} keeps what was deployed to it"
    _log(f"stopped; everything in it is gone, {objects}; the logs stay in {state}")


def show(value: object) -> None:
    """Print a value as JSON."""
    _print(json.dumps(value, indent=2))


def inventory(
    *, state: Path = paths.STATE, ignore_stack: tuple[str, ...] = (), ignore_service_made: bool = False
) -> list[dict[str, object]]:
    """What exists now.

    Args:
        state: Folder of its state.
        ignore_stack: Stacks whose resources do not count.
        ignore_service_made: Whether log groups that a service created do not count.
    """
    return [
        r
        for r in found(state).client.inventory()
        if r["stack"] not in ignore_stack and not (ignore_service_made and r["made_by_service"])
    ]


def found(state: Path = paths.STATE) -> process.Running:
    """The running emulator of a state folder.

    Raises:
        StartError: none runs.
    """
    running = process.find(state)
    if not running:
        raise process.StartError(NOT_RUNNING, expected="a running one", fix=paths.command("up", state))
    return running


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
