"""One list of requests with the answers of a real Kubernetes API server, and what sends them to any API server.

`recorded.yaml` was recorded. The other lists state what Kubernetes' own validation tests state; each names its source.
"""
