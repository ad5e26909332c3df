"""`hyperpod-ray local`: rehearse on this machine, on an embedded AWS and on Ray processes, without an account."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hyperpod_ray.cli.local_ray import app as ray_app
from hyperpod_ray.cli.local_state import rehearsal_errors, state_folder
from hyperpod_ray.cli.options import Env, Plain, command, current, folder, group
from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, ERROR, OK, OpsError
from hyperpod_ray_rules import faults as fault_names

app = group(
    "Rehearse on this machine, without an AWS account. Runs the sandbox (embedded AWS and Kubernetes APIs) and Ray "
    "processes on loopback.",
    examples=["local deploy dev", "local rehearse dev --faults node", "local destroy dev", "local down"],
)
app.add_typer(ray_app, name="ray")
faults_app = group(
    "Inject errors, throttles and delays into the embedded AWS.",
    examples=["local faults set sagemaker.CreateCluster --code ThrottlingException", "local faults clear"],
)
app.add_typer(faults_app, name="faults")

State = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of its state and logs. Default: .local/aws.")
]


@contextlib.contextmanager
def sandbox_errors() -> Iterator[None]:
    """Turn a failure of the embedded AWS into one line."""
    from hyperpod_ray_sandbox.aws import client, install, process

    try:
        yield
    except (install.InstallError, process.StartError, client.ControlError) as error:
        raise OpsError.of(error, code=ERROR) from error


@command(app, examples=["local setup"])
def setup() -> int:
    """Install what the embedded AWS needs. Skips what is installed."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.setup()
    return OK


@command(app, examples=["local up", "local up --region eu-west-1 --account 123456789012"])
def up(  # noqa: PLR0917
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this cluster instead of the embedded Kubernetes API.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1. Default: 4566, or a free one.")
    ] = None,
    seconds_per_state: Annotated[float, typer.Option(min=0, help="Length of each state of a resource.")] = 0.3,
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="Twelve digits. Default: 000000000001.")
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="REGION", help="Region of clients and nodes. Default: us-west-2.")
    ] = None,
    api_server: Annotated[
        Literal["embedded", "real"],
        typer.Option(metavar="KIND", help="embedded, or real: a kube-apiserver and an etcd of yours."),
    ] = "embedded",
    api_server_folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the real server's binaries are. Default: KUBEBUILDER_ASSETS."),
    ] = None,
    state: State = None,
) -> int:
    """Start the embedded AWS and Kubernetes APIs."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.up(
            state=state_folder(state),
            kubeconfig=kubeconfig,
            port=port,
            seconds_per_state=seconds_per_state,
            account=account,
            region=region,
            api_server=api_server,
            api_server_folder=api_server_folder,
        )
    return OK


@command(app, examples=["local down"])
def down(state: State = None) -> int:
    """Stop the embedded AWS and delete everything in it. Its logs stay."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.down(state=state_folder(state))
    return OK


@command(app, examples=["local status"])
def status(state: State = None) -> int:
    """Show the processes of the embedded AWS and where they are. Exit code 3 when one does not run."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        return OK if commands.status(state=state_folder(state)) else CONDITION_FALSE


@command(app, examples=["local repair"])
def repair(state: State = None) -> int:
    """Start again what ended or is silent. Keeps what is deployed.

    Exit code 3 when a process stays silent.
    """
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        return OK if commands.repair(state=state_folder(state)) else CONDITION_FALSE


@command(app, examples=["local env", "local env --pod ray/POD"])
def env(
    state: State = None,
    pod: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="With the credentials that EKS Pod Identity gives a pod."),
    ] = None,
) -> int:
    """Print exports that point a shell at the embedded AWS. To set them: eval "$(hyperpod-ray local env)"."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.env(state=state_folder(state), pod=pod)
    return OK


@command(app, examples=["local deploy dev", "local deploy prod"])
def deploy(env: Env, state: State = None) -> int:
    """Deploy an environment to the embedded AWS. Its file stays as it is.

    The embedded AWS starts in the environment's account and region. The container image and the Helm charts are
    replaced by stand-ins. Existing networks, clusters and file systems are replaced by new ones.
    """
    from hyperpod_ray.cli import local_deploy

    current.environment = env
    with sandbox_errors():
        return local_deploy.deploy(env, folder=folder(), state=state_folder(state))


