"""A real Kubernetes on one Linux machine: no Docker, no virtual machine. Knows kube; nothing of scheduling."""

from foresail.lab.lab import Lab, LabStatus
from foresail.lab.settings import LabSettings

__all__ = ["Lab", "LabSettings", "LabStatus"]
