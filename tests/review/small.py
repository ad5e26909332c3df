"""Small assemblies written by hand, for what no shipped environment has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hyperpod_ray.review import assembly
from hyperpod_ray.review.review import EnvironmentReview, review

Json = dict[str, Any]
Templates = dict[str, dict[str, Any]]


def write(
    folder: Path, stacks: Templates, *, depends: dict[str, list[str]] | None = None, files: Templates | None = None
) -> Path:
    """An assembly with one environment `env`; stacks are deployed in the order given."""
    inner = folder / "assembly-env"
    inner.mkdir(parents=True)
    artifacts = {}
    for name, template in stacks.items():
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://111122223333/us-west-2",
            "displayName": f"env/{name}",
            "dependencies": (depends or {}).get(name, []),
            "properties": {"templateFile": f"{name}.template.json", "stackName": f"env-{name}"},
        }
        (inner / f"{name}.template.json").write_text(json.dumps(template))
    for name, template in (files or {}).items():
        (inner / name).write_text(json.dumps(template))
    (inner / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    outer = {
        "assembly-env": {
            "type": "cdk:cloud-assembly",
            "properties": {"directoryName": "assembly-env", "displayName": "env"},
        }
    }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": outer}))
    return folder


def resources(**items: dict[str, Any]) -> dict[str, Any]:
    """A template of some resources."""
    return {"Resources": items}


def read(folder: Path, **listed: Json) -> assembly.EnvironmentAssembly:
    """One side: a stack of some resources."""
    return assembly.read(write(folder, {"A": resources(**listed)}))["env"]


def compared(folder: Path, before: Json, after: Json) -> EnvironmentReview:
    """The review of a stack of some resources."""
    sides = [write(folder / name, {"A": resources(**side)}) for name, side in (("base", before), ("head", after))]
    (environment,) = review(*sides).environments
    return environment


def of(form: str, **properties: Any) -> Json:
    """A resource of AWS."""
    return {"Type": f"AWS::{form}", "Properties": properties}


def document(*statements: Json) -> Json:
    """A policy."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any, resource: Any = "*", **more: Any) -> Json:
    """A statement."""
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


DENY = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}
TLS = {
    "Effect": "Deny",
    "Action": "s3:*",
    "Resource": "*",
    "Principal": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
ROLE = of(
    "IAM::Role", AssumeRolePolicyDocument=document(allow("sts:AssumeRole", Principal={"Service": "ec2.amazonaws.com"}))
)


def of_role(*statements: Json, role: str = "Role") -> Json:
    """An inline policy of a role."""
    return of("IAM::Policy", PolicyName="p", Roles=[{"Ref": role}], PolicyDocument=document(*statements))


BOTH = allow(["s3:GetObject", "s3:PutObject"])