@command(app, examples=["local destroy dev"])
def destroy(env: Env, state: State = None) -> int:
    """Destroy an environment on the embedded AWS. Exit code 3 when something is left."""
    from hyperpod_ray.cli import local_deploy

    current.environment = env
    with sandbox_errors():
        return local_deploy.destroy(env, folder=folder(), state=state_folder(state))


@command(app, "fail-node", examples=["local fail-node i-0123456789abcdef0"])
def fail_node(
    node_id: Annotated[str, typer.Argument(metavar="NODE", help="Instance ID (i-…).")],
    message: Annotated[str, typer.Option(help="What the health agent reports.")] = "NVRM: Xid 74: NVLink error",
    state: State = None,
) -> int:
    """Make a HyperPod node of the embedded AWS faulty."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.show(commands.found(state_folder(state)).client.fail_node(node_id, message))
    return OK


@command(app, examples=["local quota ml.g5.8xlarge 4"])
def quota(
    name: Annotated[str, typer.Argument(help="Name of a quota, or an instance type for its quota of cluster usage.")],
    value: Annotated[float, typer.Argument(help="The new value.")],
    state: State = None,
) -> int:
    """Set a service quota of the embedded AWS."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        commands.found(state_folder(state)).client.set_quota(name, value)
    return OK


@command(app, examples=["local conformance", "local conformance --kubeconfig ~/.kube/config --only quota"])
def conformance(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Kubeconfig of a cluster administrator. Default: $KUBECONFIG."),
    ] = None,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Send the requests whose name contains this.")] = "",
) -> int:
    """Compare a Kubernetes API server with the embedded one. Sends a list of requests and compares the answers.

    Creates the namespaces `bad…`, StorageClasses, roles and, where they are missing, KubeRay's definitions. Deletes
    what it created, and nothing else. Exit code 3 on a disagreement.
    """
    from hyperpod_ray.ops import output
    from hyperpod_ray_sandbox.errors import SandboxError
    from hyperpod_ray_sandbox.kubernetes.conformance import compare

    try:
        differences = compare.compare(kubeconfig=kubeconfig, only=only, show=output.write_line)
    except SandboxError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    return CONDITION_FALSE if differences else OK


@command(app, examples=["local inventory", f"local inventory --fail-if-any --ignore-stack {names.BOOTSTRAP_STACK}"])
def inventory(
    ignore_stack: Annotated[
        list[str] | None, typer.Option(metavar="STACK", help="Omit what this stack owns; repeatable.")
    ] = None,
    ignore_service_made: Annotated[
        bool, typer.Option("--ignore-service-made", help="Omit log groups that a service created.")
    ] = False,
    fail_if_any: Annotated[bool, typer.Option("--fail-if-any", help="Exit code 3 when something is listed.")] = False,
    state: State = None,
) -> int:
    """Print everything that exists in the embedded AWS, as JSON."""
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        resources = commands.inventory(
            state=state_folder(state), ignore_stack=tuple(ignore_stack or ()), ignore_service_made=ignore_service_made
        )
        commands.show(resources)
    return CONDITION_FALSE if resources and fail_if_any else OK


@command(
    faults_app,
    "set",
    examples=[
        "local faults set sagemaker.CreateCluster --code ThrottlingException --count 3",
        "local faults set hyperpod.workers --effect no-capacity --count -1",
        "local faults set hyperpod.ml.g5.48xlarge --effect no-capacity --count -1",
    ],
)
def faults_set(  # noqa: PLR0917
    operation: Annotated[str, typer.Argument(help="service.Operation, or AWS::Service::Type.create (update, delete).")],
    code: Annotated[str, typer.Option(metavar="CODE", help="Error code to answer.")] = "",
    message: Annotated[str, typer.Option(help="Error message to answer.")] = "injected fault",
    status: Annotated[int, typer.Option(help="HTTP status of the error.")] = 400,
    delay_seconds: Annotated[float, typer.Option(min=0, help="Delay of the answer.")] = 0.0,
    count: Annotated[int, typer.Option(help="How many times; -1: every time.")] = 1,
    effect: Annotated[
        str,
        typer.Option(
            metavar="EFFECT", help="stuck (fsx.DeleteFileSystem) or no-capacity (hyperpod.GROUP, hyperpod.TYPE)."
        ),
    ] = "",
    state: State = None,
) -> int:
    """Inject a fault, and list all faults."""
    fault: dict[str, Any] = {
        "operation": operation,
        "code": code,
        "message": message,
        "status": status,
        "delay_seconds": delay_seconds,
        "count": count,
        "effect": effect,
    }
    return _faults("set", state, fault)


