"""The operations on clusters and their tags."""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules import eks as eks_rules
from hyperpod_ray_rules import hyperpod as rules
from hyperpod_ray_sandbox.aws.emulator.context import Context, tag_list, tag_map, word
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError, refuse
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import IMAGE_RELEASES, Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.mounts import Mounts
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import event, of_group, page, plans_of, public
from hyperpod_ray_sandbox.aws.emulator.network import Network
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]

# what UpdateCluster changes; the rest of CreateCluster's members cannot change
UPDATABLE = (
    "NodeRecovery", "AutoScaling", "ClusterRole", "TieredStorageConfig", "NodeProvisioningMode", "Orchestrator",
)  # fmt: skip


class ClusterOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, context: Context, network: Network, roles: Roles, clusters: Clusters, mounts: Mounts) -> None:
        self._context = context
        self._hooks = context.hooks
        self._network = network
        self._roles = roles
        self._clusters = clusters
        self._mounts = mounts

    def CreateCluster(self, data: Json) -> Json:
        """Create a cluster; its nodes appear over time."""
        name = data["ClusterName"]
        if name in self._clusters.records:
            raise ServiceError("ResourceInUse", f"Cluster with name {name} already exists")
        self._judge(data)
        self._check_references(data)
        arn = self._hooks.arn("sagemaker", f"cluster/{word(12)}")
        kept = {k: v for k, v in data.items() if k not in ("Tags", "InstanceGroups")}
        cluster: Json = {
            **kept,
            "ClusterArn": arn,
            "ClusterStatus": "Creating",
            "CreationTime": time.time(),
            "_scope": (self._hooks.account(), self._hooks.region()),
            "_ready_at": self._context.later(),
            "_groups": {g["InstanceGroupName"]: g for g in data.get("InstanceGroups", [])},
            "_nodes": [],
            "_events": [],
        }
        self._clusters.records[name] = cluster
        self._clusters.tags[arn] = tag_map(data.get("Tags"))
        event(cluster, f"Cluster {name} creation started")
        self._clusters.reconcile(cluster)
        return {"ClusterArn": arn}

    def UpdateCluster(self, data: Json) -> Json:
        """Change groups and cluster-wide settings."""
        cluster = self._clusters.find(data["ClusterName"])
        self._clusters.in_status(cluster, "UpdateCluster", "InService", "Failed")
        deleted = set(data.get("InstanceGroupsToDelete", []))
        unknown = sorted(deleted - set(cluster["_groups"]))
        if unknown:
            raise ServiceError("ValidationException", f"Instance group {unknown[0]} does not exist in the cluster")
        merged = {**cluster, **{k: data[k] for k in UPDATABLE if k in data}}
        groups = dict(cluster["_groups"])
        for group in data.get("InstanceGroups", []):
            name = group["InstanceGroupName"]
            if name in groups:
                refuse(rules.update_group(groups[name], group))
                groups[name] = {**groups[name], **group}
            else:
                groups[name] = group
        for name in deleted:
            del groups[name]
        self._judge({**public(merged), "InstanceGroups": list(groups.values())})
        self._mounts.check(data.get("InstanceGroups", []), cluster.get("VpcConfig", {}))
        cluster.update({k: data[k] for k in UPDATABLE if k in data})
        cluster["_groups"] = groups
        cluster["FailureMessage"] = ""
        cluster.pop("_shown", None)
        self._clusters.begin(cluster, "Updating", "Cluster update started")
        self._clusters.reconcile(cluster)
        return {"ClusterArn": cluster["ClusterArn"]}

    def DeleteCluster(self, data: Json) -> Json:
        """Delete a cluster and its nodes."""
        cluster = self._clusters.find(data["ClusterName"])
        self._clusters.in_status(cluster, "DeleteCluster", "InService", "Failed", "Creating", "Deleting")
        if cluster["ClusterStatus"] != "Deleting":
            self._clusters.begin(cluster, "Deleting", "Cluster deletion started")
            for node in cluster["_nodes"]:
                node.update(_status="ShuttingDown", _next=[])
        return {"ClusterArn": cluster["ClusterArn"]}

    def DescribeCluster(self, data: Json) -> Json:
        """Answer a cluster with its groups' target and current counts."""
        cluster = self._clusters.find(data["ClusterName"])
        answer = public(cluster)
        if "AutoScaling" in answer:
            answer["AutoScaling"] = {**answer["AutoScaling"], "Status": "InService"}
        answer["InstanceGroups"] = [self._describe_group(cluster, group) for group in cluster["_groups"].values()]
        return answer

    def ListClusters(self, data: Json) -> Json:
        """Answer the clusters of the account and region, filtered as asked."""
        clusters = [c for c in self._clusters.records.values() if data.get("NameContains", "") in c["ClusterName"]]
        plan = data.get("TrainingPlanArn")
        if plan:
            clusters = [c for c in clusters if plan in plans_of(c)]
        key = "ClusterName" if data.get("SortBy") == "NAME" else "CreationTime"
        clusters.sort(key=lambda c: c[key], reverse=data.get("SortOrder") == "Descending")
        selected, token = page(clusters, data)
        members = ("ClusterArn", "ClusterName", "CreationTime", "ClusterStatus")
        summaries = [
            {k: c[k] for k in members} | ({"TrainingPlanArns": p} if (p := plans_of(c)) else {}) for c in selected
        ]
        return {"ClusterSummaries": summaries, **token}

    def UpdateClusterSoftware(self, data: Json) -> Json:
        """Bring every node, or those of the groups named, to the newest image release or the one asked for."""
        cluster = self._clusters.find(data["ClusterName"])
        self._clusters.in_status(cluster, "UpdateClusterSoftware", "InService")
        releases = {g["InstanceGroupName"]: g.get("ImageReleaseVersion") for g in data.get("InstanceGroups", [])}
        unknown = sorted(set(releases) - set(cluster["_groups"]))
        if unknown:
            raise ServiceError("ValidationException", f"Instance group {unknown[0]} not found")
        image = data.get("ImageId")
        for name in releases or cluster["_groups"]:
            group = cluster["_groups"][name]
            refuse(rules.update_software(group, image))
            if image == "default":
                group.pop("ImageId", None)
            elif image:
                group["ImageId"] = image
        self._clusters.begin(cluster, "SystemUpdating", "Cluster software update started")
        done = cluster["_ready_at"]
        for name in releases or cluster["_groups"]:
            cluster.get("_shown", {}).pop(name, None)
        for node in cluster["_nodes"]:
            if releases and node["InstanceGroupName"] not in releases:
                continue
            node.update(_status="SystemUpdating", _next=[(done, "Running")], LastSoftwareUpdateTime=time.time())
            node["_ami"] = cluster["_groups"].get(node["InstanceGroupName"], {}).get("ImageId", "")
            node["_image"] = releases.get(node["InstanceGroupName"]) or IMAGE_RELEASES[-1]
        return {"ClusterArn": cluster["ClusterArn"]}

    def AddTags(self, data: Json) -> Json:
        """Add tags to a cluster."""
        tags = self._clusters.tags.setdefault(self._taggable(data["ResourceArn"]), {})
        tags.update(tag_map(data["Tags"]))
        return {"Tags": tag_list(tags)}

    def DeleteTags(self, data: Json) -> Json:
        """Remove tags from a cluster."""
        tags = self._clusters.tags.get(self._taggable(data["ResourceArn"])) or {}
        for key in data["TagKeys"]:
            tags.pop(key, None)
        return {}

    def ListTags(self, data: Json) -> Json:
        """Answer the tags of a cluster."""
        return {"Tags": tag_list(self._clusters.tags.get(self._taggable(data["ResourceArn"])) or {})}

    def _judge(self, data: Json) -> None:
        refuse(rules.create_cluster(data, rules.Where(region=self._hooks.region(), account=self._hooks.account())))

    def _check_references(self, data: Json) -> None:
        eks = data.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
        cluster = next((c for c in self._hooks.eks._clusters.values() if c["arn"] == eks), None)
        if eks and cluster is None:
            raise ServiceError("ValidationException", f"EKS cluster {eks} does not exist")
        if cluster is not None:
            refuse(rules.orchestrator_version(str(cluster["version"])))
            refuse(eks_rules.orchestrator(cluster))
        overrides = (g.get("OverrideVpcConfig", {}) for g in data.get("InstanceGroups", []))
        for vpc in [data.get("VpcConfig", {}), *overrides]:
            self._network.check(vpc.get("Subnets", []), vpc.get("SecurityGroupIds", []))
        self._mounts.check(data.get("InstanceGroups", []), data.get("VpcConfig", {}))
        self._check_roles(data)

    def _check_roles(self, data: Json) -> None:
        for group in data.get("InstanceGroups", []):
            role = group["ExecutionRole"]
            source = self._hooks.arn("sagemaker", "cluster/new")
            if not self._roles.trusts(role, service="sagemaker.amazonaws.com", source=source):
                raise ServiceError(
                    "ValidationException",
                    f"Could not assume role {role}. Please ensure that the role exists and allows principal "
                    "'sagemaker.amazonaws.com' to assume the role.",
                )

    def _describe_group(self, cluster: Json, group: Json) -> Json:
        nodes = of_group(cluster, group)
        running = [n for n in nodes if n["_status"] in ("Running", "DeepHealthCheckInProgress", "SystemUpdating")]
        renamed = ("InstanceCount", "MinInstanceCount", "KubernetesConfig", "InstanceRequirements", "ImageId",
                   "AutoPatchConfig", "ImageReleaseVersion")  # fmt: skip
        detail: Json = {"ThreadsPerCore": 1, **{k: v for k, v in group.items() if k not in renamed}}
        status = {"Creating": "Creating", "Updating": "Updating", "SystemUpdating": "SystemUpdating",
                  "Deleting": "Deleting", "Failed": "Failed"}.get(cluster["ClusterStatus"], "InService")  # fmt: skip
        if status == "InService" and any(n["_status"] == "Failure" for n in nodes):
            status = "Degraded"
        release = group.get("ImageReleaseVersion") or IMAGE_RELEASES[0]
        detail |= {
            "TargetCount": group["InstanceCount"],
            "TargetStateCount": group["InstanceCount"],
            "CurrentCount": len(running),
            "Status": status,
            "CurrentImageReleaseVersion": nodes[0]["_image"] if nodes else release,
            "DesiredImageReleaseVersion": release,
        }
        if "ImageId" in group:
            current = nodes[0]["_ami"] if nodes else group["ImageId"]
            detail |= {"DesiredImageId": group["ImageId"], **({"CurrentImageId": current} if current else {})}
        if "AutoPatchConfig" in group:
            detail["AutoPatchConfig"] = {"PatchingStrategy": group["AutoPatchConfig"]["PatchingStrategy"]}
        if "MinInstanceCount" in group:
            detail["MinCount"] = group["MinInstanceCount"]
        kubernetes = group.get("KubernetesConfig", {})
        if kubernetes:
            detail["KubernetesConfig"] = {
                f"{when}{name}": kubernetes[name]
                for when in ("Current", "Desired")
                for name in ("Labels", "Taints")
                if name in kubernetes
            }
        if "InstanceRequirements" in group:
            types = group["InstanceRequirements"]["InstanceTypes"]
            detail["InstanceRequirements"] = {"CurrentInstanceTypes": types, "DesiredInstanceTypes": types}
        detail |= cluster.get("_shown", {}).get(group["InstanceGroupName"], {})
        return detail

    def _taggable(self, arn: str) -> str:
        if arn not in self._clusters.tags and not any(c["ClusterArn"] == arn for c in self._clusters.records.values()):
            raise ServiceError("ResourceNotFound", f"{arn} not found")
        return arn
