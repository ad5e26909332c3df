"""Namespaces, storage, network policies and access."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan
from hyperpod_ray.core.names import KUEUE_CONFIG, KUEUE_NAMESPACE, OPERATOR_NAMESPACE, RAY_API_GROUP
from hyperpod_ray.core.plan_names import ray_namespaces, user_groups
from tests.k8s.conftest import make_plan
from tests.k8s.k8s_cluster_objects_helpers import pods
from tests.support.rbac import Ask, allows

Render = Callable[[str], Any]


class TestStrictMode:
    """With the CNI's mode `strict`, a pod that no policy selects can neither send nor receive."""

    def test_every_namespace_with_pods_has_a_policy_for_all_of_them(self, variant: Any) -> None:
        policies = [
            *variant.kind("NetworkPolicy"),
            *(item for manifest in k8s.system_manifests(variant.plan) for item in manifest.objects),
        ]
        covered = {p["metadata"]["namespace"] for p in policies if p["spec"]["podSelector"] == {}}
        assert {"kube-system", "aws-hyperpod", OPERATOR_NAMESPACE} <= covered
        assert {namespace for namespace, _ in pods(variant)} <= covered

    def test_system_pods_are_as_free_as_without_it(self, variant: Any) -> None:
        for manifest in k8s.system_manifests(variant.plan):
            for policy in manifest.objects:
                assert policy["spec"]["ingress"] == policy["spec"]["egress"] == [{}]
                assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}

    def test_the_operator_reaches_dns_the_api_and_every_ray_namespace(self, variant: Any) -> None:
        (policy,) = [p for p in variant.kind("NetworkPolicy") if p["metadata"]["namespace"] == OPERATOR_NAMESPACE]
        egress = policy["spec"]["egress"]
        reached = {
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for rule in egress
            for peer in rule["to"]
            if "namespaceSelector" in peer
        }
        assert reached == {"kube-system", *ray_namespaces(variant.plan)}
        assert any(p["port"] == 443 for rule in egress for p in rule.get("ports", []))

    def test_nobody_talks_to_the_job_that_is_root(self, render: Render) -> None:
        (policy,) = [p for p in render("prod").kind("NetworkPolicy") if p["metadata"]["namespace"] == "ray-storage"]
        assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}

    def test_standard_mode_leaves_the_systems_namespaces_alone(self, render: Render) -> None:
        settings = render("prod").plan.settings
        eks = settings.eks.model_copy(update={"network_policy_mode": "standard"})
        plan = Plan(name="prod", settings=settings.model_copy(update={"eks": eks}))
        assert k8s.system_manifests(plan) == []


