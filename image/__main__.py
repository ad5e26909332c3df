"""`python -m image build-args [SET]`: the Docker build arguments of a set, one a line; exits 2 while the digest is
unknown.

docker build -f image/Dockerfile $(python -m image build-args) -t ray-hyperpod .
"""

from __future__ import annotations

import sys

from image.versions import ImageError, choose


def main(argv: list[str]) -> int:
    """Print the arguments; exit code 2 on bad input."""
    if not argv or argv[0] != "build-args" or len(argv) > 2:
        sys.stderr.write("usage: python -m image build-args [SET]\n")
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    try:
        arguments = choose(argv[1] if len(argv) == 2 else None).build_args()
    except ImageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write("".join(f"--build-arg {name}={value}\n" for name, value in arguments.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
