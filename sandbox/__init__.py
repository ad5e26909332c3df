"""One-machine rehearsal: the embedded AWS, a Kubernetes API that records, and a Ray cluster on loopback."""
