"""CDK stacks of one environment: wiring only. What they wire is in `constructs/hyperpod_ray` and `k8s`."""
