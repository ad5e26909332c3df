"""How long a whole review takes from nothing, as ratios to one synth of the same run: the machine's speed cancels out.

    .venv/bin/python benchmarks/review.py [--runs 3] [--env prod]

Two reviews, each beside a synth of the environment: one setting of its file changed, and a line of code changed. CPU
seconds of Python and its Node.js, medians. A synth is `python app.py` with the CDK's validation, as `cdk synth`
and `deploy` run it, and without, as the review does. The bar is 1.5 of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
REVIEW = "from hyperpod_ray.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


def cpu(command: list[str], *, folder: Path, **variables: str) -> float:
    """CPU seconds of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = f"{folder}"
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_more(text: str) -> str:
    """An environment file with one more node in its last group.

    Raises:
        ValueError: the file has no count, so that nothing would be compared.
    """
    *_, last = re.finditer(r"\bcount: (\d+)", text)
    return f"{text[: last.start(1)]}{int(last[1]) + 1}{text[last.end(1) :]}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--env", default="prod")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="review-benchmark-") as name:
        clone = Path(name) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
        if (PROJECT / ".cache").is_dir():
            (clone / ".cache").symlink_to(PROJECT / ".cache")
        times: dict[str, list[float]] = {}
        file, code = clone / "environments" / f"{options.env}.yaml", clone / "stacks" / "base.py"
        kept = {path: path.read_text(encoding="utf-8") for path in (file, code)}
        review = [sys.executable, "-c", REVIEW, "review", options.env, "--base", "HEAD", "--output", "json"]
        synth = [sys.executable, "app.py"]
        for _ in range(options.runs):
            for title, validated in (("synth, validated", "true"), ("synth, not validated", "false")):
                with tempfile.TemporaryDirectory() as out:
                    context = json.dumps({"env": options.env})
                    used = cpu(synth, folder=clone, CDK_OUTDIR=out, CDK_CONTEXT_JSON=context, CDK_VALIDATION=validated)
                times.setdefault(title, []).append(used)
            for title, path, text in (
                ("review of a changed setting", file, one_more(kept[file])),
                ("review of changed code", code, kept[code] + "\n# a line\n"),
            ):
                path.write_text(text, encoding="utf-8")
                times.setdefault(title, []).append(cpu(review, folder=clone))
                path.write_text(kept[path], encoding="utf-8")
    middle = {title: statistics.median(values) for title, values in times.items()}
    whole, bare = middle["synth, validated"], middle["synth, not validated"]
    print(f"{'':30} {'CPU, s':>8} {'validated':>10} {'bare':>6}   (ratios to a synth; bar 1.5 of the validated one)")
    for title, value in middle.items():
        print(f"{title:30} {value:8.2f} {value / whole:10.2f} {value / bare:6.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
