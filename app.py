"""The CDK app: one Stage per file in `environments/`.

`-c env=NAME` restricts it to one, `-c environments=FOLDER` reads the files of another folder.
"""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.stacks.app import synthesize


def main(*, outdir: str | None = None, context: dict[str, str] | None = None) -> int:
    """Build the app; exit code 2 with located messages when an environment file cannot be used."""
    return synthesize(Path(__file__).resolve().parent, outdir=outdir, context=context)


if __name__ == "__main__":
    raise SystemExit(main())
