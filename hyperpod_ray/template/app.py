"""The CDK app of this project: one Stage per file in `environments/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hyperpod_ray.stacks.app import synthesize

if TYPE_CHECKING:
    from hyperpod_ray.stacks.environment import EnvironmentStage


def extend(stage: EnvironmentStage) -> None:
    """Add your own to an environment: stacks, alarms, aspects, Kubernetes objects. Default: nothing."""


def main(*, outdir: str | None = None, context: dict[str, str] | None = None) -> int:
    """Build the app; `hyperpod-ray review` calls this for both revisions."""
    return synthesize(Path(__file__).resolve().parent, extend=extend, outdir=outdir, context=context)


if __name__ == "__main__":
    raise SystemExit(main())
