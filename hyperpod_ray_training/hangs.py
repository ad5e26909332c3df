"""Rules for HyperPod's hung job detection: sent as the loop begins, and the lines of progress that they look for.

The environment's rules lie in a file that head and workers mount (`RESILIENCE_HANG_RULES`): an object with `enabled`,
`rules` and `action`, as `LogMonitorConfig` of AWS's library takes them. That library sends them to the agent of the
node, from the first worker of each node. It is optional: without it, or without an agent, training continues.

The agent reads a worker's standard output, and only rank 0 writes about a run. So the worker that sent rules also
writes `step N` there while it makes steps.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hyperpod_ray_training.errors import in_three_parts
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.settings import HANG_RULES_VARIABLE

LINE_EVERY_S = 10.0
MISSING = in_three_parts(
    "hung job detection: no package toolkit-for-ray-on-sagemaker-ai, so HyperPod gets no rules; training continues",
    expected="the package in the image",
    fix="add it to the image, or remove ray.hung_job_detection from the environment file",
)
_clock = time.monotonic  # bound here: a fault of the rehearsal shifts clocks


class Watched:
    """What this process has sent, and when it last wrote a line."""

    def __init__(self) -> None:
        self.sent: dict[str, Any] | None = None
        self.writes = False
        self.line_t: float | None = None
        self.complained = False


_watched = Watched()


def watched(loop: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The user's loop, with the rules sent first of all."""

    @functools.wraps(loop)
    def run(config: dict[str, Any]) -> Any:
        begin()
        return loop(config)

    return run


def begin() -> threading.Thread | None:
    """Send the rules, unless this process has sent the same; None where there is nothing to send.

    In a thread of its own: a node without an agent takes AWS's library twelve seconds, and a recovery one.
    """
    content = rules()
    if content is None or content == _watched.sent or not _first_of_its_node():
        return None
    _watched.sent, _watched.writes = content, True
    thread = threading.Thread(target=_send, args=(content,), name="hung-job-rules", daemon=True)
    thread.start()
    return thread


def stepped(step: int, *, now: float | None = None) -> None:
    """A step is done: write a line, at most one in ten seconds."""
    now = _clock() if now is None else now
    if _watched.writes and (_watched.line_t is None or now - _watched.line_t >= LINE_EVERY_S):
        _watched.line_t = now
        _line(f"step {step}")


@contextlib.contextmanager
def paused(step: int, *, limit_s: float) -> Iterator[None]:
    """A pause that the loop declares: lines continue, so that it does not count as a hang, for `limit_s` seconds."""
    if not _watched.writes:
        yield
        return
    over, until = threading.Event(), _clock() + limit_s

    def write() -> None:
        while _clock() < until:
            _line(f"step {step}, in a pause")
            if over.wait(LINE_EVERY_S):
                return

    thread = threading.Thread(target=write, name="hung-job-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def ended(step: int) -> None:
    """All steps are done: a line for a rule's `stop_pattern`."""
    if _watched.writes:
        _line(f"all steps done: step {step}")


def rules() -> dict[str, Any] | None:
    """The environment's rules; None where it has none."""
    path = os.environ.get(HANG_RULES_VARIABLE)
    if not path:
        return None
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _complain(in_three_parts(f"hung job detection: {path}: {error}", expected="rules as JSON", fix="deploy again"))
        return None
    if not isinstance(content, dict):
        _complain(in_three_parts(f"hung job detection: {path}", expected="an object of rules", fix="deploy again"))
        return None
    return content


def _send(content: dict[str, Any]) -> None:
    try:
        from toolkit_for_ray_on_sagemaker_ai.log_monitoring import LogMonitorConfig, SageMakerLogMonitoring
    except ImportError:
        _complain(MISSING)
        return
    action = str(content.get("action", "notify"))
    if action == "cancel" and _gives_up():
        _complain(
            in_three_parts(
                "hung job detection: action 'cancel' with max_failures=0 would end the run; 'notify' is sent",
                expected="FailureConfig(max_failures=…) other than 0",
                fix="use Run.fit, or set max_failures",
            )
        )
        action = "notify"
    try:
        config = LogMonitorConfig(
            enabled=bool(content.get("enabled", True)), rules=list(content.get("rules", [])), action=action
        )
        result = SageMakerLogMonitoring(config=config).start().result
    except Exception as error:  # nothing about the watching may end what is watched
        result = {"status": "warning", "message": f"{type(error).__name__}: {error}"}
    status = result.get("status")
    if status == "configured":
        log(f"hung job detection: the node's agent has {len(config.rules)} rules, action {action}")
    elif status != "skipped":
        message = str(result.get("message") or result)[:400]
        log(f"hung job detection: {status}: {message}; training continues without rules")


def _gives_up() -> bool:
    """Whether the trainer ends the run when it loses a worker."""
    with contextlib.suppress(Exception):  # another version of Ray has it elsewhere
        from ray.train.v2._internal.execution.context import get_train_context

        failures = get_train_context().train_run_context.run_config.failure_config
        return failures is None or failures.max_failures == 0
    return False


def _first_of_its_node() -> bool:
    """Whether this is a worker of Ray Train, and the first of its node: the one for which AWS's library sends."""
    with contextlib.suppress(Exception):
        import ray
        import ray.train

        from hyperpod_ray_training.spares import warm_up

        trains = ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None
        if trains and not warm_up.under_way():  # a spare writes nothing until it trains
            return bool(ray.train.get_context().get_local_rank() == 0)
    return False


def _line(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(f"[resilience] {text}\n")
        sys.stdout.flush()


def _complain(text: str) -> None:
    """Once in a process."""
    if not _watched.complained:
        _watched.complained = True
        log(text)
