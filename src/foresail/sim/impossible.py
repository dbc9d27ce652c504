"""Which pods no node could take even if all of them were empty and up."""

from __future__ import annotations

from foresail.core.asking import reasons_if_all_refuse
from foresail.core.objects import ClusterObjects
from foresail.core.profile import Profile
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable


class Impossible:
    """Asks the filters about empty nodes, once a spec.

    Filters that look at more than one node are left out: what they refuse now they may pass once other pods run.
    """

    def __init__(self, nodes: list[NodeSpec], objects: ClusterObjects, profile: Profile) -> None:
        self._table = NodeTable(nodes)
        self._table.objects = objects
        self._profile = profile
        self._known: dict[PodSpec, str] = {}

    def why(self, spec: PodSpec) -> str:
        """The reason of most nodes, empty if there is a node that would do."""
        known = self._known.get(spec)
        if known is None:
            known = self._known[spec] = self._work_out(spec)
        return known

    def _work_out(self, spec: PodSpec) -> str:
        table, profile = self._table, self._profile
        pod = table.pod("", spec)
        if not table.count:
            return "there are no nodes"
        reasons = reasons_if_all_refuse(pod, table, profile)
        return f"no node fits, even if empty: most {next(iter(reasons))}" if reasons else ""
