"""A real Kubernetes on one Linux machine, for demonstrations and tests: no Docker, no virtual machine."""

from foresail.lab.lab import Lab, LabStatus
from foresail.lab.settings import LabSettings

__all__ = ["Lab", "LabSettings", "LabStatus"]
