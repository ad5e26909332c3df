"""Connections: AWS and Kubernetes clients, tunnels, port forwards, Ray's Jobs API."""
