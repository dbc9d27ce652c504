"""Which GPUs pods have that do not say: a guess, the same whatever came first."""

from __future__ import annotations

from foresail.core.model import Placement, Pod
from foresail.core.policy import DeviceRule, Learning, Seeded
from foresail.core.table import NodeTable
from foresail.logs import get_logger
from foresail.policies.plain.devices import LeastSufficient


class Guesses:
    """Pods on nodes whose GPUs nobody wrote down, with the GPUs they are taken to have.

    A node's guesses are made anew, in the order of uids, whenever one of its GPU pods comes or goes: guesses make way
    for what is known, and a restarted scheduler makes the same ones. So a rule that draws or learns is not asked: the
    latter has no answer before its first lesson, which is when a whole cluster is told, and another one after each.
    """

    def __init__(self, table: NodeTable, rule: DeviceRule) -> None:
        self._table = table
        self._rule = _steady(rule)
        self._pods: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}

    def use(self, rule: DeviceRule) -> None:
        """Guess by another rule from now on."""
        self._rule = _steady(rule)
        # What was guessed before is guessed anew at once, not when its node's next GPU pod comes or goes: guesses
        # depend on the cluster and the rule alone, so that a restart, or a replica that takes over, changes none.
        for node in list(self._pods):
            self.renew(node)

    def has(self, uid: str) -> bool:
        return uid in self._node_of

    def add(self, node: str, pod: Pod) -> None:
        """Book a pod onto a node with the GPUs it is taken to have."""
        self._pods.setdefault(node, {})[str(pod.uid)] = pod
        self._node_of[str(pod.uid)] = node
        self.renew(node)

    def forget(self, node: str, pod: Pod) -> None:
        """A pod has left a node; it is forgotten in the table already."""
        uid = str(pod.uid)
        if self._node_of.pop(uid, None) is not None:
            self._pods[node].pop(uid)
            if not self._pods[node]:
                del self._pods[node]
        if pod.gpu_count:
            self.renew(node)

    def forget_nodes(self, names: list[str]) -> None:
        for name in names:
            for uid in self._pods.pop(name, ()):
                del self._node_of[uid]

    def renew(self, node: str, because_of: Pod | None = None) -> None:
        """Guess anew on a node on which something has changed, unless that was a pod without GPUs."""
        pods = self._pods.get(node)
        if pods is None or (because_of is not None and not because_of.gpu_count):
            return
        table, row = self._table, self._table.row_of[node]
        for uid in pods:
            if uid in table.placed:
                table.forget(uid)
        for _, pod in sorted(pods.items()):
            table.widen(pod.gpu_count)
            table.assume(pod, Placement(row, node, self._guess(pod, row)))

    def _guess(self, pod: Pod, row: int) -> tuple[int, ...]:
        table = self._table
        free = table.gpu_free[row].tolist()
        try:
            chosen = self._rule.devices(pod, table.all, row)
            fitting = [device for device in dict.fromkeys(chosen) if 0 <= device < len(free)][: pod.gpu_count]
        except Exception as error:  # noqa: BLE001 - a rule may be anybody's, and pods that it fails on hold room too
            get_logger().error("device_rule_failed", pod=pod.name, error=f"{type(error).__name__}: {error}")
            fitting = []
        if len(fitting) < pod.gpu_count:
            # More than fits was placed by others, so some device is in use twice: those with most left come first.
            existing = int(table.gpu_count[row])
            rest = [device for device in range(len(free)) if device not in fitting]
            rest.sort(key=lambda device: (device >= existing, -free[device], device))
            fitting += rest[: pod.gpu_count - len(fitting)]
        return tuple(sorted(fitting))


def _steady(rule: DeviceRule) -> DeviceRule:
    return LeastSufficient() if isinstance(rule, Learning | Seeded) else rule
