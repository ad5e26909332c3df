"""The model makes of a RayCluster what KubeRay 1.7.0 was seen to make."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.controllers import raypods

Json = dict[str, Any]
HOST = "ray-head-svc.team.svc.cluster.local"
LIMITS = {"cpu": "4", "memory": "16Gi"}


def container(**more: Any) -> Json:
    resources = {"limits": dict(LIMITS), "requests": dict(LIMITS)}
    return {"name": "ray", "image": "ray:2.60.0", "resources": resources, **more}


def cluster(head: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"containers": [head or container()]}}
    return {
        "metadata": {"name": "ray", "namespace": "team", "uid": "u-1"},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": template}, **spec},
    }


def built(owner: Json, node_type: str, main: Json | None = None, params: Json | None = None) -> Json:
    pod: Json = {"metadata": {}, "spec": {"containers": [main or container()]}}
    raypods.build(owner, pod, node_type=node_type, start_params=params or {})
    return pod


def env(holder: Json) -> Json:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in holder["env"]}


def test_a_head() -> None:
    pod = built(cluster(), "head", params={"num-cpus": "0"})
    main = pod["spec"]["containers"][0]
    start = (
        "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0 "
        " --memory=17179869184  --metrics-export-port=8080  --num-cpus=0 "
    )
    assert main["command"] == ["/bin/bash", "-c", "--"]
    assert main["args"] == [f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start}"]
    found = env(main)
    assert found["KUBERAY_GEN_RAY_START_CMD"] == start
    assert found["RAY_ADDRESS"] == "127.0.0.1:6379"
    assert found["RAY_CLOUD_INSTANCE_ID"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    assert "FQ_RAY_IP" not in found
    assert "RAY_AUTH_TOKEN" not in found
    assert "initContainers" not in pod["spec"]
    assert {"name": "metrics", "containerPort": 8080} in main["ports"]
    assert main["livenessProbe"]["httpGet"] == {"path": "/api/healthz", "port": 52365, "scheme": "HTTP"}
    assert [main["livenessProbe"][f] for f in ("failureThreshold", "periodSeconds", "timeoutSeconds")] == [120, 5, 5]
    assert main["readinessProbe"]["failureThreshold"] == 10
    assert pod["spec"]["volumes"] == [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}]
    assert pod["metadata"]["annotations"] == {"ray.io/ft-enabled": "false"}


def test_a_worker_waits_with_the_environment_of_its_ray() -> None:
    security = {"runAsNonRoot": True}
    mount = {"name": "data", "mountPath": "/data"}
    gpus = {"limits": {**LIMITS, "nvidia.com/gpu": 8}}
    main = container(env=[{"name": "A", "value": "b"}], securityContext=security, volumeMounts=[mount], resources=gpus)
    pod = built(cluster(authOptions={"mode": "token"}), "worker", main)
    (waiter,) = pod["spec"]["initContainers"]
    assert (waiter["name"], waiter["securityContext"], waiter["volumeMounts"]) == ("wait-gcs-ready", security, [mount])
    assert list(env(waiter)) == ["A", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "FQ_RAY_IP", "RAY_IP"]
    assert f"ray health-check --address {HOST}:6379" in waiter["args"][0]
    found = env(main)
    assert (found["FQ_RAY_IP"], found["RAY_IP"], found["RAY_ADDRESS"]) == (HOST, "ray-head-svc", f"{HOST}:6379")
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": "ray", "key": "auth_token"}}
    assert "--num-gpus=8 " in main["args"][0]
    assert f"--address={HOST}:6379 " in main["args"][0]
    assert main["readinessProbe"]["timeoutSeconds"] == 2


def test_what_the_user_set_stays() -> None:
    probe = {"exec": {"command": ["true"]}}
    main = container(
        env=[{"name": "RAY_ADDRESS", "value": "mine:1"}], livenessProbe=probe, args=["ray start --head --mine"]
    )
    main["ports"] = [{"name": "metrics", "containerPort": 9090}]
    pod = built(cluster(), "head", main)
    assert main["args"] == ["ray start --head --mine"]
    assert env(main)["RAY_ADDRESS"] == "mine:1"
    assert main["livenessProbe"] == probe
    assert main["ports"] == [{"name": "metrics", "containerPort": 9090}]
    first = container(command=["prepare"])
    built(cluster(), "head", first)
    assert first["args"][0].startswith("prepare && ulimit -n ")
    plain = built(cluster(), "head", params={"plasma-directory": "/x"})
    assert "volumes" not in plain["spec"]
    assert pod["spec"]["volumes"]


def test_fault_tolerance() -> None:
    password = {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "p"}}}
    options = {"redisAddress": "redis:6379", "externalStorageNamespace": "team-ray", "redisPassword": password}
    owner = cluster(gcsFaultToleranceOptions=options)
    head = built(owner, "head")
    found = env(head["spec"]["containers"][0])
    assert (found["RAY_REDIS_ADDRESS"], found["RAY_external_storage_namespace"]) == ("redis:6379", "team-ray")
    assert found["REDIS_PASSWORD"] == password["valueFrom"]
    assert "--redis-password=$REDIS_PASSWORD " in head["spec"]["containers"][0]["args"][0]
    annotations = {"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "team-ray"}
    assert head["metadata"]["annotations"] == annotations
    del options["externalStorageNamespace"]
    assert built(owner, "head")["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "u-1"
    worker = built(owner, "worker")["spec"]["containers"][0]
    assert env(worker)["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"


def test_an_embedded_store() -> None:
    """ray-operator/controllers/ray/common/pod.go, configureEmbeddedFT."""
    owner = cluster(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"size": "8Gi"}})
    head = built(owner, "head")
    main = head["spec"]["containers"][0]
    assert env(main)["RAY_gcs_storage"] == "rocksdb"
    assert env(main)["RAY_gcs_storage_path"] == "/data/gcs"
    assert not {"RAY_REDIS_ADDRESS", "RAY_external_storage_namespace"} & set(env(main))
    assert {"name": "gcs-storage", "mountPath": "/data/gcs"} in main["volumeMounts"]
    assert {"name": "gcs-storage", "persistentVolumeClaim": {"claimName": "ray-gcs-pvc"}} in head["spec"]["volumes"]
    assert head["metadata"]["annotations"] == {"ray.io/ft-enabled": "true"}
    worker = built(owner, "worker")
    assert env(worker["spec"]["containers"][0])["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"
    assert all("persistentVolumeClaim" not in volume for volume in worker["spec"]["volumes"])
    owner["spec"]["gcsFaultToleranceOptions"]["storage"] = {"claimName": "mine", "subPath": "a"}
    head = built(owner, "head")
    assert head["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "mine"}
    assert head["spec"]["containers"][0]["volumeMounts"][0]["subPath"] == "a"


def test_the_heads_service_has_the_ports_that_the_head_names() -> None:
    named = container(ports=[{"name": "gcs-server", "containerPort": 6379}, {"containerPort": 8265}])
    spec = raypods.head_service(cluster(named), {"a": "b"})
    assert [(p["name"], p["port"]) for p in spec["ports"]] == [
        ("8265-port", 8265), ("gcs-server", 6379), ("metrics", 8080),
    ]  # fmt: skip
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert "serve" in raypods.ports(cluster())
    outside = cluster()
    outside["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    assert "clusterIP" not in raypods.head_service(outside, {})
