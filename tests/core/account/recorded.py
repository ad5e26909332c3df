"""An account as data: what it has, and the answers of AWS's APIs that follow, each checked against botocore's model."""

from __future__ import annotations

import functools
import json
import threading
from datetime import datetime
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.exceptions import ClientError, NoCredentialsError, UnknownServiceError
from botocore.validate import ParamValidator

Json = dict[str, Any]
PAGE = 50
MESSAGES = {"OptInRequired": "You are not subscribed to this service. Please go to http://aws.amazon.com to subscribe."}
"""Of AWS, where a finding repeats them."""


@functools.cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@functools.cache
def _operation(service: str, operation: str) -> Any:
    model = _model(service)
    return next(model.operation_model(name) for name in model.operation_names if xform_name(name) == operation)


@functools.cache
def _listed_under(service: str, operation: str) -> str:
    """Member of an answer that comes in pages; empty where the answer comes whole."""
    session = botocore.session.get_session()
    try:
        pages = session.get_paginator_model(service).get_paginator(_operation(service, operation).name)
    except (UnknownServiceError, ValueError):
        return ""
    key = pages["result_key"]
    return str(key[0] if isinstance(key, list) else key)


def _fits(shape: Any, data: Json, what: str) -> None:
    if shape is None:
        return
    report = ParamValidator().validate(_as_sent(data), shape)
    assert not report.has_errors(), f"{what}: {report.generate_report()}"


def _as_sent(data: Json) -> Json:
    """A policy as text, which boto3 gives as an object."""
    role = data.get("Role")
    if isinstance(role, dict) and isinstance(role.get("AssumeRolePolicyDocument"), dict):
        return {**data, "Role": {**role, "AssumeRolePolicyDocument": json.dumps(role["AssumeRolePolicyDocument"])}}
    return data


