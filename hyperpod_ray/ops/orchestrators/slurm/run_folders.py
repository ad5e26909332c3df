"""What runs wrote about themselves on a cluster of Slurm, read over Session Manager where `/fsx` is mounted.

`hyperpod_ray.ops.in_ray.runs`, which reads run folders for a Ray cluster, is sent as the text of one command, and the
answer comes back compressed. Nothing is installed, written or left on the node. The node's own user reads: what a run's
owner keeps from others stays unread, and is named.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import shlex
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.observe import hyperpod, slurm
from hyperpod_ray.ops.observe.snapshot import Instance
from hyperpod_ray.ops.output import log
from hyperpod_ray.ops.reach.clients import SlurmTarget

STORAGE = f"{names.MOUNT_PATH}/runs"
"""Where `jobs/slurm` puts runs, unless `RUN_STORAGE` names another folder."""
SECONDS = 180
"""A run has many files, and their sizes are added up on a file system that others use."""
_ON_NODE = """
import base64, json, os, sys, types, zlib
sys.modules["sent"] = types.ModuleType("sent")
for name, text in MODULES.items():
    module = sys.modules["sent." + name] = types.ModuleType("sent." + name)
    module.__package__ = "sent"
    exec(text, module.__dict__)
folder = sys.argv[1]
try:
    os.listdir(folder)
except OSError as error:
    sys.exit(f"{folder}: {error.strerror}")
listed = [one for one in os.listdir(folder) if one[0] != "."]
closed = [one for one in listed if not os.access(os.path.join(folder, one), os.R_OK)]
answer = json.dumps({"runs": module.read_all(folder), "closed": sorted(closed)})
sys.stdout.write(base64.encodebytes(zlib.compress(answer.encode())).decode())
"""
Runner = Callable[[Sequence[str]], str]


def command(storage: str) -> str:
    """What runs on the node, in one line: Python of the system, and its standard library alone."""
    texts = {module: _code(Path(reader.__file__).with_name(f"{module}.py")) for module in ("history", "runs")}
    program = f"MODULES = {texts!r}{_ON_NODE}"
    packed = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    start = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
    words = ["python3", "-c", start, storage]
    return f"echo {slurm.MARK} && {shlex.join(words)} && echo {slurm.DONE}"


def _code(path: Path) -> str:
    """A module without its comments and docstrings, which the node has no use for: a command line is bounded."""
    text = path.read_text("utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) and len(body) > 1 else ():
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                left_out |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return "\n".join(
        line
        for number, line in enumerate(text.splitlines(), 1)
        if number not in left_out and line.strip() and not line.strip().startswith("#")
    )


def read(target: SlurmTarget, storage: str, *, run: Runner | None = None) -> list[State]:
    """The state of every run in a folder of the shared file system.

    Args:
        target: The environment.
        storage: Folder of runs on the nodes.
        run: Runs the AWS CLI. Default: a process.

    Raises:
        OpsError: No node runs, the plugin is missing, or the folder cannot be read.
    """
    cluster = hyperpod.cluster(target)
    node = None if cluster is None else reading_node(target, hyperpod.instances(target))
    if cluster is None or node is None:
        raise OpsError(
            "no controller or login node runs",
            expected=f"a node that mounts {names.MOUNT_PATH}",
            fix=f"hyperpod-ray status {target.name}",
        )
    answer = parsed((run or _run(storage))(slurm.session(target, cluster, node, command(storage))))
    if closed := answer["closed"]:
        log(f"not readable on {node.group}: {', '.join(closed)}")
    return run_state.states(answer["runs"])


def reading_node(target: SlurmTarget, instances: Sequence[Instance]) -> Instance | None:
    """A login node where one runs: adding up a run's files is no work for the controller, unless there is no other."""
    login = {group.name for group in target.plan.login}
    found = next((one for one in instances if one.group in login and one.status == "Running"), None)
    return found or slurm.controller_of(target, instances)


def parsed(text: str) -> Any:
    """The answer of `command`; what Session Manager prints around it is skipped."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        inner = lines[lines.index(slurm.MARK) + 1 : lines.index(slurm.DONE)]
        return json.loads(zlib.decompress(base64.b64decode("".join(inner), validate=True)))
    except (ValueError, binascii.Error, zlib.error):
        raise OpsError(
            "the answer about the runs is cut short",
            expected="all of it over Session Manager",
            fix="run the command again",
        ) from None


def _run(storage: str) -> Runner:
    fix = f"give --storage FOLDER, where {names.RUN_STORAGE_VARIABLE} of the jobs is not {storage}"
    return lambda words: slurm.answer(words, seconds=SECONDS, expectation="the run folders to be read", fix=fix)
