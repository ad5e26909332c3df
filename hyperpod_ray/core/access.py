"""Whether Ray's pods may use a place in S3 or an MLflow server, by `ray.access`; and the setting that is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.core.names import TIERED_S3_VARIABLE, TRACKING_VARIABLE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_files import TEAMS_FOLDER

Mode = Literal["read", "write"]
WRITES = ("--storage",)
"""Options of the jobs whose value is written to."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A use that would fail in the pods, and what to add to the environment's file."""

    what: str
    expected: str
    fix: str


def s3_place(url: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def covers(plan: Plan, url: str, mode: Mode) -> bool:
    """Whether `ray.access.s3` lets the pods read (or write) everything below a URL."""
    bucket, key = s3_place(url)
    access = plan.settings.ray.access
    below = f"{key.rstrip('/')}/" if key else ""
    entries = access.s3 if access else []
    of_team = any(grant.bucket == bucket and grant.prefix.startswith(f"{TEAMS_FOLDER}/") for grant in entries)
    if bucket == plan.tier_bucket_name and not of_team:
        return True
    if plan.mlflow_app is not None and bucket == plan.mlflow_bucket_name:
        # the pods add artifacts and delete none, which a run's storage must
        return mode == "read"
    return any(
        grant.bucket == bucket
        and (below.startswith(grant.prefix) or key.startswith(grant.prefix))
        and mode in ("read", grant.mode)
        for grant in entries
    )


def refusals(plan: Plan, *, command: Sequence[str], variables: Mapping[str, str]) -> list[Refusal]:
    """What a job's command line and environment use that `ray.access` does not allow."""
    outcomes = [_s3(plan, url, mode) for url, mode in _uses(command, variables)]
    outcomes += (
        [_mlflow(plan, variables[TRACKING_VARIABLE])] if variables.get(TRACKING_VARIABLE, "").startswith("arn:") else []
    )
    outcomes += [_tiered(plan, variables)] if _writer(command) == "tiered" else []
    kept: list[Refusal] = []
    for refusal in outcomes:
        if refusal is not None and refusal not in kept:
            kept.append(refusal)
    return kept


def _words(command: Sequence[str]) -> list[str]:
    """The command's words; those of a shell's `-c` too, and `--option=value` as two."""
    words: list[str] = []
    for word in command:
        try:
            parts = shlex.split(word) if " " in word else [word]
        except ValueError:
            parts = word.split()
        for part in parts:
            name, equals, value = part.partition("=")
            words += [name, value] if equals and name.startswith("--") else [part]
    return words


def _uses(command: Sequence[str], variables: Mapping[str, str]) -> Iterator[tuple[str, Mode]]:
    words = _words(command)
    for index, word in enumerate(words):
        if word.startswith("s3://"):
            yield word, "write" if index and words[index - 1] in WRITES else "read"
    for name, value in variables.items():
        if value.startswith("s3://"):
            yield value, "write" if name == TIERED_S3_VARIABLE else "read"


def _writer(command: Sequence[str]) -> str:
    words = _words(command)
    return words[words.index("--writer") + 1] if "--writer" in words[:-1] else ""


def _s3(plan: Plan, url: str, mode: Mode) -> Refusal | None:
    return None if covers(plan, url, mode) else s3_refusal(plan, url, mode)


def s3_refusal(plan: Plan, url: str, mode: Mode) -> Refusal:
    """What to add for a place in S3 that the pods may not use."""
    bucket, key = s3_place(url)
    prefix = f", prefix: {key.rstrip('/')}/" if key.rstrip("/") else ""
    return Refusal(
        what=f"Ray's pods may not {mode} {url}",
        expected="an entry of ray.access.s3 that allows it",
        fix=f"add {{bucket: {bucket}{prefix}, mode: {mode}}} to ray.access.s3 and deploy",
    )


def _mlflow(plan: Plan, arn: str) -> Refusal | None:
    access = plan.settings.ray.access
    if access and access.mlflow_arn == arn:
        return None
    if plan.mlflow_app is not None:
        return Refusal(
            what=f"{TRACKING_VARIABLE} names {arn} beside ray.tracking.mlflow_app",
            expected="one MLflow server",
            fix="remove the variable: the pods get the app's ARN",
        )
    return Refusal(
        what=f"Ray's pods may not use {arn}",
        expected="ray.access.mlflow_arn to name it",
        fix=f"set ray.access.mlflow_arn: {arn} and deploy",
    )


def _tiered(plan: Plan, variables: Mapping[str, str]) -> Refusal | None:
    if plan.settings.hyperpod.tiered_storage is None:
        return Refusal(
            what="--writer tiered needs HyperPod's tiered storage, which is off",
            expected="hyperpod.tiered_storage",
            fix="set hyperpod.tiered_storage and deploy, or use --writer auto",
        )
    base = {**plan.settings.ray.env, **variables}.get(TIERED_S3_VARIABLE)
    if base is not None and not base.startswith("s3://"):
        return Refusal(
            what=f"{TIERED_S3_VARIABLE} is {base}, no place in S3",
            expected="s3://BUCKET/PREFIX",
            fix=f"remove it, or use s3://{plan.tier_bucket_name}/…",
        )
    return None


def tier_base(plan: Plan) -> str | None:
    """Where `--writer tiered` puts its second tier; None without tiered storage."""
    return f"s3://{plan.tier_bucket_name}/checkpoints" if plan.tier_bucket_name else None
