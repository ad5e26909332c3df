"""A Ray cluster on loopback made from the RayCluster manifest that Kubernetes would get.

One process namespace per pod, so that a pod can be killed, frozen or drained as a machine would be. See
`docs/what-happens-when-a-node-dies.md`.
"""
