"""Which GPUs of its node every pod there has: those it says, where that can be true, and else a guess."""

from __future__ import annotations

from typing import NamedTuple

from foresail.core.model import Placement, Pod
from foresail.core.policy import DeviceRule, Learning, Seeded
from foresail.core.table import NodeTable
from foresail.logs import get_logger
from foresail.policies.plain.devices import LeastSufficient

Claim = tuple[int, ...] | None
"""GPUs that a pod says it has, None where it does not say."""


class _GpuPod(NamedTuple):
    pod: Pod
    claim: Claim
    created_s: float


class Devices:
    """GPU pods that somebody else has bound, or that stood on their nodes before this process came.

    What a pod says is not always so: anybody who may edit it can name any device. So a claim counts if the node has
    these devices and they have room for it beside earlier claims, oldest pod first; else the pod's devices are guessed,
    as those of a pod that says nothing. However many pods name one device, each holds as many as it has.

    A node's guesses are made anew, in the order of uids, whenever one of its GPU pods comes or goes: guesses make way
    for what is known, and a restarted scheduler makes the same ones. So a rule that draws or learns is not asked: the
    latter has no answer before its first lesson, which is when a whole cluster is told, and another one after each.
    """

    def __init__(self, table: NodeTable, rule: DeviceRule) -> None:
        self._table = table
        self._rule = _steady(rule)
        self._pods: dict[str, dict[str, _GpuPod]] = {}
        self._node_of: dict[str, str] = {}
        self._guessed: dict[str, set[str]] = {}

    def use(self, rule: DeviceRule) -> None:
        """Guess by another rule from now on."""
        self._rule = _steady(rule)
        # What was guessed before is guessed anew at once, not when its node's next GPU pod comes or goes: guesses
        # depend on the cluster and the rule alone, so that a restart, or a replica that takes over, changes none.
        for node in list(self._guessed):
            self._settle(node)

    def has(self, uid: str) -> bool:
        return uid in self._node_of

    def is_guess(self, uid: str) -> bool:
        """Whether a pod's devices are guessed, be it that it does not say or that it cannot be believed."""
        return uid in self._guessed.get(self._node_of.get(uid, ""), ())

    def claim(self, uid: str) -> Claim:
        """What a pod here says."""
        return self._pods[self._node_of[uid]][uid].claim

    def add(self, node: str, pod: Pod, claim: Claim, created_s: float) -> None:
        """Book a pod onto a node with the GPUs it has, or is taken to have."""
        uid = str(pod.uid)
        self._pods.setdefault(node, {})[uid] = _GpuPod(pod, claim, created_s)
        self._node_of[uid] = node
        row = self._table.row_of[node]
        if claim is not None and node not in self._guessed and self._has_room(row, pod, claim):
            self._table.assume(pod, Placement(row, node, claim))
        else:
            self._settle(node)

    def forget(self, node: str, pod: Pod) -> None:
        """A pod has left a node; it is forgotten in the table already."""
        uid = str(pod.uid)
        if self._node_of.pop(uid, None) is not None:
            self._pods[node].pop(uid)
            if not self._pods[node]:
                del self._pods[node]
            self._note_guesses(node, self._guessed.get(node, set()) - {uid})
        if pod.gpu_count:
            self.renew(node)

    def forget_nodes(self, names: list[str]) -> None:
        for name in names:
            self._guessed.pop(name, None)
            for uid in self._pods.pop(name, ()):
                del self._node_of[uid]

    def renew(self, node: str) -> None:
        """Guess anew on a node on which GPUs were given or given back."""
        if node in self._guessed:
            self._settle(node)

    def node_changed(self, node: str) -> None:
        """The node may have another number of GPUs: some claims may be true now, and others no more."""
        if node in self._pods:
            self._settle(node)

    def _settle(self, node: str) -> None:
        table, row = self._table, self._table.row_of[node]
        pods = self._pods[node]
        for uid in pods:
            if uid in table.placed:
                table.forget(uid)
        guessed: dict[str, Pod] = {}
        for uid, (pod, claim, _) in sorted(pods.items(), key=_oldest_first):
            if claim is not None and self._has_room(row, pod, claim):
                table.assume(pod, Placement(row, node, claim))
            else:
                guessed[uid] = pod
        for _, pod in sorted(guessed.items()):
            table.widen(pod.gpu_count)
            table.assume(pod, Placement(row, node, self._guess(pod, row)))
        self._note_guesses(node, set(guessed))

    def _note_guesses(self, node: str, uids: set[str]) -> None:
        if uids:
            self._guessed[node] = uids
        else:
            self._guessed.pop(node, None)

    def _has_room(self, row: int, pod: Pod, claim: tuple[int, ...]) -> bool:
        table = self._table
        if claim[-1] >= int(table.gpu_count[row]):
            return False
        return bool((table.gpu_free[row, list(claim)] >= pod.gpu_milli).all())

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


def _oldest_first(entry: tuple[str, _GpuPod]) -> tuple[float, str]:
    return entry[1].created_s, entry[0]


def _steady(rule: DeviceRule) -> DeviceRule:
    return LeastSufficient() if isinstance(rule, Learning | Seeded) else rule
