"""A small Kubernetes API server that records and validates: for rehearsal and tests, never to be taken for Kubernetes.

It speaks enough of the Kubernetes REST API for the real `kubectl`, the real `helm` and the `kubernetes` Python client
to create, apply, list, watch, patch and delete objects; it refuses objects that the published schemas refuse; and it
models a few controllers (nodes, volumes, workloads, KubeRay) with documented rules. No container ever runs.

Start it with `python -m hyperpod_ray_sandbox.kubernetes.server --state DIR`. It runs in the emulator's virtual
environment (Hypercorn, cryptography, jsonschema, kubernetes-validate, PyYAML; botocore when `--aws-endpoint` is given).
"""
