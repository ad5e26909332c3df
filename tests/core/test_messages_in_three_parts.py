"""Every error that ends a command, and every finding, names what failed, what was expected and the fix."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = (
    "hyperpod_ray", "hyperpod_ray_sandbox", "hyperpod_ray_training", "jobs", "k8s",
)  # fmt: skip
BASES = {"ProjectError", "SandboxError", "InputError", "Unrecoverable"}
FORM = {"in_three_parts", "Message", "unreadable_file", "_no_job_file", "_not_a_setting"}
"""Functions that take the parts, as the errors do."""
FINDINGS = {
    "hyperpod_ray/core/checks/": {"error", "warning", "unknown", "found"},
    "hyperpod_ray/core/job_checks.py": {"error", "warning"},
    "hyperpod_ray/planner/checks.py": {"error", "warning", "found"},
    "hyperpod_ray/ops/preflight/": {"failed", "warning"},
    "hyperpod_ray/ops/orchestrators/eks/way.py": {"failed", "warning"},
}
"""Functions that make a finding, by the rooms of rules. `found` chooses between two of them."""
BUILDERS = {
    "Finding": ("hyperpod_ray/core/findings.py", "hyperpod_ray/ops/verdict/", "hyperpod_ray/review/"),
    "Problem": ("hyperpod_ray/core/loader.py", "hyperpod_ray/core/job_file.py", "hyperpod_ray/core/stand_ins.py"),
    "Check": ("hyperpod_ray/ops/preflight/", "hyperpod_ray/ops/orchestrators/check.py"),
}
"""Where a finding is put together of its parts: nowhere else."""
RETURN_ERRORS = ("interrupted", "_interrupted", "unknown_group", "refused_command", "port_taken", "unanswered")
PARTS = ("expected", "fix")
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator)
WITHOUT_A_VALUE = {"together", "of", "outcome", "passed_on"}
"""Class methods of the errors: several messages, another's message, an outcome that has no wrong value."""
JOINED = {
    "hyperpod_ray_training/merging.py",
    "hyperpod_ray_training/run.py",
    "hyperpod_ray_training/settings.py",
}
"""An error of several messages that each have their parts."""
OTHERS = {
    "hyperpod_ray/cli/review.py": "made of an error that has the parts, before it is raised",
    "hyperpod_ray/planner/reading.py": "caught by its reader, which adds the parts",
    "hyperpod_ray_training/checkpoint.py": "caught by its reader, which adds the parts",
    "hyperpod_ray_training/history.py": "caught by its readers, as any file that cannot be read",
    "jobs/pretrain/train.py": "a class that names the fault, with the parts in its text",
    "hyperpod_ray_training/metadata.py": "caught by its reader, which adds the parts",
    "hyperpod_ray_training/optimizers.py": "built of the parts, before it is raised",
    "hyperpod_ray_training/restoring.py": "built of the parts, before it is raised",
    "hyperpod_ray_training/trees.py": "caught by its reader, which adds the parts",
    "hyperpod_ray_sandbox/aws/emulator/": "the services' own texts; the control plane's client adds the parts",
    "hyperpod_ray_sandbox/kubernetes/": "Kubernetes' own texts",
    "hyperpod_ray_sandbox/rehearsal/ray_hosts/pod_root.py": "the kernel's own text, in the log of the pod",
    "hyperpod_ray_sandbox/aws/functions_cli.py": "the AWS CLI's own text",
    "hyperpod_ray/charts/lock.py": "pydantic's validators: the lock's reader adds the parts",
    "hyperpod_ray/core/yaml_text.py": "caught by its readers, which add the parts",
    "hyperpod_ray/core/loader.py": "built of problems, which have the parts",
    "hyperpod_ray/core/upgrade.py": "built of problems, which have the parts",
    "hyperpod_ray/core/yaml_edit.py": "caught by its reader, which adds the parts",
    "hyperpod_ray/ops/change/file_upgrade.py": "built of problems, which have the parts",
    "hyperpod_ray/core/job_file.py": "built of problems, which have the parts",
    "hyperpod_ray/ops/acceptance/node_probe.py": "a node's answer, which the verdict puts into words",
    "hyperpod_ray/ops/in_ray/": "printed inside Ray, with the parts in its text",
    "hyperpod_ray/core/yaml_source.py": "caught by its reader, which adds the parts",
    "hyperpod_ray/core/__init__.py": "Python's own text for a missing attribute",
    "k8s/__init__.py": "Python's own text for a missing attribute",
    "hyperpod_ray_training/__init__.py": "Python's own text for a missing attribute",
    "hyperpod_ray_training/stateful.py": "Python's own text for a missing attribute",
    "hyperpod_ray_training/lightning.py": "Python's own text for a missing attribute",
    "hyperpod_ray_training/writers.py": "a stream's missing methods, for torch",
    "hyperpod_ray_training/faults.py": "the operating system's own text",
    "hyperpod_ray_training/folder.py": "caught by its reader",
    "hyperpod_ray_training/journal.py": "a defect of the library",
    "hyperpod_ray_training/settings.py": "caught by its reader, which adds the parts",
    "hyperpod_ray_training/spares/": "between the library's own processes",
    "hyperpod_ray_training/watch.py": "built of the parts, before it is raised",
    "hyperpod_ray/review/findings.py": "a defect of a review rule",
    "hyperpod_ray/review/worktrees.py": "Python's own text for a missing package; the command adds the parts",
    "hyperpod_ray_sandbox/rehearsal/picture.py": "a defect of the report",
    "hyperpod_ray_sandbox/rehearsal/hang_rules.py": "what HTTP answers to a refused request, in the words of a service",
    "hyperpod_ray_sandbox/rehearsal/ray_hosts/jobs_api.py": "a lost connection, which is tried again",
    "hyperpod_ray_sandbox/rehearsal/ray_hosts/scale.py": "a defect of the caller",
    "jobs/finetune/train.py": "a class that names the fault, with the parts in its text",
    "hyperpod_ray/core/amounts.py": "caught by its reader, which adds the parts",
    "hyperpod_ray/planner/data/": "a defect of the figures on file",
    "hyperpod_ray/planner/job.py": "caught there, with the parts",
    "hyperpod_ray/planner/speed.py": "a defect of the figures on file",
    "hyperpod_ray/ops/reach/jobs_api.py": "a lost connection, which is tried again",
    "hyperpod_ray/ops/runs/pull.py": "a file that did not arrive whole, which is tried again",
    "hyperpod_ray/ops/reach/api_server.py": "what the API server answered; `explain` adds the parts",
    "hyperpod_ray/ops/reach/forward.py": "a broken protocol, which ends one connection",
    "hyperpod_ray/image/efa/": "printed by the image build, with the parts in its text",
    "hyperpod_ray/image/installer.py": "caught there, with the parts",
    "hyperpod_ray/ops/web/server.py": "what HTTP answers to a refused request, and Python's own text",
    "hyperpod_ray/ops/orchestrators/eks/runs.py": "caught there, with the parts",
    "hyperpod_ray/ops/observe/kube.py": "a kind that is not installed: caught there",
}
"""Where an exception of another class may be raised, and why."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        # the guard writes lines of a log, and names its classes without the rest of the product
        if name.partition("/")[0] in ROOMS and "/guard/" not in name and (PROJECT / name).is_file():
            yield name, ast.parse((PROJECT / name).read_text("utf-8"))


def in_the_form(found: list[tuple[str, ast.Module]]) -> set[str]:
    """Names of the error classes that take the parts: the bases and what derives from them."""
    classes = [(node.name, set(map(last, node.bases))) for _, tree in found for node in nodes(tree, ast.ClassDef)]
    names = set(BASES)
    while True:
        more = {name for name, bases in classes if bases & names}
        if more <= names:
            return names
        names |= more


def nodes(tree: ast.AST, *types: type[ast.AST]) -> Iterator[Any]:
    """The nodes of a tree of these types; without the names and constants, which are most of it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, types):
            yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                pending += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                pending.append(value)