class TestStorage:
    def test_dynamic(self, render: Render, bindings: k8s.Bindings) -> None:
        variant = render("dynamic")
        made = variant.one("StorageClass")
        claim, owners = variant.kind("PersistentVolumeClaim")
        assert made["provisioner"] == "fsx.csi.aws.com"
        assert made["reclaimPolicy"] == "Delete"
        # https://kubernetes.io/docs/concepts/storage/storage-classes/#allow-volume-expansion
        assert made["allowVolumeExpansion"] is True
        parameters = made["parameters"]
        assert all(isinstance(value, str) for value in parameters.values())
        assert parameters["subnetId"] == bindings.node_subnet_id
        assert parameters["securityGroupIds"] == bindings.file_system_security_group_id
        assert (parameters["deploymentType"], parameters["perUnitStorageThroughput"]) == ("PERSISTENT_2", "250")
        assert parameters["fileSystemTypeVersion"] == "2.15"
        assert "copyTagsToBackups" not in parameters
        assert claim["spec"]["storageClassName"] == made["metadata"]["name"]
        assert "volumeName" not in claim["spec"]
        assert claim["spec"]["resources"]["requests"] == {"storage": "1200Gi"}
        assert claim["metadata"]["namespace"] == "ray"
        # the Job that is root has a volume of its own: a claim mounts in its own namespace only
        volume = variant.one("PersistentVolume")
        assert volume["spec"]["csi"]["volumeHandle"] == bindings.file_system_id
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["spec"]["claimRef"]["namespace"] == owners["metadata"]["namespace"] == "ray-storage"
        assert owners["spec"]["volumeName"] == volume["metadata"]["name"]

    def test_parameters_are_known_to_the_driver(self, render: Render) -> None:
        # it ignores others silently: https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/pkg/driver/controller.go
        known = {
            "subnetId", "securityGroupIds", "autoImportPolicy", "s3ImportPath", "s3ExportPath", "deploymentType",
            "kmsKeyId", "perUnitStorageThroughput", "storageType", "driveCacheType", "automaticBackupRetentionDays",
            "dailyAutomaticBackupStartTime", "copyTagsToBackups", "dataCompressionType", "weeklyMaintenanceStartTime",
            "fileSystemTypeVersion", "extraTags", "efaEnabled", "metadataConfigurationMode", "metadataIops",
        }  # fmt: skip
        for name in ("dynamic", "dynamic-with-backups"):
            assert set(render(name).one("StorageClass")["parameters"]) <= known

    def test_dynamic_retained_with_backups(self, render: Render) -> None:
        made = render("dynamic-with-backups").one("StorageClass")
        assert made["reclaimPolicy"] == "Retain"
        assert made["parameters"]["copyTagsToBackups"] == "true"
        assert made["parameters"]["automaticBackupRetentionDays"] == "7"

    def test_static_binds_one_volume_to_one_claim(self, render: Render, bindings: k8s.Bindings) -> None:
        cases = [(n, space) for n in ("prod", "local", "existing-storage") for space in ("ray", "ray-storage")]
        for name, namespace in cases:
            variant = render(name)
            assert len(variant.kind("PersistentVolume")) == len(variant.kind("PersistentVolumeClaim")) == 2
            (claim,) = [c for c in variant.kind("PersistentVolumeClaim") if c["metadata"]["namespace"] == namespace]
            (volume,) = [v for v in variant.kind("PersistentVolume") if v["spec"]["claimRef"]["namespace"] == namespace]
            assert volume["spec"]["csi"] == {
                "driver": "fsx.csi.aws.com",
                "volumeHandle": bindings.file_system_id,
                "volumeAttributes": {
                    "dnsname": bindings.file_system_dns_name,
                    "mountname": bindings.file_system_mount_name,
                },
            }
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
            reference = volume["spec"]["claimRef"]
            assert (reference["namespace"], reference["name"]) == (namespace, claim["metadata"]["name"])
            assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
            # absent, the claim would get the cluster's default class and never bind
            assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
            assert claim["spec"]["resources"]["requests"]["storage"] == volume["spec"]["capacity"]["storage"]
            assert variant.kind("StorageClass") == []

    def test_every_volume_is_mounted_by_many_nodes(self, variant: Any) -> None:
        """Pods of all nodes mount it. A volume of another mode binds no such claim.

        https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
        """
        objects = [*variant.kind("PersistentVolume"), *variant.kind("PersistentVolumeClaim")]
        assert {mode for item in objects for mode in item["spec"]["accessModes"]} == {"ReadWriteMany"}

    def test_who_is_no_root_writes_where_root_has_made_a_folder(self, render: Render) -> None:
        """The kubelet makes a `subPath` that is missing as root's own: Redis, which is not root, could not write."""
        (redis,) = [
            deployment
            for deployment in render("fault-tolerant").kind("Deployment")
            if deployment["metadata"]["name"] == "ray-redis"
        ]
        (container,) = redis["spec"]["template"]["spec"]["containers"]
        (mount,) = container["volumeMounts"]
        # https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/: `no` leaves it to the kernel
        options = dict(zip(container["command"][1::2], container["command"][2::2], strict=True))
        assert options["--appendonly"] == "yes"
        # a Service sends to a pod that is ready, and without a probe that is one whose process has begun:
        # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#when-should-you-use-a-readiness-probe
        assert container["readinessProbe"]["tcpSocket"] == {"port": container["ports"][0]["containerPort"]}
        # Redis writes into its folder alone: https://www.cisecurity.org/benchmark/kubernetes (immutable filesystems)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert options["--appendfsync"] in {"everysec", "always"}
        (owner,) = [job for job in render("fault-tolerant").kind("Job") if "volume-owner" in job["metadata"]["name"]]
        assert mount["subPath"] in owner["spec"]["template"]["spec"]["containers"][0]["args"]