@command(faults_app, "clear", examples=["local faults clear"])
def faults_clear(state: State = None) -> int:
    """Remove every fault."""
    return _faults("clear", state, {})


@command(faults_app, "list", examples=["local faults list"])
def faults_list(state: State = None) -> int:
    """List the faults that are set."""
    return _faults("list", state, {})


def _faults(action: Literal["set", "clear", "list"], state: Path | None, fault: dict[str, Any]) -> int:
    from hyperpod_ray_sandbox.aws import commands

    with sandbox_errors():
        control = commands.found(state_folder(state)).client
        if action == "set":
            control.set_fault(**fault)
        elif action == "clear":
            control.clear_faults()
        commands.show(control.faults())
    return OK


Manifest = Annotated[str, typer.Argument(metavar="ENV", help="Environment, or the path of a RayCluster manifest.")]
Job = Annotated[str, typer.Option(metavar="FOLDER", help="Folder in jobs/.")]
Interval = Annotated[int, typer.Option(help="Steps between two checkpoints.")]
StepDelay = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Extra seconds of each step.")]
ReplaceAfter = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="From a lost machine to its replacement (minutes on HyperPod).")
]
Drain = Annotated[int, typer.Option(min=0, metavar="SECONDS", help="Time that a drained pod has.")]
FaultTimeout = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Longest wait for the first steps, and for a new step after a fault."),
]
Nodes = Annotated[int, typer.Option(min=1, help="Most nodes that train.")]
Spares = Annotated[int, typer.Option(min=0, help="Nodes that stand by.")]
RanksPerNode = Annotated[int, typer.Option(min=1, metavar="RANKS", help="Training processes of a node.")]
ReportFolder = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of the report. Default: .rehearsal/TIME.")
]


def _listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@command(
    app,
    examples=[
        "local rehearse local",
        "local rehearse prod --faults node,freeze -o json",
        "local rehearse local --kills 50 --seed 7",
    ],
)
def rehearse(  # noqa: PLR0917
    env: Manifest,
    faults: Annotated[
        str,
        typer.Option(metavar="NAME,NAME", help=f"Faults to inject, in this order: {', '.join(fault_names.NAMES)}."),
    ] = "worker,node,freeze",
    kills: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Instead of --faults: kill so often, at random moments.")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --kills: the same seed plans the same kills.")] = 0,
    job: Job = "finetune",
    interval: Interval = 10,
    step_delay: StepDelay = 0.15,
    replace_after: ReplaceAfter = 2.0,
    drain: Drain = 12,
    fault_timeout: FaultTimeout = 240.0,
    nodes: Nodes = 2,
    spares: Spares = 0,
    ranks_per_node: RanksPerNode = 1,
    out: ReportFolder = None,
    web: Annotated[bool, typer.Option("--web", help="Serve a live page on 127.0.0.1 while it runs.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --web: local port; 0: any free port.")] = 0,
    form: Plain = "table",
) -> int:
    """Train on this machine, inject faults and report the recovery. Exit code 3 when training did not survive.

    With --kills, each step is compared with the undisturbed run's; exit code 3 when a checkpoint was lost.
    """
    from hyperpod_ray_sandbox import leash
    from hyperpod_ray_sandbox.rehearsal import commands
    from hyperpod_ray_sandbox.rehearsal.options import Options

    if kills is not None and (web or form == "json"):
        raise OpsError(
            f"--kills: {kills} with {'--web' if web else '-o json'}",
            expected="a report as a table; soak.jsonl in the report's folder has each kill",
            fix="leave the option out",
            code=BAD_USE,
        )
    with rehearsal_errors():
        leash.hold()
        options = Options(
            faults=_listed(faults),
            job=job,
            interval=interval,
            step_delay_s=step_delay,
            replace_after_s=replace_after,
            drain_s=drain,
            fault_timeout_s=fault_timeout,
            max_pods=nodes,
            spares=spares,
            ranks_per_node=ranks_per_node,
        )
        if kills is not None:
            survived = commands.soak(env, kills=kills, seed=seed, options=options, out=out)
        else:
            survived = commands.rehearse(
                env, options=options, out=out, as_json=form == "json", web_port=port if web else None
            )
    return OK if survived else CONDITION_FALSE


