"""Nothing outside of the checkout decides a test: variables, home, time zone and umask are set before the first."""

from __future__ import annotations

import atexit
import builtins
import functools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
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
GO = {"GOGC": "off", "GOMEMLIMIT": "300MiB"}
"""For kubectl and helm, which end before they need to look for garbage: that is a quarter of their time."""
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
    return kept | named | GO | {"HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8", "HYPERPOD_RAY_DATE": DATE}


def clean() -> None:
    """Clean this process's own, for it and for those that it starts."""
    home = Path(tempfile.mkdtemp(prefix="home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    variables = cleaned(os.environ, home=home)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    os.umask(0o022)
    _places()  # before a test sets another folder for temporary files


OF_LIBRARIES = (Path("/var/log/sagemaker_checkpointing"),)
"""Where a library that the product calls always writes: AWS's library of tiered checkpoints has no setting for it."""


@functools.cache
def _places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The checkout, and all other places where a test may write; both end with a slash."""
    folders = (tempfile.gettempdir(), *map(str, OF_LIBRARIES), *(str(PROJECT / name) for name in CACHES))
    places = ("/dev", "/proc", "/tmp", *map(os.path.realpath, folders))
    return (f"{os.path.realpath(PROJECT)}/",), tuple(f"{place}/" for place in places)


def allowed(path: str) -> bool:
    """Whether a test may write there: below the folder of temporary files, in caches, and where no file is."""
    real = f"{os.path.realpath(path)}/"
    checkout, places = _places()
    if real.startswith(checkout):
        inner = Path(real[len(checkout[0]) :]).parts
        cache = inner[0] in CACHES or inner[0].startswith(".") if inner else False
        return cache or inner[: len(UNPACKED)] == UNPACKED or "__pycache__" in inner
    return real.startswith(places) or "/__pycache__/" in real


class Guard:
    """Notes each file that this process opens for writing, or makes, in any other place.

    It takes the place of the functions that do so. An audit hook of Python would be called for each `id()` as well, and
    took half of the time of a test that copies.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, allowed: Callable[[str], bool] = allowed) -> None:
        self.written: list[str] = []
        self._allowed = allowed
        watched: dict[Any, Any] = {
            builtins.open: self._opened(builtins.open), os.open: self._opened_by_flags(os.open),
            os.mkdir: self._made(os.mkdir), os.rename: self._renamed(os.rename), os.replace: self._renamed(os.replace),
        }  # fmt: skip
        os.supports_dir_fd.update(watched[function] for function in watched.keys() & os.supports_dir_fd)
        functions = {id(function): function for function in watched}
        # in each module that has it, under whatever name: `tarfile` has an `open` of its own
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in functions:
                    patch.setattr(module, name, watched[value])

    def _note(self, event: str, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike) and not self._allowed(os.fsdecode(path)):
            self.written.append(f"{event} {os.fsdecode(path)}")

    def _opened(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if set(mode) & set("wax+"):
                self._note("open", file)
            return original(file, mode, *arguments, **named)

        return opened

    def _opened_by_flags(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opened(path: Any, flags: int, *arguments: Any, **named: Any) -> Any:
            if flags & _WRITING:
                self._note("open", path)
            return original(path, flags, *arguments, **named)

        return opened

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def made(path: Any, *arguments: Any, **named: Any) -> Any:
            if not os.path.isdir(path):  # noqa: PTH112 (a Path is slower to make)
                self._note("os.mkdir", path)
            return original(path, *arguments, **named)

        return made

    def _renamed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def renamed(src: Any, dst: Any, **named: Any) -> Any:
            self._note("os.rename", dst)
            return original(src, dst, **named)

        return renamed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """Fail the test in which something was written elsewhere."""
        self.written.clear()
        try:
            return (yield)
        finally:
            if self.written:
                pytest.fail(f"written outside of the temporary folder and the caches: {self.written}", pytrace=False)
