"""What the KubeRay operator refuses after the Kubernetes API server accepted it, as one table of rules.

The operator checks a RayCluster, RayJob or RayCronJob when it first reconciles it, and then reports the first problem
as an event or in the object's status. The rules here give the same verdict on a plain manifest, before a deploy: for
`hyperpod-ray env check`, the manifest renderer, `k8s ray-job` and the sandbox's operator. Source: KubeRay 1.7.0,
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go
"""

from hyperpod_ray_rules.kuberay.judge import judge
from hyperpod_ray_rules.kuberay.table import DEFAULT_GATES, EMBEDDED_STORE_GATE, RULES, Rule, Verdict

__all__ = ["DEFAULT_GATES", "EMBEDDED_STORE_GATE", "RULES", "Rule", "Verdict", "judge"]
