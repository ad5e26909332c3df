"""What `hyperpod-ray` sends into a Ray cluster beside a job.

`runs.py` reads what runs wrote about themselves; `history.py`, a link to the training library's, adds it up. `files.py`
makes their files readable, `with_secrets.py` starts a command with its secrets, `reports.py` puts what a run wrote into
its job's log, and `notice.py` posts its end. All use the standard library only, so that they run in any image; Ray
imports them as package `hyperpod_ray_job`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import shlex
import zipfile
from collections.abc import Mapping
from pathlib import Path

PACKAGE = "hyperpod_ray_job"
SETUP_HOOK = f"{PACKAGE}.with_secrets.load"
SECRETS_VARIABLE = "HYPERPOD_RAY_SECRETS"
"""References of a job's secrets, as JSON. `with_secrets.py` has the same name; a test compares."""
COMMAND_VARIABLE = "HYPERPOD_RAY_COMMAND"
RUN_FOLDER_VARIABLE = "HYPERPOD_RAY_RUN_FOLDER"
"""The folder that such a command's log reports."""
COMMAND = f"python -m {PACKAGE}.with_secrets"
"""Runs the command of that variable: plain words, whatever shells are in between."""
MODULES = ("files", "history", "notice", "reports", "runs", "with_secrets")


@functools.cache
def package() -> tuple[str, bytes]:
    """The modules as a zip file, called by its content as Ray calls them."""
    return archive(PACKAGE, {"__init__": "", **{name: _source(name) for name in MODULES}})


def archive(package: str, texts: Mapping[str, str]) -> tuple[str, bytes]:
    """Modules of a package as a zip file, called by its content as Ray calls them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in texts.items():
            info = zipfile.ZipInfo(f"{package}/{name}.py", date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            file.writestr(info, text)
    data = buffer.getvalue()
    return f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip", data


def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")


def wrapped(command: str) -> str:
    """A shell command that gets its secrets as environment variables."""
    return shlex.join(["python", "-m", f"{PACKAGE}.with_secrets", "--", "sh", "-c", command])
