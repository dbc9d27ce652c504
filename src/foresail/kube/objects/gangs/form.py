"""What every form of a gang comes down to: which gang a pod names, and what that gang says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from foresail.core.spec import Gang, parse_topology
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import GANG_LATER, string, whole_number


class Limits(NamedTuple):
    """What a gang says of itself; None, or empty, for what it leaves open."""

    min_members: int | None = None
    timeout_s: float | None = None
    topology: str = ""
    """Node label that has one value for all members; or, from an annotation, what `parse_topology`
    reads."""
    priority: int | None = None
    """Counts instead of its members' own."""

    later_members: int = 0
    """Those of the minimum that are made only once the others run."""

    def gang(self, name: str, otherwise: int) -> Gang:
        """The gang of this name; `otherwise` is how many start together where that is left open."""
        stated = self.topology.startswith(("required:", "preferred:"))
        labels, required = parse_topology(self.topology) if stated else ((self.topology,), True)
        if not self.topology:
            labels, required = (), False
        least = self.min_members or otherwise
        later = self.later_members
        if self.timeout_s is None:
            return Gang(name, least, topology=labels, topology_required=required, later_members=later)
        return Gang(name, least, self.timeout_s, labels, required, later)


NO_LIMITS = Limits()


class GangName(NamedTuple):
    """Which gang a pod names, and how."""

    form: str
    """Kind and API group of the object that has the gang's limits; empty if the pod itself has them."""
    namespace: str
    name: str
    replica: str = ""
    """Pods of one group may make up several gangs, each with the limits of the group."""

    @property
    def group(self) -> GangName:
        """The group whose limits count for it."""
        return self._replace(replica="") if self.replica else self

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" + (f"/{self.replica}" if self.replica else "")


class Form(Protocol):
    """One way to say which pods belong together."""

    @property
    def title(self) -> str:
        """Kind and API group of the objects that have the limits, as `GangName.form` has it."""

    def named(
        self, spec: Mapping[str, Any], labels: Mapping[str, Any], annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        """The gang that a pod names in this form, None for none."""

    def groups(self, value: Mapping[str, Any], namespace: str, name: str) -> list[tuple[GangName, Limits]]:
        """The groups of an object of this form, and what each says of itself."""


def later_members(annotations: Mapping[str, Any]) -> int:
    """How many of its gang's minimum a member says are made only once the others run, whatever form the gang has."""
    return whole_number(annotations.get(GANG_LATER, 0), f"metadata.annotations.{GANG_LATER}")


def one_name(value: object, field_name: str) -> str:
    """A name within the pod's own namespace, empty for none: nobody joins the gangs of another."""
    name = string(value, field_name)
    if "/" in name:
        raise RequestError(f'{field_name} is "{name}"; a gang lives in one namespace, write its name alone')
    return name