def wrong(name: str, tree: ast.Module, classes: set[str]) -> Iterator[str]:
    of_rules = {called for place, found in FINDINGS.items() if name.startswith(place) for called in found}
    for node in nodes(tree, ast.Call, ast.Raise):
        if isinstance(node, ast.Call):
            called = last(node.func)
            if isinstance(node.func, ast.Name) and called in BUILDERS and not name.startswith(BUILDERS[called]):
                yield f"{name}:{node.lineno}: {called}(…) is put together outside of {BUILDERS[called]}"
            makes = isinstance(node.func, ast.Name) and called in of_rules and not asks(node)
            if (called in (classes | FORM) or makes) and not complete(name, node):
                yield f"{name}:{node.lineno}: {called}(…) lacks expected= or fix="
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            called = last(node.exc.func)
            owner = last(node.exc.func.value) if isinstance(node.exc.func, ast.Attribute) else ""
            known = classes | FORM | {"SystemExit", "Exit"}
            if called in known or (called in WITHOUT_A_VALUE and owner in classes):
                continue
            if called in RETURN_ERRORS:
                continue  # a function that returns one of the errors; its own call of the class is judged
            if node.exc.args and isinstance(node.exc.args[0], ast.Call) and last(node.exc.args[0].func) in FORM:
                continue
            if not name.startswith(tuple(OTHERS)):
                yield f"{name}:{node.lineno}: raise {called}: not an error with expected= and fix="