@command(app, examples=["local teams local", "local teams local -o json"])
def teams(env: Manifest, out: ReportFolder = None, form: Plain = "table") -> int:
    """Train for two teams: one borrows, is preempted and resumes. Exit code 3 when its losses differ.

    A stand-in decides who is admitted, with Kueue's rules for preemption. It is not Kueue.
    """
    from hyperpod_ray_sandbox import leash
    from hyperpod_ray_sandbox.rehearsal import commands

    with rehearsal_errors():
        leash.hold()
        survived = commands.teams(env, out=out, as_json=form == "json")
    return OK if survived else CONDITION_FALSE


def register(root: typer.Typer) -> None:
    """Add the group and the demo to the root."""
    root.add_typer(app, name="local")

    @command(root, examples=["demo", "demo --no-rehearsal --keep"])
    def demo(
        rehearsal: Annotated[
            bool, typer.Option("--rehearsal/--no-rehearsal", help="Run the training job that loses a node.")
        ] = True,
        keep: Annotated[bool, typer.Option("--keep", help="Leave the embedded AWS running.")] = False,
    ) -> int:
        """Deploy, break, recover and destroy on this machine. Needs no AWS account."""
        with rehearsal_errors():
            from hyperpod_ray_sandbox import leash
            from hyperpod_ray_sandbox.rehearsal.demo import demo as run

            if not keep:
                leash.hold()
            return OK if run(rehearsal=rehearsal, keep=keep) else ERROR


SLURM_FAULTS = ("process", "node", "controller", "batch-host", "spare")
"""Faults of `hyperpod_ray_sandbox.rehearsal.slurm`, which is imported only when it runs; a test compares the two."""


@command(app, examples=["local slurm", "local slurm --launcher ray", "local slurm --faults node,batch-host -o json"])
def slurm(  # noqa: PLR0917
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Faults to inject, in this order: {', '.join(SLURM_FAULTS)} (Ray). Default: all of the launcher.",
        ),
    ] = None,
    launcher: Annotated[
        Literal["torchrun", "ray"],
        typer.Option(metavar="NAME", help="What starts the ranks: torchrun (train.sbatch) or ray (ray.sbatch)."),
    ] = "torchrun",
    job: Job = "finetune",
    interval: Interval = 10,
    step_delay: StepDelay = 0.15,
    replace_after: ReplaceAfter = 3.0,
    timers: Annotated[
        Literal["tuned", "default"],
        typer.Option(metavar="KIND", help="tuned: a requeued job begins after seconds; default: after two minutes."),
    ] = "tuned",
    fault_timeout: FaultTimeout = 400.0,
    out: ReportFolder = None,
    form: Plain = "table",
) -> int:
    """Train on a real Slurm on loopback and inject faults. Exit code 3 when training did not survive.

    Needs Debian's packages slurm-wlm and munge. Starts a controller and four nodes, and ends them.
    """
    from hyperpod_ray_sandbox import leash
    from hyperpod_ray_sandbox.rehearsal.slurm import commands
    from hyperpod_ray_sandbox.rehearsal.slurm.rehearse import FAULTS_OF, Options

    with rehearsal_errors():
        leash.hold()
        options = Options(
            faults=FAULTS_OF[launcher] if faults is None else _listed(faults),
            launcher=launcher,
            job=job,
            interval=interval,
            step_delay_s=step_delay,
            replace_after_s=replace_after,
            timers=timers,
            fault_timeout_s=fault_timeout,
        )
        survived = commands.slurm(options=options, out=out, as_json=form == "json")
    return OK if survived else CONDITION_FALSE
