"""`python -m review --base origin/main`: what a change will do to running training, before it is merged."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from review.errors import ReviewError
from review.findings import Effect
from review.review import Review, review
from review.worktrees import assemblies

PROJECT = Path(__file__).resolve().parents[1]
EXIT_FOUND = 1
"""The verdict is what `--fail-on` names, or worse."""
EXIT_UNUSABLE = 2
"""The review could not be made."""
_FAIL_ON = [
    "never",
    *(effect.code for effect in sorted(Effect, reverse=True) if effect),
    "any-rejected",
    "weakened",
    "any-change",
]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; see the module."""
    options = _parser().parse_args(arguments)
    try:
        made = _review(options)
    except ReviewError as error:
        sys.stderr.write(f"review: {error}\n")
        return EXIT_UNUSABLE
    from review.report import FORMATS  # noqa: PLC0415  (after the arguments are known to be good)

    text = FORMATS[options.format](made)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stderr.write(f"review: compared in {made.seconds:.1f} s\n")
    return EXIT_FOUND if any(fails(made, on) for on in options.fail_on) else 0


def fails(made: Review, on: str) -> bool:
    """Whether a review is what `--fail-on` names, or worse."""
    if on == "never":
        return False
    if on == "any-change":
        return not made.empty
    if on == "any-rejected":
        return any(row.effect is Effect.REJECTED for one in made.environments for row in one.rows)
    if on == "weakened":
        return bool(made.weakened)
    return made.effect >= Effect.of(on)


def _review(options: argparse.Namespace) -> Review:
    if options.base_assembly and options.head_assembly:
        return review(
            options.base_assembly,
            options.head_assembly,
            only=options.env,
            base_name=options.base or "base",
            head_name=options.head or "head",
        )
    if options.base_assembly or options.head_assembly:
        raise ReviewError("got one assembly; --base-assembly and --head-assembly go together")
    if not options.base:
        raise ReviewError("nothing to compare with; give --base REVISION, or --base-assembly and --head-assembly")
    with assemblies(options.base, options.head, project=PROJECT, environment=options.env) as (base, head):
        return review(base, head, only=options.env, base_name=options.base, head_name=options.head or "working tree")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m review", description=__doc__)
    parser.add_argument("--base", metavar="REVISION", help="compare with this git revision, for example origin/main")
    parser.add_argument("--head", metavar="REVISION", help="review this revision; default: the working tree")
    parser.add_argument(
        "--base-assembly", type=Path, metavar="DIR", help="a cdk.out to compare with, instead of --base"
    )
    parser.add_argument("--head-assembly", type=Path, metavar="DIR", help="the cdk.out to review")
    parser.add_argument("--env", metavar="NAME", help="only this environment; default: all")
    parser.add_argument("--format", choices=["terminal", "markdown", "json"], default="terminal")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there; default: standard output")
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=_FAIL_ON,
        default=[],
        help="exit with 1 when the verdict is this or worse; may be repeated. any-rejected: the service refuses "
        "a part, "
        "whatever the verdict; weakened: security or recovery is reduced",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
