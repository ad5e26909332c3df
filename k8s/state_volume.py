"""The StorageClass of the volumes that keep a Ray head's state. The KubeRay operator makes the claims."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from hyperpod_ray.core.names import EBS_CSI_DRIVER, ENVIRONMENT_TAG
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import store_class
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build


def state_volume(plan: Plan) -> Manifest:
    """A StorageClass of encrypted gp3 volumes that carry the environment's tag and go with their claim.

    https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md
    """
    tags = {ENVIRONMENT_TAG: plan.name, **plan.settings.tags}
    parameters = {
        "type": "gp3",
        "encrypted": "true",
        **{f"tagSpecification_{number}": f"{key}={value}" for number, (key, value) in enumerate(tags.items(), start=1)},
    }
    if plan.head_volume_key_arn is not None:
        parameters["kmsKeyId"] = plan.head_volume_key_arn

    def define(chart: cdk8s.Chart) -> None:
        k8s.KubeStorageClass(
            chart,
            "StorageClass",
            metadata=k8s.ObjectMeta(name=store_class(plan), labels=PART_OF),
            provisioner=EBS_CSI_DRIVER,
            parameters=parameters,
            reclaim_policy="Delete",
            # in the zone of the head's node
            volume_binding_mode="WaitForFirstConsumer",
        )

    return build("HeadStorageClass", define)
