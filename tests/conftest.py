"""Shared by all tests: plain helpers here; what starts jsii is in tests/stacks/conftest.py."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox import leash
from tests.support import codes, documents, surroundings

gc.disable()  # until all is imported: a tenth of the imports' time goes into looking for garbage among modules
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


# One process of the product makes one session, and a test process hundreds: each would read the services' models again,
# and look for the older names of the same events.
if importlib.util.find_spec("botocore"):
    from botocore import hooks, session

    session.create_loader = functools.cache(session.create_loader)
    _make_aliaser = hooks.EventAliaser.__init__
    _event_names: dict[str, str] = {}

    def _with_shared_names(self: Any, emitter: Any, event_aliases: Any = None) -> None:
        _make_aliaser(self, emitter, event_aliases)
        if event_aliases is None or event_aliases == hooks.EVENT_ALIASES:
            self._alias_name_cache = _event_names

    setattr(hooks.EventAliaser, "__init__", _with_shared_names)  # noqa: B010  (mypy lets no method be assigned)


# What tests read is read by libyaml where it is built in, in a tenth of the time. The product's own calls keep theirs.
def _safe_load(stream: Any) -> Any:
    of_the_product = str(sys._getframe(1).f_globals.get("__name__")).startswith("hyperpod_ray")
    loader = yaml.SafeLoader if of_the_product else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(stream, Loader=loader)  # noqa: S506  (safe loaders, both)


yaml.safe_load = _safe_load


def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests write, the documents that they make commands write, and the exit codes of refusals."""
    config.pluginmanager.register(surroundings.Guard(pytest.MonkeyPatch()), "surroundings")
    config.pluginmanager.register(documents.Judge(), "documents")
    config.pluginmanager.register(codes.Judge(), "codes")


def pytest_collection_finish() -> None:
    """Take what was imported out of every later garbage collection, and look for garbage less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
