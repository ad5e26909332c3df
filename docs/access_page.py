"""`docs/reference/access.md`: the IAM actions of a researcher, an operator and a pipeline, read from the code.

A command needs the AWS calls of its module in `hyperpod_ray/ops/` and of the modules that it imports. The page ends
with what a user of a cluster on Slurm needs.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "reference" / "access.md"
OPS = "hyperpod_ray.ops"
COMMANDS = {
    "status": f"{OPS}.status", "wait": f"{OPS}.change.wait", "logs": f"{OPS}.repair.logs",
    "connect": f"{OPS}.reach.connect", "submit": f"{OPS}.jobs.submit", "runs": f"{OPS}.runs.listing",
    "cost": f"{OPS}.money.cost", "nodes": f"{OPS}.repair.nodes", "preflight": f"{OPS}.preflight",
    "capacity": f"{OPS}.preflight.offers",
    "deploy": f"{OPS}.change.deploy", "teardown": f"{OPS}.change.teardown",
}  # fmt: skip
ROLES = {
    "researcher": ("status", "wait", "logs", "connect", "submit", "runs", "cost"),
    "operator": tuple(COMMANDS),
    "pipeline": ("preflight", "deploy"),
}
PREFIXES = {"amp": "aps", "service-quotas": "servicequotas"}
ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketNotificationConfiguration": "s3:GetBucketNotification",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
}
"""Calls whose IAM action has another name."""
NO_ACTION = {"sts:GetCallerIdentity"}
"""Calls that IAM always allows."""
SESSIONS = {"ssm:StartSession", "ssm:TerminateSession"}
"""Calls with statements of their own: on one cluster, with one document."""
OPERATION = re.compile(r"(list|get|describe|batch|search)(_[a-z]+)+")
READ = re.compile(r"\w[\w-]*:(Describe|List|Get|Filter|Search)\w+")


def file_of(module: str) -> Path | None:
    """The file of a module of this project."""
    path = PROJECT / module.replace(".", "/")
    return next((found for found in (path.with_suffix(".py"), path / "__init__.py") if found.is_file()), None)


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of `ops` that a module imports, also inside functions and for a whole package its parts."""
    path = file_of(module)
    found: set[str] = set()
    if path is None:
        return frozenset()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(f"{OPS}."):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name for name in names if file_of(name)} or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith(f"{OPS}.")}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value).startswith("orchestrators.of("):
            found |= set(parts(node.attr))
    return frozenset(found)


def parts(part: str) -> list[str]:
    """The modules of a part of the operations, such as `runs`: of each orchestrator, and what they share."""
    room = f"{OPS}.orchestrators"
    packages = sorted(path.parent.name for path in (PROJECT / room.replace(".", "/")).glob("*/__init__.py"))
    modules = [*(f"{room}.{package}.{part}" for package in packages), f"{room}.hyperpod_{part}"]
    return [module for module in modules if file_of(module)]


def closure(module: str) -> set[str]:
    """A module and all of `ops` that it reaches; of `preflight`, the rules that need the account."""
    if module == f"{OPS}.preflight":
        rooms = sorted((PROJECT / "hyperpod_ray/core/checks/account").glob("*.py"))
        return {f"hyperpod_ray.core.checks.account.{path.stem}" for path in rooms} | _reached(module)
    return _reached(module)


def _reached(module: str) -> set[str]:
    seen, left = set[str](), [module]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += imports(one)
    return seen


@cache  # commands share most of their modules
def calls(module: str) -> frozenset[str]:
    """The AWS calls in a module."""
    return frozenset(_calls(module))


