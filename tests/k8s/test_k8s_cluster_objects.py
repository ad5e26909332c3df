"""Namespaces, storage, network policies and access."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, names
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.names import GUARD, KUEUE_CONFIG, KUEUE_NAMESPACE, OPERATOR_NAMESPACE, RAY_API_GROUP
from hyperpod_ray.core.plan import DAEMON_SET_CPU_MILLIS, DAEMON_SET_MEMORY_MIB
from hyperpod_ray.core.plan_names import ray_namespaces, user_groups
from tests.k8s.conftest import make_plan
from tests.support.rbac import Ask, allows

Render = Callable[[str], Any]
BINDINGS = k8s.Bindings(image_uri="registry.example.com/ray:1")


def policies(variant: Any, namespace: str = "ray") -> dict[str, dict[str, Any]]:
    return {
        item["metadata"]["name"]: item["spec"]
        for item in variant.kind("NetworkPolicy")
        if item["metadata"]["namespace"] == namespace
    }


def peers(policy: dict[str, Any], direction: str) -> Iterator[dict[str, Any]]:
    for rule in policy.get({"from": "ingress", "to": "egress"}[direction], []):
        yield from rule[direction]


def pods(variant: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Namespace and spec of every pod that a manifest of this project leads to."""
    for item in variant.objects:
        namespace, spec = item["metadata"].get("namespace", ""), item.get("spec", {})
        if item["kind"] in ("Job", "Deployment", "DaemonSet"):
            yield namespace, spec["template"]["spec"]
        elif item["kind"] == "RayCluster":
            for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
                yield namespace, group["template"]["spec"]


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


