"""The node guard: frees the pods of a node that is silent and that HyperPod calls gone or failed.

It runs in the cluster, from a ConfigMap that holds these files, with whatever Python the training image has. So it
needs the standard library alone, and of this project the services' names (`hyperpod_ray_rules.names`).
"""

NAME = "node-guard"
"""The guard's own name: its Deployment's, and the component of its events."""
MARK = "hyperpod-ray/freed-at"
"""Annotation of a node that the guard put the taint on: when it did."""