def _calls(module: str) -> Iterator[str]:
    """`service:Operation` of each AWS call in a module; of a call with a variable operation, every value it gets."""
    path = file_of(module)
    tree = ast.parse(path.read_text("utf-8")) if path else ast.Module([], [])
    given = [
        word.value.value
        for node in ast.walk(tree) if isinstance(node, ast.Call)
        for word in node.keywords if word.arg == "operation" and isinstance(word.value, ast.Constant)
    ]  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "found":
            texts = [word.value for word in node.args[1:3] if isinstance(word, ast.Constant)]
            if len(texts) == 2:
                yield action(str(texts[0]), str(texts[1]))
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        words = [word.value if isinstance(word, ast.Constant) else None for word in node.args[:2]]
        if node.func.attr in ("call", "pages") and words and isinstance(words[0], str):
            variable = not isinstance(words[1], str)
            looped = [
                item.value
                for loop in ast.walk(tree) if isinstance(loop, ast.For) and variable
                if any(node is inner for inner in ast.walk(loop))
                for item in ast.walk(loop.iter) if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]  # fmt: skip
            for operation in [*given, *looped] if variable else [words[1]]:
                if OPERATION.fullmatch(str(operation)) or not variable:
                    yield action(words[0], str(operation))
        if node.func.attr == "get_paginator" and words and isinstance(words[0], str):
            yield action("pricing", words[0])


def action(service: str, operation: str) -> str:
    """The IAM action of a botocore operation."""
    name = f"{PREFIXES.get(service, service)}:{''.join(part.capitalize() for part in operation.split('_'))}"
    return ACTIONS.get(name, name)


def actions(commands: tuple[str, ...]) -> list[str]:
    """The IAM actions of commands, sorted."""
    modules = {module for command in commands for module in closure(COMMANDS[command])}
    if "deploy" in commands:
        modules.add("hyperpod_ray.cli.deploy_review")
    return sorted({one for module in modules for one in calls(module)} - NO_ACTION - SESSIONS, key=str.casefold)


