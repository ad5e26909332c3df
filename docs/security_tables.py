"""Writes `docs/security/ENV.md` from a synthesized environment: who may do what, and what protects it.

    .venv/bin/python docs/security_tables.py ASSEMBLY_FOLDER [--check]

Every row is read from the templates of the cloud assembly. Review a change of these pages as you review code: a new
row is a new right, a new opening, or a protection that went away.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "security"
PROTECTED_PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "AWS::CloudTrail::Trail": ("IsLogging",),
    "AWS::EC2::FlowLog": ("TrafficType",),
    "AWS::EC2::Subnet": ("AvailabilityZoneId", "CidrBlock", "MapPublicIpOnLaunch"),
    "AWS::EC2::VPC": ("CidrBlock",),
    "AWS::ECR::PullThroughCacheRule": ("EcrRepositoryPrefix", "UpstreamRegistryUrl"),
    "AWS::ECR::Repository": (
        "ImageTagMutability", "ImageScanningConfiguration", "EncryptionConfiguration", "LifecyclePolicy",
    ),
    "AWS::EKS::Addon": ("AddonName", "ServiceAccountRoleArn", "ConfigurationValues", "ResolveConflicts"),
    "AWS::EKS::Cluster": ("AccessConfig", "EncryptionConfig", "Logging", "ResourcesVpcConfig", "Version"),
    "AWS::Events::Rule": ("EventPattern", "State"),
    "AWS::FSx::DataRepositoryAssociation": ("DataRepositoryPath", "FileSystemPath", "S3"),
    "AWS::FSx::FileSystem": ("KmsKeyId", "LustreConfiguration", "StorageCapacity"),
    "AWS::KMS::Key": ("EnableKeyRotation",),
    "AWS::Lambda::Function": ("Timeout", "Runtime"),
    "AWS::Logs::LogGroup": ("LogGroupName", "RetentionInDays", "KmsKeyId"),
    "AWS::Logs::MetricFilter": ("FilterPattern", "LogGroupName"),
    "AWS::S3::Bucket": (
        "BucketEncryption", "PublicAccessBlockConfiguration", "VersioningConfiguration", "LifecycleConfiguration",
    ),
    "AWS::SageMaker::Cluster": (
        "ClusterName", "NodeRecovery", "NodeProvisioningMode", "InstanceGroups", "TieredStorageConfig", "VpcConfig",
    ),
    "AWS::SNS::Topic": ("KmsMasterKeyId",),
    "Custom::AWSCDK-EKS-HelmChart": ("Namespace", "Wait", "Timeout", "Values"),
    "Custom::CDKBucketDeployment": ("DestinationBucketKeyPrefix", "Prune", "RetainOnDelete"),
}  # fmt: skip
"""Properties that protect data or nodes, by resource type."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """One template with the construct path of each logical id."""

    name: str
    template: dict[str, Any]
    paths: dict[str, str]

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Logical id to resource."""
        found: dict[str, dict[str, Any]] = self.template.get("Resources", {})
        return found


