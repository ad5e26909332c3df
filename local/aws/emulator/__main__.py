"""`.venv-emulator/bin/python -m local.aws.emulator --port N …`: what `python -m local aws up` starts."""

import sys

from local.aws.emulator.server import main

raise SystemExit(main(sys.argv[1:]))