def policy(role: str) -> str:
    """An identity policy for a role."""
    # modules of a researcher's commands share helpers with commands that act on nodes
    found = [one for one in actions(ROLES[role]) if role != "researcher" or READ.fullmatch(one)]
    statements: list[dict[str, object]] = [{"Sid": "Calls", "Effect": "Allow", "Action": found, "Resource": "*"}]
    if role in ("operator", "pipeline"):
        statements.append({
            "Sid": "Bootstrap", "Effect": "Allow", "Action": "sts:AssumeRole",
            "Resource": "arn:aws:iam::ACCOUNT:role/cdk-hnb659fds-*",
        })  # fmt: skip
    if role == "operator":
        statements.append({
            "Sid": "NodesShell", "Effect": "Allow", "Action": "ssm:StartSession",
            "Resource": ["arn:aws:sagemaker:REGION:ACCOUNT:cluster/*", "arn:aws:ssm:*:*:document/*"],
        })  # fmt: skip
    if role in ("researcher", "operator"):
        own = "arn:aws:ssm:*:*:session/${aws:userid}-*"
        statements.append({
            "Sid": "Tunnel", "Effect": "Allow", "Action": "ssm:StartSession",
            "Resource": [
                "arn:aws:sagemaker:REGION:ACCOUNT:cluster/CLUSTER-ID",
                f"arn:aws:ssm:REGION:*:document/{document()}",
            ],
            "Condition": {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}},
        })  # fmt: skip
        statements.append({
            "Sid": "TunnelOwnSessions", "Effect": "Allow",
            "Action": ["ssm:TerminateSession", "ssmmessages:OpenDataChannel"], "Resource": own,
        })  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def slurm_policy() -> str:
    """An identity policy of a user of a cluster on Slurm: a shell on its nodes, and what `status` asks."""
    statements: list[dict[str, object]] = [
        {
            "Sid": "Nodes", "Effect": "Allow",
            "Action": ["sagemaker:DescribeCluster", "sagemaker:ListClusterNodes"],
            "Resource": "arn:aws:sagemaker:REGION:ACCOUNT:cluster/CLUSTER-ID",
        },
        {
            "Sid": "Shell", "Effect": "Allow", "Action": "ssm:StartSession",
            "Resource": [
                "arn:aws:sagemaker:REGION:ACCOUNT:cluster/CLUSTER-ID",
                "arn:aws:ssm:REGION:ACCOUNT:document/SSM-SessionManagerRunShell",
                f"arn:aws:ssm:REGION:*:document/{document()}",
                f"arn:aws:ssm:REGION:*:document/{command_document()}",
            ],
            "Condition": {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}},
        },
        {
            "Sid": "OwnSessions", "Effect": "Allow",
            "Action": ["ssm:TerminateSession", "ssm:ResumeSession", "ssmmessages:OpenDataChannel"],
            "Resource": "arn:aws:ssm:*:*:session/${aws:userid}-*",
        },
    ]  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def command_document() -> str:
    """The session document by which `status` asks the controller."""
    words = [node.value for node in ast.walk(ast.parse((PROJECT / "hyperpod_ray/ops/observe/slurm.py").read_text()))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    return words[words.index("--document-name") + 1]


def document() -> str:
    """The session document of a tunnel."""
    tree = ast.parse((PROJECT / "hyperpod_ray/ops/reach/tunnel.py").read_text("utf-8"))
    return next(
        str(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "DOCUMENT"
    )  # fmt: skip


def page() -> str:
    """The page."""
    lines = [
        "# Access: IAM of a researcher, an operator, and a pipeline",
        "",
        "`python -m docs.generate` writes the policies from the calls in `hyperpod_ray/ops/` and",
        "`hyperpod_ray/core/checks/account/`; do not edit them. No account proved them.",
        "`ACCOUNT`, `REGION` and `CLUSTER-ID` are placeholders. `hnb659fds` is the CDK's default bootstrap qualifier.",
        "",
        "| role | commands |",
        "|---|---|",
        *(f"| {role} | {', '.join(f'`{name}`' for name in commands)} |" for role, commands in ROLES.items()),
        "",
        "Kubernetes access does not come from IAM policies. Access entries of the EKS cluster give it:",
        "",
        "| role | setting of the environment | in Kubernetes |",
        "|---|---|---|",
        "| researcher | `eks.ray_users` | the Role `ray-user` in the Ray namespace: "
        "[what it allows](../kubernetes.md#what-a-researcher-may-do) |",
        "| operator | `eks.admin_role_arns` | cluster administrator |",
        "| pipeline | none | CloudFormation's functions apply the manifests with roles of their own |",
        "",
        "A researcher with `eks:DescribeCluster` alone still submits jobs; `status` then shows what it may not see.",
        "",
    ]
    for role in ROLES:
        lines += [f"## {role.capitalize()}", "", *NOTES[role], "", "```json", policy(role), "```", ""]
    lines += ["## On Slurm", "", *ON_SLURM, "", "```json", slurm_policy(), "```", ""]
    return "\n".join(lines)


ON_SLURM = [
    "On Slurm there are no access entries. Whoever opens a session on a node submits jobs there, with the",
    "policy below. It allows the shell, the tunnel, and the command by which `status` asks the controller.",
    "",
    "IAM names the cluster and no node: the policy opens the controller and the compute nodes too. A session begins",
    "as a user who may use `sudo`. To give each IAM principal an operating system user without it, turn on",
    "[Run As support](https://docs.aws.amazon.com/systems-manager/latest/userguide/session-preferences-run-as.html) of",
    "Session Manager. Create these users on all nodes.",
    "",
    "The [operator's policy](#operator) serves both orchestrators. Jobs run with the role of the nodes,",
    "so whoever submits has its rights.",
]

NOTES = {
    "researcher": [
        "Read-only in AWS. Submitting goes through the Kubernetes API. Where its endpoint is private, the statements",
        "`Tunnel` and `TunnelOwnSessions` allow the way [without a VPN](../from-your-laptop.md). `CLUSTER-ID` is the",
        "end of the HyperPod cluster's ARN. The condition keeps shells on nodes out: their document is not allowed.",
    ],
    "operator": [
        "The roles of the CDK bootstrap deploy and destroy; the operator assumes them.",
        "`nodes reboot`, `nodes replace`, `nodes remove`, and `teardown` change resources with the calls below.",
    ],
    "pipeline": [
        "The role of `deploy.yml`. It trusts GitHub's OIDC provider for one repository and one environment:",
        "[review](../review.md#github).",
    ],
}
