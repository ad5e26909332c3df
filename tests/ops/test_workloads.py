from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core import plan_names
from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.observe.snapshot import Claim, RayCluster
from hyperpod_ray.ops.orchestrators.eks.workloads import EksWorkloads
from tests.ops.ops_inventory_helpers import of, refusal, volume
from tests.ops.world import environment_text

RAY = "/apis/ray.io/v1/namespaces/ray"


def test_what_is_deleted_in_kubernetes_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    """Workers get their grace period: the RayCluster goes in the background, its pods with it."""
    target, _, api = of()
    workloads = EksWorkloads(target)
    ray = RayCluster(name="ray", namespace="ray", state="ready", desired_workers=2, ready_workers=2)
    workloads.delete([ray], ["team/first"])
    assert api.deleted == [
        ("/apis/ray.io/v1/namespaces/team/rayjobs/first", "Foreground"),
        (f"{RAY}/rayclusters/ray", "Background"),
    ]
    path = "/api/v1/namespaces/ray/persistentvolumeclaims"
    api.absent.add(f"{path}/gone")
    capsys.readouterr()
    workloads.delete_claims([Claim(name=name, namespace="ray", phase="Bound") for name in ("fsx", "gone")])
    assert [deleted for deleted, _ in api.deleted[2:]] == [f"{path}/fsx", f"{path}/gone"]
    assert capsys.readouterr().err.splitlines() == ["deleting claim ray/fsx"]


def test_pods_of_ray_that_are_left_are_named_with_their_nodes() -> None:
    target, _, api = of()
    labels = {"labels": {"ray.io/cluster": "ray"}}
    api.listings["/api/v1/namespaces/ray/pods"] = [
        {"metadata": {"name": "w1", **labels}, "spec": {"nodeName": "hyperpod-i-0123456789abcdef0"}},
        {"metadata": {"name": "w2", **labels}, "spec": {}},
    ]
    assert EksWorkloads(target).left() == ["w1 on i-0123456789abcdef0", "w2"]


def test_jobs_without_kuberay_are_none() -> None:
    """A cluster whose Ray stack is not there yet knows no RayJobs: 404."""
    target, _, api = of()
    api.listings[f"{RAY}/rayjobs"] = ApiError(status=404)
    inside = EksWorkloads(target).inside()
    assert inside is not None
    assert inside.jobs == ()
    api.listings[f"{RAY}/rayjobs"] = ApiError(status=500)
    with pytest.raises(ApiError):
        EksWorkloads(target).inside()
    target, _, _ = of(describe_cluster=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        EksWorkloads(target).inside()


def test_the_driver_deletes_volumes_while_it_is_installed_and_has_one() -> None:
    dynamic = environment_text(mode="dynamic")
    target, account, api = of(dynamic)
    ours = plan_names.storage_class(target.plan)
    path = "/api/v1/persistentvolumes"
    for volumes, deletes in (
        ([volume(ours, "fsx.csi.aws.com")], True),
        ([volume("gp3", "fsx.csi.aws.com")], False),
        ([volume(ours, "ebs.csi.aws.com")], False),
        ([{"metadata": {}, "spec": {"storageClassName": ours, "hostPath": {"path": "/x"}}}], False),
        ([], False),
    ):
        api.listings[path] = volumes
        assert EksWorkloads(target).deletes_volumes() is deletes
    assert account.arguments("describe_addon")[0] == {
        "clusterName": target.plan.eks_cluster_name,
        "addonName": "aws-fsx-csi-driver",
    }
    target, _, api = of(dynamic, describe_addon=refusal("ResourceNotFoundException"))
    api.listings[path] = [volume(ours, "fsx.csi.aws.com")]
    assert EksWorkloads(target).deletes_volumes() is False
    target, _, _ = of(dynamic, describe_addon=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        EksWorkloads(target).deletes_volumes()
