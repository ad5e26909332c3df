"""An AWS and a Kubernetes API on 127.0.0.1: a distribution of its own, see README.md."""

__version__ = "0.3.0"
