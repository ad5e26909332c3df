"""Writes the section `training` of an environment file: the run that was planned, and its best interval."""

from __future__ import annotations

import re
from pathlib import Path

from hyperpod_ray.core.amounts import shown
from hyperpod_ray.planner import PlanError, architecture, data
from hyperpod_ray.planner.outlook import Outlook


def write(path: Path, outlook: Outlook) -> Path:
    """Replace the section, or append it. The rest of the file stays as it is, comments included.

    Raises:
        PlanError: the file cannot hold the model or the way of training.
    """
    _refuse(outlook)
    text = path.read_text(encoding="utf-8")
    section = "\n".join(_section(outlook)) + "\n"
    match = re.search(r"^training:.*\n(?:(?:[ \t].*|[ \t]*#.*|[ \t]*)\n)*?(?=^\S|\Z)", text, flags=re.MULTILINE)
    if match:
        gap = "\n" if match.group().endswith("\n\n") else ""
        text = text[: match.start()] + section + gap + text[match.end() :]
    else:
        text = text.rstrip("\n") + "\n\n" + section
    path.write_text(text, encoding="utf-8")
    return path


def _refuse(outlook: Outlook) -> None:
    """What the section has no setting for would be lost without a word."""
    job = outlook.job
    ways = {
        "--precision": job.precision != "bf16", "--stack": job.stack != "pytorch",
        "--parallel": bool(job.parallel.name), "--recompute": job.recompute is not None,
        "--lora-rank": bool(job.lora_rank),
    }  # fmt: skip
    if any(ways.values()):
        raise PlanError(
            f"--write: the section training cannot hold {', '.join(name for name, used in ways.items() if used)}",
            expected="a run that the file describes whole",
            fix="write without it and give it with each plan, or plan without --write",
        )
    if job.whole:
        raise PlanError(
            "--write: the speed of a whole run, with its interruptions in it",
            expected="a speed of steps: plans take interruptions off again",
            fix="give --from-run progress.json, or plan without --write",
        )


def _section(outlook: Outlook) -> list[str]:
    job, best = outlook.job, outlook.interval
    model = job.model
    if model.name in data.models() and model == architecture.named(model.name):
        subject = f"model: {model.name}"
    elif model.source == architecture.BY_SIZE:
        subject = f"parameters: {shown(model.parameters)}"
    else:
        raise PlanError(
            "--write: a file cannot hold the shape of a config.json",
            expected="a model by its name or size",
            fix="give --model or --params, or plan without it",
        )
    seconds = max(1, round(best.seconds))
    lines = [
        "training:                   # what `hyperpod-ray plan` plans; it changes no template",
        f"  {subject}",
        f"  tokens: {shown(job.tokens)}",
        f"  sequence: {job.sequence}",
        f"  batch_tokens: {shown(job.batch_tokens)}",
        f"  save: {job.save}",
        f"  keep: {job.keep}",
    ]
    if job.tokens_per_second:
        lines.append(f"  tokens_per_second: {job.tokens_per_second:g}   # measured, of one GPU")
    lines.append(
        f"  save_every_seconds: {seconds}   # best at {outlook.rates.per_thousand.central:.3g} interruptions per 1,000 "
        f"node-days; {best.low:,.0f} to {best.high:,.0f} s cost less than 0.1 point"
    )
    return lines