@dataclass
class Assembly:
    """All stacks of one environment."""

    stacks: list[Stack]

    @classmethod
    def read(cls, folder: Path) -> Assembly:
        """The stacks below a cloud assembly's folder, in the order of their names."""
        stacks = []
        for file in sorted(folder.rglob("manifest.json")):
            for key, artifact in json.loads(file.read_text(encoding="utf-8"))["artifacts"].items():
                if artifact["type"] != "aws:cloudformation:stack":
                    continue
                properties = artifact["properties"]
                template = json.loads((file.parent / properties["templateFile"]).read_text(encoding="utf-8"))
                stacks.append(
                    Stack(name=properties.get("stackName", key), template=template, paths=_paths(file, artifact))
                )
        return cls(stacks=sorted(stacks, key=lambda stack: stack.name))

    @cached_property
    def exports(self) -> dict[str, tuple[Stack, Any]]:
        """Export name to the stack it comes from and its value."""
        return {
            str(output["Export"]["Name"]): (stack, output["Value"])
            for stack in self.stacks
            for output in stack.template.get("Outputs", {}).values()
            if "Export" in output
        }

    def text(self, value: Any, stack: Stack) -> str:  # noqa: PLR0911  # one line per intrinsic function
        """A value of a template as a user reads it: references become construct paths."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float) or value is None:
            return json.dumps(value)
        if isinstance(value, list):
            return ", ".join(self.text(one, stack) for one in value)
        if len(value) == 1:
            ((key, inner),) = value.items()
            if key == "Ref":
                return self._name(str(inner), stack)
            if key == "Fn::GetAtt":
                target, attribute = inner if isinstance(inner, list) else inner.split(".", 1)
                return f"{self._name(target, stack)}.{self.text(attribute, stack)}"
            if key == "Fn::ImportValue" and str(inner) in self.exports:
                other, exported = self.exports[str(inner)]
                return self.text(exported, other)
            if key == "Fn::Join":
                return str(inner[0]).join(self.text(one, stack) for one in inner[1])
            if key == "Fn::Sub":
                return str(inner if isinstance(inner, str) else inner[0])
            if key == "Fn::Select":
                return f"{self.text(inner[1], stack)}[{self.text(inner[0], stack)}]"
            if key == "Fn::Split":
                return f"split({self.text(inner[1], stack)}, '{inner[0]}')"
        return json.dumps({key: json.loads(self.json(inner, stack)) for key, inner in value.items()}, sort_keys=True)

    def json(self, value: Any, stack: Stack) -> str:
        """A value as JSON whose references are texts."""
        if isinstance(value, dict) and not (len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))):
            return json.dumps(
                {key: json.loads(self.json(inner, stack)) for key, inner in value.items()}, sort_keys=True
            )
        if isinstance(value, list):
            return json.dumps([json.loads(self.json(one, stack)) for one in value])
        return json.dumps(value if not isinstance(value, dict) else self.text(value, stack))

    def _name(self, logical_id: str, stack: Stack) -> str:
        if logical_id.startswith("AWS::"):
            return "${" + logical_id + "}"
        return f"<{stack.paths.get(logical_id, logical_id)}>"

    def of_type(self, *kinds: str) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
        """Stack, construct path and resource of the types given, by path."""
        found = [
            (stack, stack.paths.get(logical_id, logical_id), resource)
            for stack in self.stacks
            for logical_id, resource in stack.resources.items()
            if not kinds or resource["Type"] in kinds
        ]
        return iter(sorted(found, key=lambda one: one[1]))


def _paths(manifest: Path, artifact: dict[str, Any]) -> dict[str, str]:
    """Logical id to construct path without the environment's name and without CDK's own last step."""
    metadata = dict(artifact.get("metadata", {}))
    extra = artifact.get("additionalMetadataFile")
    if extra:
        metadata |= json.loads((manifest.parent / extra).read_text(encoding="utf-8"))
    found = {}
    for path, entries in metadata.items():
        for entry in entries:
            if entry["type"] == "aws:cdk:logicalId":
                steps = [step for step in path.split("/") if step][1:]
                found[entry["data"]] = "/".join(step for step in steps if step not in {"Resource", "Default"})
    return found


Row = tuple[str, ...]


def pages(assembly: Assembly, *, environment: str) -> str:
    """The page of one environment, as Markdown."""
    parts = [
        f"# Security of `{environment}`",
        "",
        "Generated from the templates by `make tables`; do not edit. `<Stack/Path>` is a resource of the environment.",
        "",
    ]
    for title, intro, head, rows in (
        ("Trust", "Who may assume each role.", ("role", "principal", "actions", "conditions"), _trust(assembly)),
        (
            "Rights of roles",
            "What each role may do.",
            ("role", "effect", "actions", "resources", "conditions"),
            _rights(assembly),
        ),
        (
            "Resource policies",
            "Who may use a resource by its own policy.",
            ("resource", "effect", "principal", "actions", "resources", "conditions"),
            _resource_policies(assembly),
        ),
        (
            "Security groups",
            "What may connect to what.",
            ("group", "direction", "peer", "ports", "description"),
            _security_groups(assembly),
        ),
        (
            "Access to the Kubernetes API",
            "EKS access entries and Pod Identity associations.",
            ("principal", "kind", "policy or service account", "scope", "Kubernetes groups"),
            _access(assembly),
        ),
        (
            "Kubernetes RBAC",
            "Roles, and who they are bound to.",
            ("object", "namespace", "rule or subject"),
            _rbac(assembly),
        ),
        (
            "Network policies",
            "Which pods may talk to what.",
            ("policy", "namespace", "pods", "direction", "peers", "ports"),
            _network_policies(assembly),
        ),
        (
            "Alarms",
            "What each alarm watches and whom it calls.",
            ("alarm", "metric", "condition", "actions"),
            _alarms(assembly),
        ),
        ("Order", "What waits for what inside a stack (`DependsOn`).", ("resource", "waits for"), _order(assembly)),
        (
            "Deletion",
            "What a destroy or a replacement does with a resource.",
            ("resource", "type", "on delete", "on replacement"),
            _deletion(assembly),
        ),
        (
            "Protections",
            "Properties that protect data, images and nodes.",
            ("resource", "property", "value"),
            _protections(assembly),
        ),
    ):
        parts += [f"## {title}", "", intro, "", *_table(head, rows), ""]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: Row, rows: Iterable[Row]) -> list[str]:
    lines = [f"| {' | '.join(_cell(one) for one in row)} |" for row in dict.fromkeys(rows)]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines] if lines else ["None."]


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return flat.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _conditions(assembly: Assembly, statement: Mapping[str, Any], stack: Stack) -> str:
    found = statement.get("Condition", {})
    if not isinstance(found, dict):
        return assembly.text(found, stack)
    texts = []
    for operator, pairs in sorted(found.items()):
        if not isinstance(pairs, dict) or any(key.startswith("Fn::") for key in pairs):
            texts.append(f"{operator}: {assembly.text(pairs, stack)}")
            continue
        texts += [f"{operator} {key} = {assembly.text(value, stack)}" for key, value in sorted(pairs.items())]
    return "; ".join(texts)


def _principal(assembly: Assembly, statement: Mapping[str, Any], stack: Stack) -> str:
    principal = statement.get("Principal", statement.get("NotPrincipal", ""))
    if isinstance(principal, str):
        return principal
    return "; ".join(f"{kind} {assembly.text(who, stack)}" for kind, who in sorted(principal.items()))


def _actions(statement: Mapping[str, Any]) -> str:
    return ", ".join(str(one) for one in _list(statement.get("Action", statement.get("NotAction", ""))))


def _resources(assembly: Assembly, statement: Mapping[str, Any], stack: Stack) -> str:
    return "; ".join(sorted(assembly.text(one, stack) for one in _list(statement.get("Resource", ""))))


def _trust(assembly: Assembly) -> Iterator[Row]:
    for stack, path, role in assembly.of_type("AWS::IAM::Role"):
        for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            yield (
                path,
                _principal(assembly, statement, stack),
                _actions(statement),
                _conditions(assembly, statement, stack),
            )


def _rights(assembly: Assembly) -> Iterator[Row]:
    rows: list[Row] = []
    for stack, path, role in assembly.of_type("AWS::IAM::Role"):
        for arn in role["Properties"].get("ManagedPolicyArns", []):
            rows.append((path, "Allow", f"managed policy {assembly.text(arn, stack)}", "", ""))
        for policy in role["Properties"].get("Policies", []):
            rows += _statements(assembly, policy["PolicyDocument"], stack, who=path)
    for stack, path, attached in assembly.of_type("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        properties = attached["Properties"]
        for who in [assembly.text(one, stack).strip("<>") for one in properties.get("Roles", [])] or [path]:
            rows += _statements(assembly, properties["PolicyDocument"], stack, who=who)
    return iter(sorted(rows))


def _statements(assembly: Assembly, document: Mapping[str, Any], stack: Stack, *, who: str) -> list[Row]:
    return [
        (
            who,
            statement["Effect"],
            _actions(statement),
            _resources(assembly, statement, stack),
            _conditions(assembly, statement, stack),
        )
        for statement in document["Statement"]
    ]


_POLICIES = {
    "AWS::S3::BucketPolicy": ("Bucket", "PolicyDocument"),
    "AWS::SNS::TopicPolicy": ("Topics", "PolicyDocument"),
    "AWS::SQS::QueuePolicy": ("Queues", "PolicyDocument"),
    "AWS::Logs::ResourcePolicy": ("PolicyName", "PolicyDocument"),
    "AWS::KMS::Key": ("", "KeyPolicy"),
    "AWS::ECR::Repository": ("", "RepositoryPolicyText"),
    "AWS::EC2::VPCEndpoint": ("ServiceName", "PolicyDocument"),
}


def _resource_policies(assembly: Assembly) -> Iterator[Row]:
    for stack, path, resource in assembly.of_type(*_POLICIES):
        name, key = _POLICIES[resource["Type"]]
        document = resource["Properties"].get(key)
        if resource["Type"] == "AWS::EC2::VPCEndpoint" and document is None:
            yield (path, "Allow", "*", "*", "*", "no policy: the whole service")
        if isinstance(document, str):
            yield (path, "", "", document, "", "")
            continue
        about = f"{path} for {assembly.text(resource['Properties'][name], stack)}" if name else path
        for statement in (document or {}).get("Statement", []):
            yield (
                about,
                statement["Effect"],
                _principal(assembly, statement, stack),
                _actions(statement),
                _resources(assembly, statement, stack),
                _conditions(assembly, statement, stack),
            )


def _security_groups(assembly: Assembly) -> Iterator[Row]:
    rows: list[Row] = []
    for stack, path, group in assembly.of_type("AWS::EC2::SecurityGroup"):
        for direction, key in (("in", "SecurityGroupIngress"), ("out", "SecurityGroupEgress")):
            rows += [_rule(assembly, stack, path, direction, rule) for rule in group["Properties"].get(key, [])]
    for stack, _, rule in assembly.of_type("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"):
        direction = "in" if rule["Type"].endswith("Ingress") else "out"
        where = assembly.text(rule["Properties"]["GroupId"], stack).strip("<>").removesuffix(">.GroupId")
        rows.append(_rule(assembly, stack, where, direction, rule["Properties"]))
    return iter(sorted(rows))


def _rule(assembly: Assembly, stack: Stack, group: str, direction: str, rule: Mapping[str, Any]) -> Row:
    keys = ("CidrIp", "CidrIpv6", "SourceSecurityGroupId", "DestinationSecurityGroupId", "SourcePrefixListId",
            "DestinationPrefixListId")  # fmt: skip
    peer = ", ".join(assembly.text(rule[key], stack) for key in keys if key in rule)
    protocol = str(rule.get("IpProtocol"))
    low, high = rule.get("FromPort"), rule.get("ToPort")
    ports = "all" if protocol == "-1" else f"{protocol} {low}" if low == high else f"{protocol} {low}–{high}"
    return (group, direction, peer, ports, str(rule.get("Description", "")))


def _access(assembly: Assembly) -> Iterator[Row]:
    for stack, _, entry in assembly.of_type("AWS::EKS::AccessEntry"):
        properties = entry["Properties"]
        who, kind = assembly.text(properties["PrincipalArn"], stack), str(properties.get("Type", "STANDARD"))
        groups = assembly.text(properties.get("KubernetesGroups", []), stack)
        policies = properties.get("AccessPolicies", [])
        for policy in policies:
            scope = policy.get("AccessScope", {})
            where = f"{scope.get('Type')} {assembly.text(scope.get('Namespaces', []), stack)}".strip()
            yield (who, kind, assembly.text(policy["PolicyArn"], stack), where, groups)
        if not policies:
            yield (who, kind, "none", "", groups)
    for stack, _, entry in assembly.of_type("AWS::EKS::PodIdentityAssociation"):
        properties = entry["Properties"]
        yield (
            assembly.text(properties["RoleArn"], stack),
            "Pod Identity",
            assembly.text(properties["ServiceAccount"], stack),
            f"namespace {assembly.text(properties['Namespace'], stack)}",
            "",
        )


def _objects(assembly: Assembly, *kinds: str) -> Iterator[dict[str, Any]]:
    """Kubernetes objects that the templates apply; references inside them are texts."""
    found = []
    for stack, _, resource in assembly.of_type("Custom::AWSCDK-EKS-KubernetesResource"):
        for item in json.loads(assembly.text(resource["Properties"]["Manifest"], stack)):
            if item["kind"] in kinds:
                found.append(item)
    return iter(
        sorted(found, key=lambda one: (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]))
    )


def _rbac(assembly: Assembly) -> Iterator[Row]:
    for item in _objects(assembly, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        name, space = f"{item['kind']} {item['metadata']['name']}", item["metadata"].get("namespace", "(cluster)")
        for rule in item.get("rules", []):
            groups = ",".join(group or "core" for group in rule.get("apiGroups", [""]))
            names = f" named {','.join(rule['resourceNames'])}" if rule.get("resourceNames") else ""
            yield (name, space, f"{groups}: {','.join(rule.get('resources', []))}{names}: {','.join(rule['verbs'])}")
        for subject in item.get("subjects", []):
            where = f" in {subject['namespace']}" if "namespace" in subject else ""
            role = f"{item['roleRef']['kind']} {item['roleRef']['name']}"
            yield (name, space, f"{role} to {subject['kind']} {subject['name']}{where}")


def _network_policies(assembly: Assembly) -> Iterator[Row]:
    for item in _objects(assembly, "NetworkPolicy"):
        spec, name, space = item["spec"], item["metadata"]["name"], item["metadata"]["namespace"]
        pods = json.dumps(spec.get("podSelector") or {}, sort_keys=True)
        for direction, key, peers in (("in", "ingress", "from"), ("out", "egress", "to")):
            if key.capitalize() not in spec.get("policyTypes", []):
                continue
            rules = spec.get(key) or []
            if not rules:
                yield (name, space, pods, direction, "none", "")
            for rule in rules:
                ports = ", ".join(
                    f"{port.get('protocol', 'TCP')} {port.get('port', 'all')}" for port in rule.get("ports", [])
                )
                who = "; ".join(json.dumps(peer, sort_keys=True) for peer in rule.get(peers, [])) or "anyone"
                yield (name, space, pods, direction, who, ports or "all")


def _alarms(assembly: Assembly) -> Iterator[Row]:
    for stack, path, alarm in assembly.of_type("AWS::CloudWatch::Alarm"):
        properties = alarm["Properties"]
        metric = ".".join(str(properties.get(key, "")) for key in ("Namespace", "MetricName")).strip(".")
        if not metric:
            metric = "; ".join(
                assembly.text(
                    one.get("Expression") or one.get("MetricStat", {}).get("Metric", {}).get("MetricName"), stack
                )
                for one in properties.get("Metrics", [])
            )
        condition = (
            f"{properties.get('Statistic', properties.get('ExtendedStatistic', ''))} "
            f"{properties['ComparisonOperator']} {properties.get('Threshold')} "
            f"for {properties['EvaluationPeriods']} × {properties.get('Period', '')} s, "
            f"missing data {properties.get('TreatMissingData', 'missing')}"
        )
        actions = assembly.text(properties.get("AlarmActions", []), stack) or "none"
        yield (path, metric, condition.strip(), actions)


def _order(assembly: Assembly) -> Iterator[Row]:
    for stack, path, resource in assembly.of_type():
        for other in _list(resource.get("DependsOn", [])):
            yield (path, stack.paths.get(other, other))


def _deletion(assembly: Assembly) -> Iterator[Row]:
    for _, path, resource in assembly.of_type():
        delete, replace = resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")
        if delete or replace:
            yield (path, resource["Type"], delete or "Delete", replace or "Delete")


def _protections(assembly: Assembly) -> Iterator[Row]:
    for stack, path, resource in assembly.of_type(*PROTECTED_PROPERTIES):
        for key in PROTECTED_PROPERTIES[resource["Type"]]:
            value = resource["Properties"].get(key)
            if value is not None:
                text = assembly.text(value, stack) if not isinstance(value, list) else assembly.json(value, stack)
                yield (path, f"{resource['Type'].rpartition('::')[2]}.{key}", text)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or with `--check` exit 1 where one is not what the templates say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("assembly", type=Path, help="a cloud assembly's folder with one environment per subfolder")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    options = parser.parse_args(arguments)
    stale = 0
    for folder in sorted(one for one in options.assembly.iterdir() if (one / "manifest.json").is_file()):
        name = folder.name.removeprefix("assembly-")
        text, file = pages(Assembly.read(folder), environment=name), FOLDER / f"{name}.md"
        if options.check and (not file.is_file() or file.read_text(encoding="utf-8") != text):
            sys.stderr.write(f"{file}: stale; run: make tables\n")
            stale = 1
        elif not options.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
