"""Builders and checks for tests of plug-ins, for users too. Knows core alone."""

from foresail.testing.builders import make_nodes, make_pod, make_table, make_view, make_workload
from foresail.testing.controllers import check_controller
from foresail.testing.policies import check_policy

__all__ = ["check_controller", "check_policy", "make_nodes", "make_pod", "make_table", "make_view", "make_workload"]
