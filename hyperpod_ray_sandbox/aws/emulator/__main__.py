"""`.venv-emulator/bin/python -m hyperpod_ray_sandbox.aws.emulator --port N …`: what `hyperpod-ray local up` starts."""

import sys

from hyperpod_ray_sandbox.aws.emulator.server import main

raise SystemExit(main(sys.argv[1:]))