class TestNamespaces:
    def test_pod_security(self, variant: Any) -> None:
        levels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in variant.kind("Namespace")}
        enforce = "pod-security.kubernetes.io/enforce"
        assert levels[OPERATOR_NAMESPACE][enforce] == "restricted"
        assert levels["ray-storage"][enforce] == "baseline"
        for name in ray_namespaces(variant.plan):
            assert levels[name][enforce] == "restricted"
        for name in levels:
            assert levels[name]["pod-security.kubernetes.io/warn"] == "restricted"
        # exporters of metrics read the host; Kueue's chart names no seccomp profile; a Job hands folders over as root
        less = {
            names.OBSERVABILITY_NAMESPACE: "privileged",
            names.KUEUE_NAMESPACE: "baseline",
            "ray-storage": "baseline",
        }
        assert {name: levels[name][enforce] for name in levels} == {
            name: less.get(name, "restricted") for name in levels
        }

    def test_no_pod_is_root_in_a_restricted_namespace(self, variant: Any) -> None:
        """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
        enforce = "pod-security.kubernetes.io/enforce"
        restricted = {
            n["metadata"]["name"] for n in variant.kind("Namespace") if n["metadata"]["labels"][enforce] == "restricted"
        }
        roots = []
        for namespace, pod in pods(variant):
            context = pod["securityContext"]
            for box in [*pod.get("initContainers", []), *pod["containers"]]:
                own = box["securityContext"]
                uid = own.get("runAsUser", context.get("runAsUser"))
                if uid == 0:
                    roots.append(namespace)
                if namespace in restricted:
                    assert context["runAsNonRoot"] is True
                    assert uid != 0
                    assert own["allowPrivilegeEscalation"] is False
                    assert own["capabilities"] == {"drop": ["ALL"]}
                    assert context["seccompProfile"]["type"] == "RuntimeDefault"
        assert roots == ["ray-storage"], "the volume-owner Job"
        assert not restricted & set(roots)

    def test_namespaces_of_users_are_made_too(self, render: Render) -> None:
        names = {item["metadata"]["name"] for item in render("several-groups").kind("Namespace")}
        assert names == {OPERATOR_NAMESPACE, GUARD, "ray", "ray-storage", "team-a", "team-b"}


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
        (manifest,) = [item for item in k8s.ray_manifests(plan, bindings) if item.name == "VolumeOwner"]
        (container,) = manifest.objects[0]["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["runs", "data", "code", ".system/redis", "out/models"]

    def name(self, plan: Plan, bindings: k8s.Bindings) -> str:
        (manifest,) = [item for item in k8s.ray_manifests(plan, bindings) if item.name == "VolumeOwner"]
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

    def test_name_does_not_follow_the_numbers_of_tokens(
        self, plan_with: Callable[..., Plan], bindings: k8s.Bindings
    ) -> None:
        plan = plan_with("dev")
        names = {
            self.name(plan, dataclasses.replace(bindings, image_uri=f"${{Token[TOKEN.{number}]}}"))
            for number in (1, 27)
        }
        assert len(names) == 1


def ray_policies(plan: Plan) -> list[dict[str, Any]]:
    """The NetworkPolicies of the Ray namespaces."""
    (found,) = (manifest for manifest in k8s.namespace_manifests(plan) if manifest.name == "NetworkPolicies")
    return found.objects


class TestNetworkPolicies:
    def test_everything_is_denied_first(self, variant: Any) -> None:
        for namespace in ray_namespaces(variant.plan):
            assert policies(variant, namespace)["default-deny"] == {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
            }

    def test_only_the_operator_and_observability_come_in_from_other_namespaces(self, variant: Any) -> None:
        allowed = {OPERATOR_NAMESPACE}
        if variant.plan.settings.ray.observability:
            allowed |= {"hyperpod-observability", "monitoring"}
        for name, policy in policies(variant).items():
            for peer in peers(policy, "from"):
                assert "ipBlock" not in peer, name
                namespace = peer.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
                if "namespaceSelector" in peer:
                    assert namespace in allowed, name
                else:
                    assert peer["podSelector"]["matchLabels"], name

    def test_ingress_from_elsewhere_is_limited_to_ports(self, variant: Any) -> None:
        for name, policy in policies(variant).items():
            for rule in policy.get("ingress", []):
                inside = all(
                    peer.get("podSelector", {}).get("matchLabels") == {"ray.io/is-ray-node": "yes"}
                    for peer in rule["from"]
                )
                assert inside or rule.get("ports"), name

    def test_the_operator_reaches_the_dashboard(self, render: Render) -> None:
        rules = policies(render("prod"))["ray-head"]["ingress"]
        (ports,) = [rule["ports"] for rule in rules if "namespaceSelector" in rule["from"][0]]
        assert {port["port"] for port in ports} == {8265, 8080}

    def test_egress_is_named(self, render: Render) -> None:
        rules = policies(render("local"))["ray-pods"]["egress"]
        blocks = {
            (peer["ipBlock"]["cidr"], port["port"])
            for rule in rules
            for peer in rule["to"]
            if "ipBlock" in peer
            for port in rule["ports"]
        }
        assert blocks == {("0.0.0.0/0", 443), ("169.254.170.23/32", 80)}
        (dns,) = [rule for rule in rules for peer in rule["to"] if "namespaceSelector" in peer]
        assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}

    def test_redis_is_for_ray_pods_only(self, render: Render) -> None:
        policy = policies(render("fault-tolerant"))["redis"]
        assert policy["policyTypes"] == ["Ingress"]
        assert list(peers(policy, "from")) == [{"podSelector": {"matchLabels": {"ray.io/is-ray-node": "yes"}}}]
        (redis,) = [
            one for one in render("fault-tolerant").kind("Deployment") if one["metadata"]["name"] == "ray-redis"
        ]
        deployed = redis["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= deployed.items()
        outside = policies(render("fault-tolerant-outside"))
        assert "redis" not in outside
        assert [rule["ports"] for rule in outside["redis-clients"]["egress"]] == [[{"port": 6380, "protocol": "TCP"}]]

    def test_observability(self, render: Render) -> None:
        for name in ("local", "prod"):
            assert not {"metrics", "dashboard-charts"} & policies(render(name)).keys()
        observed = policies(render("observed"))
        assert [rule["ports"] for rule in observed["metrics"]["ingress"]] == [[{"port": 8080, "protocol": "TCP"}]]
        scrapers = {
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for peer in peers(observed["metrics"], "from")
        }
        assert scrapers == {"hyperpod-observability", "monitoring"}
        # a host outside the cluster is reached by its port, not by a namespace
        outside = observed["dashboard-charts"]["egress"]
        assert {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443, "protocol": "TCP"}]} in outside

    def test_ray_pods_reach_the_checkpoint_memory(self, plan_with: Callable[..., Plan]) -> None:
        plan = plan_with("prod", hyperpod={"tiered_storage": {"memory_percent": 20}})
        found = {item["metadata"]["name"]: item["spec"] for item in ray_policies(plan)}
        assert found["checkpoint-memory"] == {
            "podSelector": {"matchLabels": {"ray.io/is-ray-node": "yes"}},
            "policyTypes": ["Egress"],
            "egress": [
                {
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "aws-hyperpod"}}}],
                    "ports": [{"port": 9200, "protocol": "TCP"}],
                }
            ],
        }
        off = ray_policies(plan_with("prod"))
        assert "checkpoint-memory" not in {item["metadata"]["name"] for item in off}

    def test_a_collector_may_scrape_and_the_head_asks_nobody(self, plan_with: Callable[..., Plan]) -> None:
        plan = plan_with("prod", ray={"observability": {"scrape_namespaces": ["hyperpod-observability"]}})
        names = {item["metadata"]["name"] for item in ray_policies(plan)}
        assert "metrics" in names
        assert "dashboard-charts" not in names


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


def test_karpenter_scales_groups_of_count_zero(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    groups = [
        {"name": "head", "type": "ml.m5.2xlarge", "count": 3},
        {"name": "Burst", "type": "ml.p5.48xlarge", "count": 0, "labels": {"team": "research"},
         "taints": [{"key": "dedicated", "value": "ray", "effect": "NoSchedule"}]},
    ]  # fmt: skip
    workers = [{"name": "gpu", "instance_group": "Burst", "replicas": 1, "max_replicas": 4}]
    hyperpod = {"instance_groups": groups, "managed_autoscaling": True}
    plan = plan_with("prod", hyperpod=hyperpod, ray={"workers": workers, "autoscaling": True})
    objects = {item["kind"]: item for manifest in k8s.platform_manifests(plan, bindings) for item in manifest.objects}
    node_class, pool = objects["HyperpodNodeClass"], objects["NodePool"]
    assert node_class["apiVersion"] == "karpenter.sagemaker.amazonaws.com/v1"
    assert node_class["spec"] == {"instanceGroups": ["Burst"]}
    assert pool["apiVersion"] == "karpenter.sh/v1"
    template = pool["spec"]["template"]
    assert template["spec"]["nodeClassRef"] == {
        "group": "karpenter.sagemaker.amazonaws.com",
        "kind": "HyperpodNodeClass",
        "name": node_class["metadata"]["name"],
    }
    assert template["spec"]["expireAfter"] == "Never"
    # WhenEmpty needs the time after which an empty node goes
    assert pool["spec"]["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "32"}, "4 nodes of 8, as max_replicas says"
    # what Ray's pods select and tolerate is what Karpenter promises
    cluster = k8s.ray_manifests(plan, bindings)[-1].objects[0]["spec"]
    pod = cluster["workerGroupSpecs"][0]["template"]["spec"]
    assert pod["nodeSelector"].items() <= template["metadata"]["labels"].items()
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for wanted in term["matchExpressions"]:
        assert template["metadata"]["labels"][wanted["key"]] in wanted["values"]
    (taint,) = template["spec"]["taints"]
    assert {"operator": "Equal", **taint} in pod["tolerations"]
    off = plan_with("prod", hyperpod={"managed_autoscaling": False})
    kinds = {item["kind"] for manifest in k8s.platform_manifests(off, bindings) for item in manifest.objects}
    assert not {"HyperpodNodeClass", "NodePool"} & kinds


class TestImagePull:
    """The training image on nodes that are still checked."""

    def plan(self, *, checks: bool) -> Plan:
        raw = yaml.safe_load((FOLDER / "prod.yaml").read_text(encoding="utf-8"))
        if not checks:
            raw["hyperpod"]["instance_groups"][1]["deep_health_checks"] = []
        return Plan(name="prod", settings=Environment.model_validate(raw))

    def daemon_set(self) -> dict[str, Any]:
        made = k8s.ray_manifests(self.plan(checks=True), BINDINGS)
        (manifest,) = [item for item in made if item.name == "ImagePull"]
        (found,) = manifest.objects
        return dict(found)

    def test_it_goes_where_nodes_are_checked_and_nowhere_else(self) -> None:
        spec = self.daemon_set()["spec"]["template"]["spec"]
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        label = "sagemaker.amazonaws.com/instance-group-name"
        assert term["matchExpressions"] == [{"key": label, "operator": "In", "values": ["workers"]}]
        # a node under deep health checks has this taint, as the device plugins' own tolerations say
        taint = {"key": "sagemaker.amazonaws.com/node-health-status", "operator": "Equal", "value": "Unschedulable"}
        assert {**taint, "effect": "NoSchedule"} in spec["tolerations"]

    def test_without_checks_there_is_none(self) -> None:
        made = k8s.ray_manifests(self.plan(checks=False), BINDINGS)
        assert "ImagePull" not in [item.name for item in made]

    def test_it_is_the_image_that_workers_run_and_asks_for_what_is_set_aside(self) -> None:
        (container,) = self.daemon_set()["spec"]["template"]["spec"]["containers"]
        assert container["image"] == BINDINGS.image_uri
        asked = container["resources"]["requests"]
        assert int(asked["cpu"].removesuffix("m")) <= DAEMON_SET_CPU_MILLIS / 10
        assert int(asked["memory"].removesuffix("Mi")) <= DAEMON_SET_MEMORY_MIB / 10

    def test_teardown_does_not_wait_for_it(self) -> None:
        """Teardown waits for pods with Ray's label; a DaemonSet's never end."""
        assert not [key for key in self.daemon_set()["spec"]["template"]["metadata"]["labels"] if "ray.io/" in key]

    def test_a_node_has_an_address_less_for_it(self) -> None:
        checked, unchecked = self.plan(checks=True), self.plan(checks=False)
        room = checked.allocatable(checked.group("workers"))
        assert room.pods == unchecked.allocatable(unchecked.group("workers")).pods - 1
