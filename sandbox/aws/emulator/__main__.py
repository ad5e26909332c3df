"""`.venv-emulator/bin/python -m sandbox.aws.emulator --port N …`: what `python -m rehearsal aws up` starts."""

import sys

from sandbox.aws.emulator.server import main

raise SystemExit(main(sys.argv[1:]))