class TestVolumeOwner:
    def test_folders_that_are_exported_to_s3_are_rays(
        self, plan_with: Callable[..., Plan], bindings: k8s.Bindings
    ) -> None:
        links = [
            {"bucket": "datasets", "path": "/data/images"},
            {"bucket": "models", "path": "/out/models", "auto_import": [], "auto_export": ["NEW"]},
        ]
        plan = plan_with("local", storage={"data_repositories": links})
        (manifest,) = [manifest for manifest in k8s.ray_manifests(plan, bindings) if manifest.name == "VolumeOwner"]
        (container,) = manifest.objects[0]["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["runs", "data", "code", ".system/redis", "out/models"]

    def name(self, plan: Plan, bindings: k8s.Bindings) -> str:
        (manifest,) = [manifest for manifest in k8s.ray_manifests(plan, bindings) if manifest.name == "VolumeOwner"]
        return str(manifest.objects[0]["metadata"]["name"])

    def test_may_change_owners_and_nothing_more(self, variant: Any) -> None:
        spec = variant.one("Job")["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["securityContext"]["capabilities"] == {
            "drop": ["ALL"],
            "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"],
        }
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert "hostPath" not in str(spec)
        script = container["command"][2]
        assert "-o 1000 -g 100" in script
        # never a recursive chown: it would walk every checkpoint at every change
        assert "-R" not in script
        assert "chown" not in script
        assert "runs" in container["args"]

    def test_name_follows_the_content(self, plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
        plan = plan_with("dev")
        name = self.name(plan, bindings)
        assert name == self.name(plan_with("dev", tags={"more": "tags"}), bindings)
        assert name != self.name(plan, dataclasses.replace(bindings, image_content="other"))
        assert name != self.name(plan_with("dev", image={"repository_name": "other"}), bindings)
        assert len(name) <= 63

    def test_the_root_stays_roots(self, plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
        """Who owns a folder removes what is in it: of exported links, the one of the whole file system is none."""
        links = [
            {"bucket": "whole", "path": "/", "auto_export": ["NEW"]},
            {"bucket": "out", "path": "/out/a", "auto_export": ["NEW"]},
            {"bucket": "input", "path": "/in"},
        ]
        plan = plan_with("dev", storage={"data_repositories": links})
        (job,) = [manifest for manifest in k8s.ray_manifests(plan, bindings) if manifest.name == "VolumeOwner"]
        (container,) = job.objects[0]["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["runs", "data", "code", ".system/redis", "out/a"]

    def test_name_does_not_follow_the_numbers_of_tokens(
        self, plan_with: Callable[..., Plan], bindings: k8s.Bindings
    ) -> None:
        plan = plan_with("dev")
        names = {
            self.name(plan, dataclasses.replace(bindings, image_uri=f"${{Token[TOKEN.{number}]}}"))
            for number in (1, 27)
        }
        assert len(names) == 1


class TestAccess:
    def test_users_are_bound_in_their_own_namespaces_only(self, render: Render) -> None:
        bindings = {
            item["metadata"]["namespace"]: [subject["name"] for subject in item["subjects"]]
            for item in render("several-groups").kind("RoleBinding")
            if item["subjects"][0]["kind"] == "Group"
        }
        assert bindings == {"ray": ["ray-users:ray"], "team-a": ["ray-users:team-a"], "team-b": ["ray-users:team-b"]}
        groups = user_groups(render("several-groups").plan)
        assert sorted(groups.values()) == [["ray-users:ray", "ray-users:team-b"], ["ray-users:team-a"]]

    def test_no_wildcards_and_no_way_to_secrets(self, variant: Any) -> None:
        for item in variant.kind("Role"):
            for rule in item["rules"]:
                assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
                assert "pods/exec" not in rule["resources"]
                if "secrets" in rule["resources"]:
                    names = [variant.plan.settings.ray.cluster_name]
                    assert (rule["verbs"], rule["resourceNames"]) == (["get"], names), "the token's, and no other"

    def test_members_of_a_team_read_what_submit_asks_and_no_more(self) -> None:
        """`submit` reads the RayCluster as a template, and how long Kueue waits for a lost pod."""
        plan = make_plan("examples/teams")
        objects = k8s.access.access(plan).objects
        (group,) = ["ray-users:hyperpod-ns-vision"]
        configuration = {"resource": "configmaps", "namespace": KUEUE_NAMESPACE, "name": KUEUE_CONFIG}
        template = {
            "resource": "rayclusters", "api_group": RAY_API_GROUP, "namespace": plan.settings.ray.namespace,
            "name": plan.settings.ray.cluster_name,
        }  # fmt: skip
        for asked in (configuration, template):
            assert allows(objects, group, Ask(verb="get", **asked))
            assert not allows(objects, group, Ask(verb="update", **asked))
            assert not allows(objects, group, Ask(verb="get", **{**asked, "name": "another"}))
            assert not allows(objects, "ray-users:nobody", Ask(verb="get", **asked))

    def test_users_may_forward_ports_over_websocket_and_spdy(self, render: Render) -> None:
        roles = [role for role in render("several-groups").kind("Role") if role["metadata"]["name"] == "ray-user"]
        assert len(roles) == 3
        for role in roles:
            verbs = [set(rule["verbs"]) for rule in role["rules"] if "pods/portforward" in rule["resources"]]
            assert verbs == [{"get", "create"}]

    def test_without_users_no_roles(self, render: Render) -> None:
        found = [*render("local").kind("Role"), *render("local").kind("RoleBinding")]
        assert [item for item in found if item["metadata"]["name"] == "ray-user"] == []

    def test_service_account_mounts_no_token(self, variant: Any) -> None:
        for item in variant.kind("ServiceAccount"):
            assert item["automountServiceAccountToken"] is False