def asks(call: ast.Call) -> bool:
    """`found(account, …)` of `hyperpod_ray.core.evidence`: a question to the account."""
    return bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id == "account"


def last(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def complete(name: str, call: ast.Call) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    if all(part in given and not (isinstance(given[part], ast.Constant) and not given[part].value) for part in PARTS):  # type: ignore[attr-defined]
        return True
    if name.startswith(
        ("hyperpod_ray/core/errors.py", "hyperpod_ray/ops/errors.py", "hyperpod_ray_training/errors.py")
    ):
        return True  # where they are built
    only = call.args[0] if call.args else None
    joined = isinstance(only, ast.Call) and last(only.func) == "join"
    return (name in JOINED and joined) or (name.startswith("hyperpod_ray_training/") and isinstance(only, ast.Name))


def test_errors_have_their_three_parts() -> None:
    gc.disable()  # a million nodes are no garbage until the end
    found = list(trees())
    assert len(found) > 300
    classes = in_the_form(found)
    assert {"OpsError", "ChartError", "LocalError", "StartError", "InputError", "ReviewError"} <= classes
    problems = [line for name, tree in found for line in wrong(name, tree, classes)]
    gc.enable()
    assert problems == [], "\n".join(problems)


@pytest.mark.slow
def test_no_exception_of_the_list_is_idle() -> None:
    names = [name for name, _ in trees()]
    assert [place for place in OTHERS if not any(name.startswith(place) for name in names)] == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("raise OpsError('x: 1', expected='2', fix='3')", 0),
        ("raise OpsError('x: 1', expected='2')", 1),
        ("raise OpsError('x: 1', expected='', fix='3')", 1),
        ("raise ValueError('x')", 1),
        ("raise OpsError.of(error)", 0),
        ("text = in_three_parts('x', expected='2', fix='')", 1),
        ("raise self.refusal()", 1),
    ],
)
def test_the_search_finds_them(line: str, count: int) -> None:
    assert len(list(wrong("ops/x.py", ast.parse(line), {"OpsError"}))) == count


@pytest.mark.parametrize(
    ("name", "line", "count"),
    [
        ("hyperpod_ray/core/checks/x.py", "error('a', what='x: 1', expected='2', fix='3')", 0),
        ("hyperpod_ray/core/checks/x.py", "warning('a', what='x: 1', expected='2', fix='')", 1),
        ("hyperpod_ray/core/checks/x.py", "found(*path, what='x: 1', expected='2')", 1),
        ("hyperpod_ray/core/checks/x.py", "found(account, 'eks', 'describe_cluster')", 0),
        ("hyperpod_ray/core/checks/account/x.py", "unknown('a', what='x: 1', fix='3')", 1),
        ("hyperpod_ray/core/checks/x.py", "Finding(path=(), what='x', severity='error')", 1),
        ("hyperpod_ray/planner/checks.py", "warning('training', what='x')", 1),
        ("hyperpod_ray/ops/preflight/files.py", "failed('x', expected='2', fix='3')", 0),
        ("hyperpod_ray/ops/preflight/files.py", "failed('x', expected='2', fix='')", 1),
        ("k8s/x.py", "found(1)", 0),
    ],
)
def test_the_search_finds_findings(name: str, line: str, count: int) -> None:
    assert len(list(wrong(name, ast.parse(line), {"OpsError"}))) == count


@pytest.mark.slow
def test_the_rooms_of_rules_are_there() -> None:
    names = [name for name, _ in trees()]
    assert all(any(name.startswith(place) for name in names) for place in FINDINGS)


@pytest.mark.parametrize("part", ["expected", "fix"])
def test_the_form(part: str) -> None:
    from hyperpod_ray.core.errors import ProjectError
    from hyperpod_ray_sandbox.errors import SandboxError
    from hyperpod_ray_training.errors import InputError

    words = {"expected": "2", "fix": "write 2"}
    for kind in (ProjectError, InputError, SandboxError):
        assert str(kind("count: 1", **words)) == "count: 1. Expected 2. Fix: write 2"
    assert part in ProjectError("count: 1", **words).__dict__
