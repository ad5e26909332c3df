"""HyperPod's clusters, nodes and events, as parts of the SageMaker API."""
