"""Nothing outside of the checkout decides a test: variables, home, time zone and umask are set before the first."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
FOREIGN = (
    "AWS_", "BOTO_", "CDK_", "GIT_", "HF_", "HYPERPOD_RAY_", "KUBECONFIG", "KUBERNETES_", "KUBE_", "LC_",
    "MLFLOW_", "RAY_", "RESILIENCE_", "SLURM_", "TRAIN_", "WANDB_", "XDG_",
)  # fmt: skip
"""Beginnings of the names of variables that decide something in the product or in what it calls.

KUBEBUILDER_ASSETS stays: it names another server for the conformance tests to judge.
"""
SINGLE = ("COLUMNS", "FORCE_COLOR", "LANGUAGE", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS")
DATE = "2026-11-22"
"""The day for which the tests were written: checks judge dates by it."""
CACHES = (".cache", ".local", ".rehearsal", ".venv", ".venv-emulator", ".venv-rehearsal", "node_modules", "dist")
"""Folders of the checkout that tests may write, beside bytecode and pytest's own."""
UNPACKED = ("hyperpod_ray_sandbox", "charts", "dist")
"""The folder below the checkout where the stand-in charts are packaged, and unpacked at the first synthesis."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def cleaned(variables: Mapping[str, str], *, home: Path) -> dict[str, str]:
    """Return the variables without what decides something, for a person whose home is empty."""
    kept = {name: value for name, value in variables.items() if not name.startswith(FOREIGN) and name not in SINGLE}
    # where packages are installed from is no answer of the product's
    before = Path(variables.get("HOME", "/"))
    for name, file in (("PIP_CONFIG_FILE", ".config/pip/pip.conf"), ("NPM_CONFIG_USERCONFIG", ".npmrc")):
        if (before / file).is_file():
            kept.setdefault(name, str(before / file))
    # each process's home is empty, and both are the same for all: unpacked CDK packages (240 MB), and a list of fonts
    caches = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": PROJECT / ".cache/jsii", "MPLCONFIGDIR": PROJECT / ".cache/matplotlib"}
    named = {name: str(folder) for name, folder in caches.items()}
    return kept | named | {"HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8", "HYPERPOD_RAY_DATE": DATE}


def clean() -> None:
    """Clean this process's own, for it and for those that it starts."""
    home = Path(tempfile.mkdtemp(prefix="home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    variables = cleaned(os.environ, home=home)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    os.umask(0o022)


OF_LIBRARIES = (Path("/var/log/sagemaker_checkpointing"),)
"""Where a library that the product calls always writes: AWS's library of tiered checkpoints has no setting for it."""


def allowed(path: str) -> bool:
    """Whether a test may write there: below the folder of temporary files, in caches, and where no file is."""
    real = Path(os.path.realpath(path))
    if real.is_relative_to(PROJECT):
        inner = real.relative_to(PROJECT).parts
        cache = inner[0] in CACHES or inner[0].startswith(".") if inner else False
        return cache or inner[: len(UNPACKED)] == UNPACKED or "__pycache__" in inner
    caches = (Path(os.path.realpath(PROJECT / name)) for name in CACHES)
    places = (Path(tempfile.gettempdir()).resolve(), Path("/dev"), Path("/proc"), Path("/tmp"), *caches, *OF_LIBRARIES)
    return any(real.is_relative_to(place) for place in places) or "__pycache__" in real.parts


class Guard:
    """Notes each file that this process opens for writing, or makes, in any other place."""

    def __init__(self) -> None:
        self.written: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & _WRITING) if isinstance(flags, int) else bool(mode and set(mode) & set("wax+"))
        elif event == "os.mkdir":
            path, writes = arguments[0], not os.path.isdir(arguments[0])  # noqa: PTH112 (a Path is slower to make)
        elif event == "os.rename":
            path, writes = arguments[1], True
        else:
            return
        if writes and isinstance(path, str | bytes | os.PathLike) and not allowed(os.fsdecode(path)):
            self.written.append(f"{event} {os.fsdecode(path)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """Fail the test in which something was written elsewhere."""
        self.written.clear()
        try:
            return (yield)
        finally:
            if self.written:
                pytest.fail(f"written outside of the temporary folder and the caches: {self.written}", pytrace=False)
