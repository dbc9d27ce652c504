"""What kube-scheduler and an extender say to each other, as bytes: requests taken apart, answers put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from foresail.errors import InputError

BEST = 10
"""The highest score an extender may give; kube-scheduler multiplies it by 10 and by the extender's weight."""

_NOTHING = msgspec.Raw(b"null")
_encode = msgspec.json.Encoder().encode


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as it stands in the JSON


class Head(msgspec.Struct):
    """Who a pod or a node is, without the rest."""

    metadata: _Metadata


class ExtenderArgs(msgspec.Struct, dict=True):
    """A filter or prioritize request. Only what is needed of it is decoded further."""

    Pod: msgspec.Raw = _NOTHING
    Nodes: msgspec.Raw = _NOTHING
    NodeNames: msgspec.Raw = _NOTHING

    @cached_property
    def has_nodes(self) -> bool:
        """Whether whole nodes were sent, as to an extender that keeps no nodes of its own."""
        return bytes(self.Nodes) != b"null"

    @cached_property
    def names(self) -> list[str]:
        """Names of the nodes that are asked about, also where whole nodes were sent."""
        return list(self.nodes) if self.has_nodes else _names.decode(self.NodeNames) or []

    @cached_property
    def nodes(self) -> dict[str, msgspec.Raw]:
        """The whole nodes that were sent, by name."""
        return {_head.decode(node).metadata.name: node for node in _nodes.decode(self.Nodes).items}

    def has_name(self, name: str) -> bool:
        """Whether a node is asked about, without a look at the others; names of nodes need no escaping."""
        return b'"%b"' % name.encode() in bytes(self.NodeNames)

    def count_names(self) -> int:
        """How many nodes are asked about, of those that are named; at least one is."""
        return bytes(self.NodeNames).count(b",") + 1

    def head(self) -> Head:
        return _head.decode(self.Pod)

    def pod(self) -> dict[str, Any]:
        """The whole Pod object."""
        found: dict[str, Any] = msgspec.json.decode(self.Pod)
        return found


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] = []


class _Victims(msgspec.Struct):
    Pods: list[dict[str, Any]] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(msgspec.Struct):
    """A preempt request: nodes that would take the pod if the named pods went."""

    Pod: msgspec.Raw = _NOTHING
    NodeNameToVictims: dict[str, _Victims] | None = None
    NodeNameToMetaVictims: dict[str, _Victims] | None = None

    def victims(self) -> dict[str, tuple[list[str], int]]:
        """Node to the uids of its victims and the number of disruption budgets that they break."""
        if self.NodeNameToMetaVictims is not None:
            return {
                node: ([str(_field(pod, "UID")) for pod in victims.Pods or ()], victims.NumPDBViolations)
                for node, victims in self.NodeNameToMetaVictims.items()
            }
        return {
            node: (
                [str(pod.get("metadata", {}).get("uid", "")) for pod in victims.Pods or ()],
                victims.NumPDBViolations,
            )
            for node, victims in (self.NodeNameToVictims or {}).items()
        }

    def args(self) -> ExtenderArgs:
        return ExtenderArgs(Pod=self.Pod)


class ExtenderBindingArgs(msgspec.Struct):
    """A bind request."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


_head = msgspec.json.Decoder(Head)
_names = msgspec.json.Decoder(list[str] | None)
_nodes = msgspec.json.Decoder(_NodeList)
_args = msgspec.json.Decoder(ExtenderArgs)
_preemption = msgspec.json.Decoder(ExtenderPreemptionArgs)
_bind = msgspec.json.Decoder(ExtenderBindingArgs)


def read_args(body: bytes) -> ExtenderArgs:
    args: ExtenderArgs = _read(_args, body)
    if bytes(args.Pod) == b"null":
        raise InputError("the request has no Pod; an extender is asked by kube-scheduler about one pod at a time")
    return args


def read_preemption(body: bytes) -> ExtenderPreemptionArgs:
    found: ExtenderPreemptionArgs = _read(_preemption, body)
    return found


def read_bind(body: bytes) -> ExtenderBindingArgs:
    found: ExtenderBindingArgs = _read(_bind, body)
    return found


def _read(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """The request. Go matches names of fields in any case, so others may write them in any case too."""
    try:
        found = decoder.decode(body)
        if bytes(getattr(found, "Pod", b"")) != b"null":
            return found
    except msgspec.ValidationError:
        pass  # a field that must be there may be there in another case
    except msgspec.DecodeError as error:
        raise InputError(f"the request is no JSON: {error}") from error
    try:
        stated = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        known = {name.lower(): name for name in decoder.type.__struct_fields__}
        renamed = {known.get(name.lower(), name): value for name, value in stated.items()}
        return decoder.decode(_encode(renamed))
    except msgspec.DecodeError as error:
        raise InputError(f"the request is not as kube-scheduler writes it: {error}") from error


def _field(stated: Mapping[str, Any], name: str) -> Any:
    return next((value for key, value in stated.items() if key.lower() == name.lower()), "")


# --- answers ---------------------------------------------------------------------------------------------------------


def filter_answer(args: ExtenderArgs, passing: list[str], refused: Mapping[str, str]) -> bytes:
    """Who passes and why others do not. Who sent whole nodes gets whole nodes back, and looks at nothing else."""
    return _encode(
        {
            "Nodes": {"items": [args.nodes[name] for name in passing]} if args.has_nodes else None,
            "NodeNames": passing,
            "FailedNodes": refused,
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }
    )


def all_pass_answer(args: ExtenderArgs) -> bytes:
    """The answer where every node passes: the names as they came."""
    return b'{"Nodes":null,"NodeNames":%b,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}' % bytes(
        args.NodeNames
    )


def filter_error(message: str) -> bytes:
    return _encode(
        {"Nodes": None, "NodeNames": None, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": message}
    )


def preemption_answer(nodes: Mapping[str, tuple[list[str], int]]) -> bytes:
    return _encode(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
                for node, (uids, broken) in nodes.items()
            }
        }
    )


def bind_answer(error: str = "") -> bytes:
    return _encode({"Error": error})


class ScoreWriter:
    """Writes prioritize answers from parts that are put together once for each node."""

    _MOST_NAMES = 200_000

    def __init__(self) -> None:
        self._parts: dict[str, tuple[bytes, ...]] = {}

    def answer(self, names: list[str], scores: Iterable[int]) -> bytes:
        """The answer for these nodes, in this order."""
        parts = self._parts
        if len(parts) > self._MOST_NAMES:
            parts.clear()  # names of nodes long gone
        for name in set(names).difference(parts):
            parts[name] = tuple(_encode({"Host": name, "Score": each}) for each in range(BEST + 1))
        # Maps of built-in functions: the answer of thousands of nodes is put together for every pod.
        return b"[%b]" % b",".join(map(tuple.__getitem__, map(parts.__getitem__, names), scores))
