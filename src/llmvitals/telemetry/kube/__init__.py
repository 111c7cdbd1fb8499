"""Kubernetes as one node sees it: pods from the API server, devices from the kubelet."""
