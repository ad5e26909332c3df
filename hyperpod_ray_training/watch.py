"""Runs beside Ray's controller: notes every error, and stops a run that no retry can help.

Ray retries forever with `max_failures=-1`, and an exception out of a user callback ends the run in spite of it. That
is the only way to stop on purpose, so this callback raises for exactly two reasons and never by accident.
"""

from __future__ import annotations

from typing import Any

from ray.exceptions import RayError
from ray.train import UserCallback

from hyperpod_ray_training.errors import MARK, InputError, Unrecoverable, in_three_parts, of_user_by
from hyperpod_ray_training.fresh_view import FreshView
from hyperpod_ray_training.hardware import SIGNS
from hyperpod_ray_training.history import consequence
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.run_parts import RunFacts
from hyperpod_ray_training.submissions import cause_of

# what a broken peer, a broken network or a broken node looks like from a healthy rank: never the user's code
_HARDWARE = (
    "Timed out",
    "timeout",
    "Connection",
    "NCCL",
    "gloo",
    "ActorDied",
    "ActorUnavailable",
    "Worker",
    "Barrier",
    *SIGNS,
)


class Watch(UserCallback):
    """Notes errors in the journal; stops on Unrecoverable and on the same error of user code again and again."""

    def __init__(self, run: RunFacts, *, elastic: bool = False) -> None:
        self.run = run
        self.elastic = elastic
        self.last: tuple[str, Any] | None = None
        self.times = 0
        self.view: FreshView | None = None

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Called by Ray on its controller after workers failed."""
        fatal = None
        try:
            fatal = self._judge(worker_exceptions)
        except Exception as error:
            log(f"watch: {type(error).__name__}: {error}")
        if fatal is not None:
            raise Unrecoverable(fatal)
        if self.elastic:
            # made here, on the controller: a thread does not travel with the callback
            self.view = self.view or FreshView()
            self.view.after_failure()

    def _judge(self, worker_exceptions: dict[int, Exception]) -> str | None:
        journal = Journal(self.run.folder(), name=self.run.name)
        fatal = None
        texts = {rank: self._with_way_out(_describe(error)) for rank, error in sorted(worker_exceptions.items())}
        for rank, error in sorted(worker_exceptions.items()):
            journal.event("error", rank=rank, message=texts[rank][:2000])
            if MARK in str(error):
                fatal = cause_of(error)
            elif isinstance(_inner(error), InputError):
                fatal = str(_inner(error))
        script_error = next((texts[rank] for rank, error in sorted(worker_exceptions.items())
                             if _of_script(error, texts[rank])), None)  # fmt: skip
        limit = self.run.settings.crash_loop_limit
        if fatal is None and script_error is not None and limit:
            key = (script_error, journal.progress.get("last_checkpoint_step"))
            self.times = self.times + 1 if key == self.last else 1
            self.last = key
            if self.times >= limit:
                fatal = in_three_parts(
                    f"the same error {self.times} times in a row without a new checkpoint: {script_error}",
                    expected="a checkpoint between two errors",
                    fix="repair the code, then submit the same run again",
                )
        own = {rank: text for rank, text in texts.items() if not consequence(text)} or texts
        first = next((f"rank {rank}: {text}" if len(texts) > 1 else text for rank, text in own.items()), "")
        journal.update(at_once=True, state="failed" if fatal else "recovering", last_error=first[:2000])
        return fatal

    def _with_way_out(self, text: str) -> str:
        """An error's text; where a collective has waited for its limit, also what to do if no rank was lost."""
        if not any(words in text for words in _LIMITS):
            return text
        limit = self.run.settings.process_group_timeout_s
        return in_three_parts(
            text.rstrip("."),
            expected=f"every rank in the collective within process_group_timeout_s ({limit})",
            fix="training.pause() on every rank around what takes longer, or raise RESILIENCE_PROCESS_GROUP_TIMEOUT_S",
        )


_LIMITS = ("Timed out waiting", "Watchdog caught collective operation timeout")
"""What gloo and NCCL say where a collective has reached its limit."""


def _of_script(error: Exception, text: str) -> bool:
    """Whether an error is the script's own, whatever machines, networks and workers it names."""
    if not isinstance(_inner(error), (RuntimeError, OSError, RayError)):
        return True
    if not any(word in text for word in _HARDWARE):
        return True
    return not any(sign in text for sign in SIGNS) and of_user_by(str(getattr(error, "_traceback_str", "")))


def _inner(error: Exception) -> BaseException:
    inner = getattr(error, "_base_exc", None)
    return inner if isinstance(inner, BaseException) else error


def _describe(error: Exception) -> str:
    inner = _inner(error)
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    return f"{type(inner).__name__}: {lines[0] if lines else ''}"
