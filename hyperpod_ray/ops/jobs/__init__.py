"""Jobs: the Kubernetes object of one, its submission, a cluster of its own, an estimate."""
