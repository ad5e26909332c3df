"""`.venv-emulator/bin/python -m sandbox.aws.emulator --port N …`: what `hyperpod-ray local up` starts."""

import sys

from sandbox.aws.emulator.server import main

raise SystemExit(main(sys.argv[1:]))
