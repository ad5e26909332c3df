"""`submit`: a job to Ray's Jobs API, with its log, ending with the job's own status.

What `ray job submit` does, over the documented REST API, so that no Ray (of just the right version) is needed here.
https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import hashlib
import io
import secrets
import shlex
import shutil
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

from core import names
from core.access import refusals
from ops import output
from ops.clients import Target
from ops.errors import BAD_USE, INTERRUPTED, OK, OpsError
from ops.jobs_api import POLL_SECONDS, Jobs, follow, jobs_of

PACKAGE_LIMIT_MIB = 500
"""Ray's own limit of a working directory."""
SKIPPED = {".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
AGENT_SECONDS = 90


def run(
    target: Target,
    *,
    entrypoint: list[str],
    working_dir: Path | None,
    env_vars: list[str],
    runtime_env: Path | None,
    submission_id: str,
    address: str,
    wait: bool,
) -> int:
    """Submit and follow. Exit code of the job's driver where it failed, 0 where it succeeded."""
    if not entrypoint:
        raise OpsError(
            "no command to submit",
            expected="a command after --",
            fix=f"hyperpod-ray submit {target.name} -- python train.py",
            code=BAD_USE,
        )
    request = _request(target, entrypoint, env_vars=env_vars, runtime_env=runtime_env, submission_id=submission_id)
    require_access(target, entrypoint, variables=request["runtime_env"].get("env_vars") or {})
    package = pack(working_dir) if working_dir else None
    with jobs_of(target, address=address) as jobs:
        return submit(jobs, request, package=package, wait=wait, environment=target.name)


def _request(
    target: Target, entrypoint: list[str], *, env_vars: list[str], runtime_env: Path | None, submission_id: str
) -> dict[str, Any]:
    runtime: dict[str, Any] = {}
    if runtime_env:
        import yaml

        try:
            runtime = yaml.safe_load(runtime_env.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise OpsError(
                f"{runtime_env}: {str(error).splitlines()[0]}",
                expected="a readable YAML file",
                fix="correct the file, or remove --runtime-env",
                code=BAD_USE,
            ) from None
        if not isinstance(runtime, dict):
            raise OpsError(
                f"{runtime_env}: {type(runtime).__name__}",
                expected="a mapping",
                fix="write it as in https://docs.ray.io/en/latest/ray-core/handling-dependencies.html",
                code=BAD_USE,
            )
    for item in env_vars:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise OpsError(f"--env: '{item}'", expected="NAME=VALUE", fix=f"--env {item or 'NAME'}=VALUE", code=BAD_USE)
        runtime.setdefault("env_vars", {})[name] = value
    planned = target.plan.settings.training
    if planned and planned.save_every_seconds and "--save-every-steps" not in " ".join(entrypoint):
        # seconds, because only the job knows how long its step takes
        runtime.setdefault("env_vars", {}).setdefault(names.SAVE_EVERY_VARIABLE, str(planned.save_every_seconds))
    request: dict[str, Any] = {
        "entrypoint": shlex.join(entrypoint),
        "runtime_env": runtime,
        "metadata": {"environment": target.name},
    }
    if submission_id:
        request["submission_id"] = submission_id
    if target.plan.settings.ray.gcs_fault_tolerance:
        # off the head's node, so that the job outlives the head
        request["entrypoint_resources"] = {names.DRIVER_GROUP: 1}
    return request


def require_access(target: Target, entrypoint: list[str], *, variables: Any) -> None:
    """Refuse a job whose pods may not reach what its command line and environment name."""
    named = {str(key): str(value) for key, value in variables.items()} if isinstance(variables, dict) else {}
    found = refusals(target.plan, command=entrypoint, variables=named)
    if found:
        raise OpsError(
            "; ".join(refusal.what for refusal in found),
            expected="; ".join(refusal.expected for refusal in found),
            fix="; ".join(refusal.fix for refusal in found),
            code=BAD_USE,
        )


def pack(folder: Path) -> tuple[str, bytes]:
    """A working directory as a zip file, called by its content as Ray calls them. What git ignores stays out."""
    if not folder.is_dir():
        raise OpsError(f"--working-dir: {folder}", expected="a folder", fix="correct the path", code=BAD_USE)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of(folder):
            # a fixed time: the same content is the same package
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = (path.stat().st_mode & 0o777) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    data = buffer.getvalue()
    if len(data) > PACKAGE_LIMIT_MIB * 2**20:
        raise OpsError(
            f"{folder} packs to {len(data) >> 20} MiB",
            expected=f"at most {PACKAGE_LIMIT_MIB}, which Ray takes",
            fix=f"put data on {names.MOUNT_PATH}, and what is not needed into .gitignore",
        )
    return f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip", data


def files_of(folder: Path) -> list[Path]:
    """Files of a folder that belong to it: what git tracks or does not ignore; without git, all but caches."""
    listed = None
    if shutil.which("git"):
        listed = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            capture_output=True,
            check=False,
        )
    else:
        output.log(f"git is not installed: {folder} is packed without .gitignore")
    if listed is not None and listed.returncode == 0:
        found = [folder / name for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path for path in folder.rglob("*") if not SKIPPED & set(path.relative_to(folder).parts)]
    return sorted(path for path in set(found) if path.is_file())


def submit(
    jobs: Jobs, request: dict[str, Any], *, package: tuple[str, bytes] | None, wait: bool, environment: str
) -> int:
    """Upload, submit, follow."""
    try:
        jobs.json("GET", "/api/version")
    except OSError as error:
        raise OpsError(
            f"Ray's dashboard does not answer: {error}",
            expected=f"the head's port {names.DASHBOARD_PORT} to answer",
            fix=f"hyperpod-ray wait {environment} --for ray",
        ) from None
    if package:
        name, data = package
        path = f"/api/packages/gcs/{name}"
        if jobs.call("GET", path)[0] != 200:
            output.log(f"uploading the working directory, {max(1, len(data) >> 10)} KiB")
            status, raw = jobs.call("PUT", path, body=data, kind="application/octet-stream")
            if status >= 400:
                raise OpsError(
                    f"the upload was refused: {status} {raw[:200].decode(errors='replace')}",
                    expected="Ray to store the working directory",
                    fix="run the command again; `hyperpod-ray status` shows Ray's state",
                )
        request = {**request, "runtime_env": {**request["runtime_env"], "working_dir": f"gcs://{name}"}}
    job = _post(jobs, request)
    output.log(f"submitted {job}: {request['entrypoint']}")
    if not wait:
        output.write_line(job)
        return OK
    try:
        return follow(jobs, job, environment=environment)
    except KeyboardInterrupt:
        output.log(
            f"stopped following; {job} continues. Follow it again: hyperpod-ray runs logs {environment} {job} --follow"
        )
        return INTERRUPTED


def _post(jobs: Jobs, request: dict[str, Any]) -> str:
    """Submit under an id of our own, so that a reply that is lost can be asked for again without submitting twice.

    A head that has only just come up has no agent for a few seconds and says so.
    """
    job = request.get("submission_id") or f"job-{output.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    end = time.monotonic() + AGENT_SECONDS
    sent = False
    while True:
        try:
            jobs.json("POST", "/api/jobs/", body={**request, "submission_id": job})
            return str(job)
        except OSError as error:
            sent = True
            if time.monotonic() > end:
                raise OpsError(
                    f"Ray's dashboard does not answer: {error}",
                    expected=f"the head's port {names.DASHBOARD_PORT} to answer",
                    fix="submit again",
                ) from None
        except OpsError as error:
            if sent and "already exists" in error.message:
                return str(job)  # it was the reply that got lost
            if "try again later" not in error.message or time.monotonic() > end:
                raise
        time.sleep(POLL_SECONDS)
