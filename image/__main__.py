"""The image's parameter set on the command line. Exit codes: 0 fine, 1 the registry did not answer, 2 bad use or file.

python -m image build-args [SET]        Docker build arguments of a set; refused while its digest is unknown
python -m image pin [SET] [--update]    ask the registry for the base's digest and record it in versions.yaml
"""

from __future__ import annotations

import argparse
import sys

from image.versions import ImageError, choose, record_digest


def main(argv: list[str]) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(
        prog="python -m image", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    arguments = commands.add_parser("build-args", help="docker build -f image/Dockerfile $(python -m image build-args)")
    pin = commands.add_parser("pin", help="record the base image's digest; one that is recorded must still be true")
    pin.add_argument("--update", action="store_true", help="take the tag's new digest where the tag was moved")
    pin.add_argument("--mirror", metavar="URL", help="registry to ask instead of the base's own")
    for command in (arguments, pin):
        command.add_argument("set", nargs="?", help="default: the file's `default`")
    options = parser.parse_args(argv)
    try:
        chosen = choose(options.set)
        if options.command == "build-args":
            lines = [f"--build-arg {name}={value}" for name, value in chosen.build_args().items()]
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            return 0
    except ImageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    from image.registry import digest  # noqa: PLC0415  (only this command needs the network's libraries)

    try:
        found = digest(chosen.base, chosen.tag, mirror=options.mirror)
        said = record_digest(chosen, found, update=options.update)
    except ImageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{chosen.base}:{chosen.tag}@{found}: {said}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
