"""What tests of `lifecycle`, `process` share."""

from __future__ import annotations

import json
import os
from typing import Any

from hyperpod_ray_sandbox.aws import process
from tests.support import kubectl


def objects(seen: process.Running, *arguments: str) -> Any:
    environment = {"HOME": seen.home, "PATH": os.environ["PATH"], "KUBECONFIG": seen.kubeconfig}
    return json.loads(kubectl.output(*arguments, "-o", "json", environment=environment))
