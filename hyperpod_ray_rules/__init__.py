"""What Amazon SageMaker HyperPod, EKS, FSx for Lustre and the KubeRay operator refuse: each rule once.

Plain functions over the services' own requests and Kubernetes manifests, and the data that they go by. `core` asks them
about an environment file, the sandbox about each request it gets. Nothing is imported from either.
"""

__version__ = "0.3.0"