class RecordedAccount:
    """Answers read-only calls from the data of an account.

    Args:
        data: What the account has, by kind; see `GOOD` beside it.
    """

    def __init__(self, data: Json) -> None:
        self.data = data
        self.asked: list[str] = []
        self.requests: list[tuple[str, Json]] = []
        self._local = threading.local()

    @property
    def _whole(self) -> bool:
        """Whether all pages are asked for, in this thread."""
        return getattr(self._local, "whole", False)

    @_whole.setter
    def _whole(self, value: bool) -> None:
        self._local.whole = value

    # --- what rules call -------------------------------------------------------------------------------------------

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        _fits(_operation(service, operation).input_shape, arguments, f"request {service}.{operation}")
        self.asked.append(f"{service}:{operation}")
        self.requests.append((operation, arguments))
        self._refuse(f"{service}.{operation}")
        answer: Json = getattr(self, f"_{service.replace('-', '_')}_{operation}")(arguments)
        _fits(_operation(service, operation).output_shape, answer, f"answer {service}.{operation}")
        key = _listed_under(service, operation)
        return {**answer, key: answer[key][:PAGE]} if isinstance(answer.get(key), list) and not self._whole else answer

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """All pages, of what boto3 has pages of; one call answers with the first."""
        assert _listed_under(service, operation) == key, f"boto3 has no pages of {key} of {service}.{operation}"
        self._whole = True
        try:
            return list(self.call(service, operation, **arguments)[key])
        finally:
            self._whole = False

    def _refuse(self, call: str) -> None:
        errors = self.data.get("errors", {})
        refused = errors.get(call, errors.get("*"))
        if refused == "NoCredentials":
            raise NoCredentialsError
        if refused:
            status = 500 if refused == "InternalFailure" else 400
            error = {"Code": refused, "Message": MESSAGES.get(refused, "refused")}
            answer: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, call.partition(".")[2])

    def _one(self, kind: str, name: str, code: str, message: str = "not there") -> Any:
        found = self.data[kind].get(name)
        if found is None:
            raise ClientError({"Error": {"Code": code, "Message": message}}, kind)
        return found

    # --- EC2 -------------------------------------------------------------------------------------------------------

    def _ec2_describe_availability_zones(self, _: Json) -> Json:
        return {"AvailabilityZones": [{"ZoneName": n, **zone} for n, zone in self.data["zones"].items()]}

    def _ec2_describe_images(self, asked: Json) -> Json:
        wanted = asked["Filters"][0]["Values"]
        return {"Images": [{"ImageId": i, **image} for i, image in self.data.get("amis", {}).items() if i in wanted]}

    def _ec2_describe_vpcs(self, asked: Json) -> Json:
        wanted = asked.get("VpcIds") or list(self.data["vpcs"])
        vpcs = [{"VpcId": one, **self._one("vpcs", one, "InvalidVpcID.NotFound")} for one in wanted]
        return {"Vpcs": [{k: v for k, v in vpc.items() if not k.startswith("enable")} for vpc in vpcs]}

    def _ec2_describe_vpc_attribute(self, asked: Json) -> Json:
        name = asked["Attribute"]
        value = self._one("vpcs", asked["VpcId"], "InvalidVpcID.NotFound").get(name, True)
        return {"VpcId": asked["VpcId"], name[0].upper() + name[1:]: {"Value": value}}

    def _ec2_describe_subnets(self, asked: Json) -> Json:
        wanted = asked["Filters"][0]["Values"]
        return {"Subnets": [{"SubnetId": i, **s} for i, s in self.data["subnets"].items() if i in wanted]}

    def _ec2_describe_route_tables(self, _: Json) -> Json:
        return {"RouteTables": self.data["route_tables"]}

    def _ec2_describe_addresses(self, _: Json) -> Json:
        return {"Addresses": [{"PublicIp": f"192.0.2.{n}"} for n in range(self.data["addresses"])]}

    def _ec2_describe_nat_gateways(self, _: Json) -> Json:
        return {"NatGateways": self.data["nat_gateways"]}

    def _ec2_describe_instance_type_offerings(self, asked: Json) -> Json:
        kind = asked["Filters"][0]["Values"][0]
        zones = self.data["offerings"].get(kind, [])
        return {"InstanceTypeOfferings": [{"InstanceType": kind, "Location": zone} for zone in zones]}

    def _ec2_describe_internet_gateways(self, _: Json) -> Json:
        count = self.data.get("internet_gateways", 0)
        return {"InternetGateways": [{"InternetGatewayId": f"igw-{n}"} for n in range(count)]}

    def _ec2_describe_vpc_endpoints(self, asked: Json) -> Json:
        wanted = {one["Name"]: one["Values"] for one in asked.get("Filters", [])}
        names = {"vpc-id": "VpcId", "vpc-endpoint-type": "VpcEndpointType"}
        found = self.data.get("endpoints", [])
        return {"VpcEndpoints": [one for one in found if all(one[names[key]] in wanted[key] for key in wanted)]}

    def _ec2_describe_network_acls(self, _: Json) -> Json:
        return {"NetworkAcls": self.data["network_acls"]}

    def _ec2_describe_network_interfaces(self, asked: Json) -> Json:
        wanted = asked["Filters"][0]["Values"]
        found = {one: groups for one, groups in self.data["interfaces"].items() if one in wanted}
        return {
            "NetworkInterfaces": [
                {"NetworkInterfaceId": one, "Groups": [{"GroupId": group} for group in groups]}
                for one, groups in found.items()
            ]
        }

    def _ec2_describe_security_groups(self, asked: Json) -> Json:
        wanted = asked["Filters"][0]["Values"]
        groups = self.data["security_groups"]
        return {"SecurityGroups": [{"GroupId": one, "IpPermissions": groups[one]} for one in wanted]}

    # --- Cost Explorer ---------------------------------------------------------------------------------------------

    def _ce_list_cost_allocation_tags(self, asked: Json) -> Json:
        tags = self.data.get("cost_tags", {})
        found = [{"TagKey": k, "Type": "UserDefined", "Status": s} for k, s in tags.items() if k in asked["TagKeys"]]
        return {"CostAllocationTags": found}

    # --- EKS -------------------------------------------------------------------------------------------------------

    def _eks_describe_cluster(self, asked: Json) -> Json:
        return {
            "cluster": {
                "name": asked["name"],
                **self._one("eks", asked["name"], "ResourceNotFoundException"),
            }
        }

    def _eks_list_clusters(self, _: Json) -> Json:
        return {"clusters": [*self.data["eks"], *self.data["more_eks"]]}

    def _eks_describe_cluster_versions(self, asked: Json) -> Json:
        there = self.data["versions"]
        wanted = [there[version] for version in asked["clusterVersions"] if version in there]
        return {"clusterVersions": [{"clusterVersion": asked["clusterVersions"][0], **one} for one in wanted]}

    def _eks_describe_addon(self, asked: Json) -> Json:
        version = self._one("addons", asked["addonName"], "ResourceNotFoundException")
        made = {"addonName": asked["addonName"], "addonVersion": version, "status": "ACTIVE"}
        if configuration := self.data["addon_configuration"].get(asked["addonName"]):
            made["configurationValues"] = configuration
        return {"addon": made}

    def _eks_list_associated_access_policies(self, asked: Json) -> Json:
        arns = self._one("access_entries", asked["principalArn"], "ResourceNotFoundException")
        return {"clusterName": asked["clusterName"], "associatedAccessPolicies": [{"policyArn": arn} for arn in arns]}

    # --- SageMaker, FSx --------------------------------------------------------------------------------------------

    def _sagemaker_describe_cluster(self, asked: Json) -> Json:
        return {"InstanceGroups": [], **self._one("hyperpod", asked["ClusterName"], "ResourceNotFound")}

    def _sagemaker_list_clusters(self, asked: Json) -> Json:
        made = datetime(2026, 1, 1)  # as botocore's model has it
        found = [
            {
                "ClusterArn": cluster["ClusterArn"],
                "ClusterName": name,
                "CreationTime": made,
                "ClusterStatus": "InService",
            }
            for name, cluster in ({**self._others(), **self.data["hyperpod"]}).items()
            if "TrainingPlanArn" not in asked
        ]
        return {"ClusterSummaries": found}

    def _sagemaker_list_cluster_scheduler_configs(self, asked: Json) -> Json:
        made = datetime(2026, 1, 1)
        found = [
            {"ClusterSchedulerConfigArn": arn, "ClusterSchedulerConfigId": arn[-12:], "Name": name, "Status": "Created",
             "ClusterArn": asked["ClusterArn"], "CreationTime": made}
            for arn, name in self.data.get("policies", {}).items()
        ]  # fmt: skip
        return {"ClusterSchedulerConfigSummaries": found}

    def _sagemaker_list_compute_quotas(self, asked: Json) -> Json:
        made = datetime(2026, 1, 1)
        found = [
            {"ComputeQuotaArn": arn, "ComputeQuotaId": arn[-12:], "Name": f"some-{team}", "Status": "Created",
             "ClusterArn": asked["ClusterArn"], "ComputeQuotaTarget": {"TeamName": team}, "CreationTime": made}
            for arn, team in self.data.get("team_quotas", {}).items()
        ]  # fmt: skip
        return {"ComputeQuotaSummaries": found}

    def _others(self) -> Json:
        arn = "arn:aws:sagemaker:us-west-2:123456789012:cluster"
        return {f"other-{n}": {"ClusterArn": f"{arn}/o{n}"} for n in range(self.data.get("more_hyperpod", 0))}

    def _sagemaker_list_cluster_nodes(self, asked: Json) -> Json:
        nodes = self.data["nodes"].get(asked["ClusterName"], {})
        made = datetime(2026, 1, 1)
        return {
            "ClusterNodeSummaries": [
                {
                    "InstanceGroupName": "g",
                    "InstanceId": f"i-{kind}-{n}",
                    "InstanceType": kind,
                    "LaunchTime": made,
                    "InstanceStatus": {"Status": "Running"},
                }
                for kind, count in nodes.items()
                for n in range(count)
            ]
        }

    def _sagemaker_describe_training_plan(self, asked: Json) -> Json:
        name = asked["TrainingPlanName"]
        return {"TrainingPlanName": name, **self._one("training_plans", name, "ResourceNotFound")}

    def _sagemaker_describe_mlflow_tracking_server(self, asked: Json) -> Json:
        name = asked["TrackingServerName"]
        return {"TrackingServerStatus": self._one("mlflow", name, "ResourceNotFound")}

    def _sagemaker_describe_mlflow_app(self, asked: Json) -> Json:
        return {"Arn": asked["Arn"], "Status": self._one("mlflow", asked["Arn"], "ResourceNotFound")}

    def _sagemaker_list_mlflow_apps(self, asked: Json) -> Json:
        del asked
        found = self.data.get("mlflow_apps", {}).items()
        return {"Summaries": [{"Arn": arn, "Name": name, "Status": status} for arn, (name, status) in found]}

    def _fsx_describe_file_systems(self, asked: Json) -> Json:
        wanted = asked.get("FileSystemIds") or list(self.data["file_systems"])
        return {
            "FileSystems": [{"FileSystemId": i, **self._one("file_systems", i, "FileSystemNotFound")} for i in wanted]
        }

    # --- the others ------------------------------------------------------------------------------------------------

    def _codeartifact_describe_repository(self, asked: Json) -> Json:
        place = "/".join(asked[key] for key in ("domainOwner", "domain", "repository"))
        self._one("packages", place, "ResourceNotFoundException")
        return {"repository": {"name": asked["repository"], "domainName": asked["domain"]}}

    def _secretsmanager_describe_secret(self, asked: Json) -> Json:
        return {"ARN": asked["SecretId"], **self._one("secrets", asked["SecretId"], "ResourceNotFoundException")}

    def _sns_get_topic_attributes(self, asked: Json) -> Json:
        attributes = dict(self._one("topics", asked["TopicArn"], "NotFound"))
        if isinstance(attributes.get("Policy"), dict):
            attributes["Policy"] = json.dumps(attributes["Policy"])
        return {"Attributes": attributes}

    def _kms_describe_key(self, asked: Json) -> Json:
        return {"KeyMetadata": {"KeyId": "k", **self._one("keys", asked["KeyId"], "NotFoundException")}}

    def _iam_get_role(self, asked: Json) -> Json:
        name = asked["RoleName"]
        role = self._one("roles", name, "NoSuchEntity")
        made = {"Path": "/", "RoleName": name, "RoleId": "AROA0123456789ABCDEF", "CreateDate": datetime(2026, 1, 1)}
        policy = {"AssumeRolePolicyDocument": role["trust"]} if "trust" in role else {}
        return {"Role": {**made, **policy, "Arn": role["Arn"]}}

    def _iam_list_open_id_connect_providers(self, _: Json) -> Json:
        others = [f"arn:aws:iam::123456789012:oidc-provider/other{n}" for n in range(self.data.get("more_oidc", 0))]
        return {"OpenIDConnectProviderList": [{"Arn": arn} for arn in [*self.data["oidc"], *others]]}

    def _iam_simulate_principal_policy(self, asked: Json) -> Json:
        denied = self.data["denied"]
        by = {
            "organization": {"OrganizationsDecisionDetail": {"AllowedByOrganizations": False}},
            "boundary": {"PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False}},
        }.get(self.data.get("denied_by", ""), {})
        return {
            "EvaluationResults": [
                {"EvalActionName": name, "EvalDecision": "implicitDeny", **by}
                if name in denied
                else {"EvalActionName": name, "EvalDecision": "allowed"}
                for name in asked["ActionNames"]
            ]
        }

    def _iam_get_account_summary(self, _: Json) -> Json:
        return {"SummaryMap": self.data["summary"]}

    def _lambda_get_account_settings(self, _: Json) -> Json:
        return {"AccountLimit": self.data["lambda"]}

    def _account_get_region_opt_status(self, asked: Json) -> Json:
        return {"RegionName": asked["RegionName"], "RegionOptStatus": self.data["region_status"]}

    def _sts_get_caller_identity(self, _: Json) -> Json:
        return {"Account": self.data.get("account", "123456789012"), "Arn": self.data["caller"]}

    def _ssm_get_parameter(self, asked: Json) -> Json:
        return {"Parameter": {"Value": self._one("parameters", asked["Name"], "ParameterNotFound")}}

    def _s3_head_bucket(self, asked: Json) -> Json:
        region = self._one("buckets", asked["Bucket"], "404")
        if region == "forbidden":
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadBucket")
        if region.startswith("redirect "):
            headers = {"HTTPHeaders": {"x-amz-bucket-region": region.removeprefix("redirect ")}}
            answer: Any = {"Error": {"Code": "301", "Message": "Moved Permanently"}, "ResponseMetadata": headers}
            raise ClientError(answer, "HeadBucket")
        return {"BucketRegion": region}

    def _s3_list_object_versions(self, asked: Json) -> Json:
        objects = self.data.get("objects", {}).get(asked["Bucket"], [])
        if objects == "forbidden":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectVersions")
        return {
            "Versions": [{"Key": key} for key in objects[: asked["MaxKeys"]]],
            "IsTruncated": len(objects) > asked["MaxKeys"],
        }

    def _grafana_describe_workspace(self, asked: Json) -> Json:
        state = self._one("grafana", asked["workspaceId"], "ResourceNotFoundException")
        if state == "forbidden":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeWorkspace")
        made = {"created": datetime(2026, 1, 1), "modified": datetime(2026, 1, 1), "id": asked["workspaceId"]}
        return {
            "workspace": {
                **made,
                "status": state,
                "dataSources": [],
                "endpoint": "x",
                "grafanaVersion": "10.4",
                "authentication": {"providers": ["SAML"]},
            }
        }

    def _s3_get_bucket_lifecycle_configuration(self, asked: Json) -> Json:
        return {"Rules": self._one("lifecycles", asked["Bucket"], "NoSuchLifecycleConfiguration")}

    def _bucket(self, asked: Json, setting: str, code: str = "") -> Any:
        found = self.data["bucket_settings"].get(asked["Bucket"], {}).get(setting)
        if found is None and code:
            raise ClientError({"Error": {"Code": code, "Message": "none"}}, setting)
        return found or {}

    def _s3_get_bucket_encryption(self, asked: Json) -> Json:
        key = self._bucket(asked, "kms_key", "ServerSideEncryptionConfigurationNotFoundError")
        by_default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        return {"ServerSideEncryptionConfiguration": {"Rules": [{"ApplyServerSideEncryptionByDefault": by_default}]}}

    def _s3_get_bucket_policy(self, asked: Json) -> Json:
        return {"Policy": json.dumps(self._bucket(asked, "policy", "NoSuchBucketPolicy"))}

    def _s3_get_bucket_notification_configuration(self, asked: Json) -> Json:
        return dict(self._bucket(asked, "notifications"))

    def _kms_get_key_policy(self, asked: Json) -> Json:
        return {"Policy": json.dumps(self.data["key_policies"].get(asked["KeyId"], self.data["key_policy"]))}

    def _ecr_get_repository_policy(self, asked: Json) -> Json:
        policy = self.data["repository_settings"].get(asked["repositoryName"], {}).get("policy")
        if policy is None:
            raise ClientError({"Error": {"Code": "RepositoryPolicyNotFoundException", "Message": "none"}}, "ecr")
        return {"policyText": json.dumps(policy)}

    def _ecr_batch_get_image(self, asked: Json) -> Json:
        manifest = self.data["manifests"].get(asked["repositoryName"])
        return {"images": [{"imageManifest": json.dumps(manifest)}] if manifest else []}

    def _ecr_describe_repositories(self, asked: Json) -> Json:
        if "repositoryNames" not in asked:
            return {"repositories": [{"repositoryName": name} for name in self.data["repositories"]]}
        (name,) = asked["repositoryNames"]
        if name not in self.data["repositories"]:
            raise ClientError({"Error": {"Code": "RepositoryNotFoundException", "Message": name}}, "ecr")
        tags = self.data["repository_settings"].get(name, {}).get("imageTagMutability", "IMMUTABLE")
        return {"repositories": [{"repositoryName": name, "imageTagMutability": tags}]}

    def _ecr_describe_images(self, asked: Json) -> Json:
        if "imageIds" not in asked:
            tags = self.data.get("image_tags", {}).get(asked["repositoryName"], [])
            return {"imageDetails": [{"imageDigest": f"sha256:{n}", "imageTags": [tag]} for n, tag in enumerate(tags)]}
        images = self._one("images", asked["repositoryName"], "RepositoryNotFoundException")
        if self.data.get("empty_answers"):
            return {"imageDetails": []}
        digest = asked["imageIds"][0]["imageDigest"]
        if digest not in images:
            raise ClientError({"Error": {"Code": "ImageNotFoundException", "Message": digest}}, "ecr")
        return {"imageDetails": [{"imageDigest": digest}]}

    def _ecr_describe_pull_through_cache_rules(self, asked: Json) -> Json:
        (prefix,) = asked["ecrRepositoryPrefixes"]
        url = self._one("caches", prefix, "PullThroughCacheRuleNotFoundException")
        return {"pullThroughCacheRules": [{"ecrRepositoryPrefix": prefix, "upstreamRegistryUrl": url}]}

    def _logs_describe_log_groups(self, asked: Json) -> Json:
        prefix = asked["logGroupNamePrefix"]
        more = [f"{prefix}-{n}" for n in range(self.data.get("more_log_groups", 0))]
        groups = more + [group for group in self.data["log_groups"] if group.startswith(prefix)]
        return {"logGroups": [{"logGroupName": group} for group in groups]}

    def _cloudwatch_describe_alarms(self, asked: Json) -> Json:
        return {"MetricAlarms": [{"AlarmName": alarm} for alarm in self.data["alarms"] if alarm in asked["AlarmNames"]]}

    def _amp_list_workspaces(self, _: Json) -> Json:
        listed = []
        for number, tags in enumerate(self.data["workspaces"]):
            name = f"ws-{number:08d}"
            arn = f"arn:aws:aps:us-west-2:123456789012:workspace/{name}"
            state = {"statusCode": "ACTIVE"}
            listed.append(
                {"workspaceId": name, "arn": arn, "status": state, "createdAt": datetime(2026, 1, 1), "tags": tags}
            )
        return {"workspaces": listed}

    def _cloudformation_describe_stacks(self, asked: Json) -> Json:
        stack = self._one("stacks", asked["StackName"], "ValidationError")
        made = datetime(2026, 1, 1)
        tags = [{"Key": key, "Value": value} for key, value in stack.get("tags", {}).items()]
        shown = {"StackName": asked["StackName"], "CreationTime": made, "StackStatus": stack["status"], "Tags": tags}
        return {"Stacks": [shown]}

    def _cloudformation_describe_stack_resources(self, asked: Json) -> Json:
        wanted = asked["PhysicalResourceId"]
        made = datetime(2026, 1, 1)
        for name, stack in self.data["stacks"].items():
            if wanted in stack.get("resources", []):
                common = {"Timestamp": made, "ResourceStatus": "CREATE_COMPLETE", "ResourceType": "AWS::X::Y"}
                return {
                    "StackResources": [
                        {"StackName": name, "LogicalResourceId": f"R{n}", "PhysicalResourceId": one, **common}
                        for n, one in enumerate(stack["resources"])
                    ]
                }
        message = f"Stack for {wanted} does not exist"
        raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStackResources")

    def _cloudformation_list_stacks(self, _: Json) -> Json:
        made = datetime(2026, 1, 1)
        stacks = {name: stack["status"] for name, stack in self.data["stacks"].items()}
        stacks |= {f"other-{n}": "CREATE_COMPLETE" for n in range(self.data.get("more_stacks", 0))}
        return {
            "StackSummaries": [
                {"StackName": name, "CreationTime": made, "StackStatus": status} for name, status in stacks.items()
            ]
        }

    def _cloudformation_list_exports(self, _: Json) -> Json:
        stack = "arn:aws:cloudformation:us-west-2:123456789012:stack"
        exports = self.data["exports"].items()
        return {
            "Exports": [{"Name": name, "ExportingStackId": f"{stack}/{of}/0123", "Value": "x"} for name, of in exports]
        }

    def _service_quotas_list_service_quotas(self, asked: Json) -> Json:
        listed = self.data["quotas"][asked["ServiceCode"]]
        return {"Quotas": [{"QuotaName": name, "Value": float(value)} for name, value in listed.items()]}

    def _service_quotas_list_aws_default_service_quotas(self, _: Json) -> Json:
        return {"Quotas": []}
