"""Everything that exists now, by service: what a demo shows to prove that nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context

Json = dict[str, Any]
Lister = Callable[[], list[Json]]


def take(context: Context, *, account: str, region: str, extra: Iterable[Lister]) -> list[Json]:
    """Return every resource of an account and region as `{type, id, stack, …}`; `stack` is the one that owns it."""
    import importlib  # MiniStack's modules load lazily, and so does this

    def service(name: str) -> Any:
        return importlib.import_module(f"ministack.services.{name}")

    with context.hooks.responses.request_scope(account, region):
        resources = _stacks(context)
        for resource_type, module, store in _STORES:
            keys = list(getattr(service(module), store).keys())
            resources += [{"type": resource_type, "id": _id(key)} for key in keys]
        resources += _ec2(context) + _partial(service)
        for lister in extra:
            resources += lister()
        owners = _owners(context)
    for resource in resources:
        resource.setdefault("stack", owners.get(resource["id"], ""))
        # a function that ran has a log group of the service's making, which outlives its stack in AWS too
        resource["made_by_service"] = not resource["stack"] and resource["id"].startswith(SERVICE_LOG_GROUPS)
    return sorted(resources, key=lambda i: (i["type"], i["id"]))


SERVICE_LOG_GROUPS = ("/aws/lambda/", "/aws/codebuild/", "/aws/sagemaker/")

# what exists exactly while its key is in MiniStack's store
_STORES = (
    ("AWS::Budgets::Budget", "budgets", "_budgets"),
    ("AWS::CloudWatch::Alarm", "cloudwatch", "_alarms"),
    ("AWS::CloudWatch::Dashboard", "cloudwatch", "_dashboards"),
    ("AWS::CodeBuild::Project", "codebuild", "_projects"),
    ("AWS::EKS::AccessEntry", "eks", "_access_entries"),
    ("AWS::EKS::Addon", "eks", "_addons"),
    ("AWS::EKS::Cluster", "eks", "_clusters"),
    ("AWS::EKS::PodIdentityAssociation", "eks", "_pod_identity_associations"),
    ("AWS::IAM::InstanceProfile", "iam", "_instance_profiles"),
    ("AWS::IAM::OIDCProvider", "iam", "_oidc_providers"),
    ("AWS::IAM::Role", "iam", "_roles"),
    ("AWS::IAM::User", "iam", "_users"),
    ("AWS::Lambda::Function", "lambda_svc", "_functions"),
    ("AWS::Logs::LogGroup", "cloudwatch_logs", "_log_groups"),
    ("AWS::S3::Bucket", "s3", "_buckets"),
    ("AWS::SNS::Topic", "sns", "_topics"),
    ("AWS::SQS::Queue", "sqs", "_queues"),
    ("AWS::SSM::Parameter", "ssm", "_parameters"),
    ("AWS::SecretsManager::Secret", "secretsmanager", "_secrets"),
    ("AWS::StepFunctions::StateMachine", "stepfunctions", "_state_machines"),
)


def _id(key: Any) -> str:
    return str(key).replace("\x00", "|")


def _stacks(context: Context) -> list[Json]:
    return [
        {"type": "AWS::CloudFormation::Stack", "id": s["StackName"], "state": s["StackStatus"], "stack": s["StackName"]}
        for s in context.hooks.cloudformation._stacks.values()
        if s["StackStatus"] != "DELETE_COMPLETE"
    ]


def _ec2(context: Context) -> list[Json]:
    ec2 = context.hooks.ec2
    default = {i for i, v in ec2._vpcs.items() if v.get("IsDefault")}
    stores = (
        ("AWS::EC2::VPC", ec2._vpcs),
        ("AWS::EC2::Subnet", ec2._subnets),
        ("AWS::EC2::SecurityGroup", ec2._security_groups),
        ("AWS::EC2::RouteTable", ec2._route_tables),
        ("AWS::EC2::NetworkInterface", ec2._network_interfaces),
        ("AWS::EC2::InternetGateway", ec2._internet_gateways),
        ("AWS::EC2::VPCEndpoint", ec2._vpc_endpoints),
        ("AWS::EC2::NatGateway", ec2._nat_gateways),
        ("AWS::EC2::FlowLog", ec2._flow_logs),
        ("AWS::EC2::EIP", ec2._addresses),
        ("AWS::EC2::Instance", ec2._instances),
        ("AWS::EC2::Volume", ec2._volumes),
    )
    resources = []
    for resource_type, store in stores:
        for identifier, record in store.items():
            vpcs = {record.get("VpcId")} | {a.get("VpcId") for a in record.get("Attachments", [])}
            gone = record.get("State") in ("deleted", "terminated")
            # a VPC's default group and main route table come and go with it
            if not gone and not vpcs & default and record.get("GroupName") != "default":
                resources.append(
                    {"type": resource_type, "id": record.get("PublicIp", identifier), "vpc": record.get("VpcId", "")}
                )
    return [f for f in resources if f["id"] not in default]


def _partial(service: Callable[[str], Any]) -> list[Json]:
    """What needs a closer look than its key: pending deletions, versions, images, AWS's own."""
    resources: list[Json] = []
    for identifier, key in service("kms")._keys.items():
        if key.get("KeyState") != "PendingDeletion" and key.get("KeyManager") != "AWS":
            resources.append({"type": "AWS::KMS::Key", "id": identifier})
    for name, layer in service("lambda_svc")._layers.items():
        resources += [{"type": "AWS::Lambda::LayerVersion", "id": f"{name}:{v['Version']}"} for v in layer["versions"]]
    ecr = service("ecr")
    for name in ecr._repositories:
        resources.append({"type": "AWS::ECR::Repository", "id": name})
        resources += [
            {"type": "AWS::ECR::Image", "id": f"{name}:{i.get('imageTag') or i.get('imageDigest')}"}
            for i in ecr._images.get(name) or []
        ]
    for arn, policy in service("iam")._policies.items():
        if ":iam::aws:" not in str(policy.get("Arn", arn)):
            resources.append({"type": "AWS::IAM::ManagedPolicy", "id": str(policy.get("Arn", arn))})
    for key, rule in service("eventbridge")._rules.items():
        resources.append({"type": "AWS::Events::Rule", "id": str(rule.get("Name", key))})
    return resources


def _owners(context: Context) -> dict[str, str]:
    owners: dict[str, str] = {}
    for stack in context.hooks.cloudformation._stacks.values():
        if stack["StackStatus"] == "DELETE_COMPLETE":
            continue
        for resource in stack.get("_resources", {}).values():
            identifier = str(resource.get("PhysicalResourceId", ""))
            owners[identifier] = owners[identifier.rpartition("/")[2]] = stack["StackName"]
    return owners
