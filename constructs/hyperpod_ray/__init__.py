"""AWS constructs of Ray on SageMaker HyperPod: each takes constructs or L2 interfaces and exposes its main resource."""
