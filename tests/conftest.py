"""Shared by all tests: plain helpers here; what starts jsii is in tests/stacks/conftest.py."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

from hyperpod_ray_sandbox import leash
from tests.support import codes, documents, surroundings

surroundings.clean()
# some container images switch it off: each of a run's hundreds of processes would compile the project's modules again
sys.dont_write_bytecode = False

# what is installed beside this interpreter (node, cdk's Node.js, linters) comes before the system's
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"

# A shell starts background jobs with SIGINT ignored, and every process of theirs inherits that. With a handler of its
# own this process takes SIGINT again, and what it starts begins with the default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Emulators, API servers, Ray, jobs, CLIs: whatever tests start ends with this process, killed or not.
leash.hold()


# One process of the product makes one session, and a test process hundreds: each would read the services' models again.
if importlib.util.find_spec("botocore"):
    from botocore import session

    session.create_loader = functools.cache(session.create_loader)


def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests write, the documents that they make commands write, and the exit codes of refusals."""
    config.pluginmanager.register(surroundings.Guard(), "surroundings")
    config.pluginmanager.register(documents.Judge(), "documents")
    config.pluginmanager.register(codes.Judge(), "codes")


def pytest_collection_finish() -> None:
    """Take what was imported out of every later garbage collection."""
    gc.collect()
    gc.freeze()
