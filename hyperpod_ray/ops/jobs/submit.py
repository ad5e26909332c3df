"""`submit`: a job to Ray's Jobs API, with its log, ending with the job's own status.

What `ray job submit` does, over the documented REST API, so that no Ray (of just the right version) is needed here.
https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core import job_checks, names, secret_words, yaml_text
from hyperpod_ray.core.access import refusals
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.job_file import JobFile, refuse
from hyperpod_ray.ops import in_ray, output
from hyperpod_ray.ops.errors import BAD_USE, INTERRUPTED, OK, OpsError
from hyperpod_ray.ops.jobs import estimate, own_cluster
from hyperpod_ray.ops.jobs.packing import pack
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.jobs_api import Jobs, Package, follow, jobs_of, post, require_dashboard, upload


def run(
    target: Target,
    file: JobFile,
    *,
    runtime_env: Path | None,
    submission_id: str,
    address: str,
    wait: bool,
) -> int:
    """Check, estimate, submit and follow. Exit code of the job's driver where it failed, 0 where it succeeded."""
    checked(target, file)
    if file.job.cluster == "own":
        return _on_own_cluster(target, file, runtime_env=runtime_env, name=submission_id, address=address, wait=wait)
    runtime = _given(runtime_env)
    require_access(target, [], variables=runtime.get("env_vars") or {})
    request = request_of(target, file.job, runtime=runtime, submission_id=submission_id)
    packages = packages_of(file)
    _say_what_it_takes(target, file.job)
    with jobs_of(target, address=address) as jobs:
        return submit(jobs, request, packages=packages, wait=wait, environment=target.name)


def _say_what_it_takes(target: Target, job: Job) -> None:
    for line in estimate.lines(estimate.of_job(target.plan, job, folder=target.folder), now=output.now()):
        output.log(line)


def _on_own_cluster(
    target: Target, file: JobFile, *, runtime_env: Path | None, name: str, address: str, wait: bool
) -> int:

    for option, value in (("--address", address), ("--runtime-env", runtime_env)):
        if value:
            raise OpsError(
                f"{option}: with a cluster of the job's own",
                expected="the standing RayCluster, which is there before the job",
                fix=f"remove {option}, or use cluster: standing",
                code=BAD_USE,
            )
    require_access(target, [], variables=file.job.variables)
    _say_what_it_takes(target, file.job)
    return own_cluster.submit(target, file, name=name, wait=wait)


def checked(target: Target, file: JobFile) -> None:
    """Refuse what cannot work in this environment, with the place in the job file; say what is doubtful.

    Raises:
        JobFileError: with all that is wrong.
    """
    problems = file.located([*job_checks.run(target.plan, file.job), *job_checks.folders(file)])
    errors = [problem for problem in problems if problem.severity == "error"]
    for problem in problems:
        if problem.severity != "error":
            output.log(str(problem))
    refuse(errors)


def _given(file: Path | None) -> dict[str, Any]:
    """Ray's own runtime_env, from a YAML file."""
    if file is None:
        return {}
    import yaml

    try:
        runtime = yaml_text.load(file.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise OpsError(
            f"{file}: {str(error).splitlines()[0]}",
            expected="a readable YAML file",
            fix="correct the file, or remove --runtime-env",
            code=BAD_USE,
        ) from None
    if not isinstance(runtime, dict):
        raise OpsError(
            f"{file}: {type(runtime).__name__}",
            expected="a mapping",
            fix="write it as in https://docs.ray.io/en/latest/ray-core/handling-dependencies.html",
            code=BAD_USE,
        )
    variables = runtime.get("env_vars")
    for name, value in (variables if isinstance(variables, dict) else {}).items():
        if secret_words.of_variable(str(name), str(value)):
            raise OpsError(
                f"{file}: env_vars.{name} looks like a secret",
                expected="a reference: everybody who reaches the dashboard reads env_vars",
                fix=f"remove it, and give --secret {name}=NAME/KEY",
                code=BAD_USE,
            )
    return runtime


def request_of(target: Target, job: Job, *, runtime: dict[str, Any], submission_id: str = "") -> dict[str, Any]:
    """The request to Ray's Jobs API, without what is uploaded."""
    variables = {**(runtime.get("env_vars") or {}), **job.variables}
    planned = target.plan.settings.training
    if planned and planned.save_every_seconds and "--save-every-steps" not in job.command:
        # seconds, because only the job knows how long its step takes
        variables.setdefault(names.SAVE_EVERY_VARIABLE, str(planned.save_every_seconds))
    merged = dict(runtime)
    command = job.command
    if job.references:
        variables[in_ray.SECRETS_VARIABLE] = json.dumps(job.references, sort_keys=True)
        merged["worker_process_setup_hook"] = in_ray.SETUP_HOOK
        command = in_ray.wrapped(command)
    if variables:
        merged["env_vars"] = variables
    if job.packages:
        merged["pip"] = {"packages": list(job.packages), "pip_check": False}
    metadata = {"environment": target.name, "command": job.command}
    metadata |= {"run": job.run_name, "run_folder": job.folder} if job.folder else {}
    request: dict[str, Any] = {"entrypoint": command, "runtime_env": merged, "metadata": metadata}
    if submission_id:
        request["submission_id"] = submission_id
    if target.plan.settings.ray.gcs_fault_tolerance:
        # off the head's node, so that the job outlives the head
        request["entrypoint_resources"] = {names.DRIVER_GROUP: 1}
    return request


@dataclass(frozen=True, kw_only=True)
class Packages:
    """What is uploaded for a job, as zip files called by their content."""

    working_dir: Package | None = None
    py_modules: tuple[Package, ...] = ()


def packages_of(file: JobFile) -> Packages:
    """Pack the job's folders, and what this program sends beside them."""
    job = file.job
    modules = [pack(file.local("py_modules", module), inside=True) for module in job.py_modules]
    if job.references:
        modules.append(in_ray.package())
    return Packages(
        working_dir=pack(file.local("working_dir", job.working_dir)) if job.working_dir else None,
        py_modules=tuple(modules),
    )


def require_access(target: Target, entrypoint: list[str], *, variables: Any) -> None:
    """Refuse a job whose pods may not reach what its command line and environment name."""
    named = {str(key): str(value) for key, value in variables.items()} if isinstance(variables, dict) else {}
    refused = refusals(target.plan, command=entrypoint, variables=named)
    if refused:
        raise OpsError(
            "; ".join(refusal.what for refusal in refused),
            expected="; ".join(refusal.expected for refusal in refused),
            fix="; ".join(refusal.fix for refusal in refused),
            code=BAD_USE,
        )


def submit(jobs: Jobs, request: dict[str, Any], *, packages: Packages, wait: bool, environment: str) -> int:
    """Upload, submit, follow."""
    require_dashboard(jobs, environment=environment)
    runtime = dict(request["runtime_env"])
    if packages.working_dir:
        runtime["working_dir"] = upload(jobs, packages.working_dir, what="the working directory")
    if packages.py_modules:
        modules = [upload(jobs, module, what="a Python package") for module in packages.py_modules]
        runtime["py_modules"] = [*(runtime.get("py_modules") or []), *modules]
    request = {**request, "runtime_env": runtime}
    job = post(jobs, request)
    output.log(f"submitted {job}: {request['metadata'].get('command') or request['entrypoint']}")
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
