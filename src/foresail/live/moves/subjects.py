"""A pod that may be moved, with all that decides whether it can be: its owner, its volumes, its budgets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import NotFound
from foresail.kube.api.kinds import (
    CLAIM,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VOLUME,
    Kind,
)

OWNERS: dict[str, Kind] = {
    "Job": JOB,
    "ReplicaSet": REPLICA_SET,
    "ReplicationController": REPLICATION_CONTROLLER,
    "StatefulSet": STATEFUL_SET,
}
"""Those that are known to make a successor which may go to another node."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that stands against a move, or that one should know before it."""

    problem: str
    stops: bool = True
    """Whether such a pod is not moved; else it is only told."""
    patch: Object | None = None
    """What mends it, as a merge patch of the object named in `of`."""
    of: str = ""
    """KIND/NAME that the patch is for."""
    remedy: str = ""
    """What to do, in words."""
    manifest: Object | None = None
    """What it should say where it is made, if it takes no patch."""

    def command(self, namespace: str) -> str:
        """The patch as somebody would type it; empty if there is none."""
        if self.patch is None:
            return ""
        kind, _, name = self.of.partition("/")
        text = shlex.quote(json.dumps(self.patch, separators=(",", ":")))
        return f"kubectl -n {namespace} patch {kind} {name} --type merge -p {text}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod to be moved, with what is to be known of it."""

    pod: Object
    owner: Object | None = None
    """Its controller; None if it has none, or one of a kind that is not known."""
    deployment: Object | None = None
    """The Deployment above its ReplicaSet."""
    claims: Mapping[str, Object] = field(default_factory=dict)
    volumes: Mapping[str, Object] = field(default_factory=dict)
    """Bound volumes by the claim's name."""
    budgets: tuple[Object, ...] = ()
    """Disruption budgets of the namespace; the mover does without, as the eviction asks them itself."""

    @property
    def reference(self) -> Object | None:
        """The pod's controller as the pod names it."""
        return controller_of(self.pod)

    @property
    def template(self) -> Object | None:
        return None if self.owner is None else (self.owner.get("spec") or {}).get("template")

    @property
    def written(self) -> Object:
        """What somebody has written so that there is this pod: the Deployment, another owner, or the pod itself."""
        return self.deployment or self.owner or self.pod

    @property
    def written_as(self) -> str:
        """KIND/NAME of that, as kubectl takes it."""
        reference = self.reference
        kind = "Deployment" if self.deployment is not None else "Pod" if reference is None else reference["kind"]
        return f"{kind.lower()}/{self.written['metadata']['name']}"

    @property
    def is_on_one_node_at_a_time(self) -> bool:
        """Whether a volume keeps a second pod from starting on another node beside the first."""
        modes = [set((one.get("spec") or {}).get("accessModes") or ()) for one in self.claims.values()]
        return any(not mode & {"ReadWriteMany", "ReadOnlyMany"} for mode in modes)


def controller_of(value: Object) -> Object | None:
    """The controller among an object's owners, as it names it."""
    references = value["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


async def look_at(api: Client, namespace: str, name: str) -> Subject:
    """A pod and all that decides whether it can be moved. NotFound if the pod is gone; others may be missing."""
    pod = await api.get(POD.named(name, namespace))
    reference = controller_of(pod)
    owner = None if reference is None else await _owner(api, namespace, reference)
    above = None if owner is None else controller_of(owner)
    deployment = (
        await _or_none(api, DEPLOYMENT.named(above["name"], namespace))
        if above is not None and above.get("kind") == "Deployment"
        else None
    )
    return await with_volumes(api, namespace, Subject(pod, owner, deployment))


async def with_volumes(api: Client, namespace: str, subject: Subject) -> Subject:
    """The same with the pod's claims, and the volumes that they are bound to, as far as there are any."""
    claims, volumes = {}, {}
    for claim_name in claim_names(subject.pod):
        claim = await _or_none(api, CLAIM.named(claim_name, namespace))
        if claim is None:
            continue
        claims[claim_name] = claim
        bound_to = (claim.get("spec") or {}).get("volumeName")
        volume = await _or_none(api, VOLUME.named(bound_to)) if bound_to else None
        if volume is not None:
            volumes[claim_name] = volume
    return replace(subject, claims=claims, volumes=volumes)


async def _owner(api: Client, namespace: str, reference: Object) -> Object | None:
    kind = OWNERS.get(reference.get("kind", ""))
    if kind is None or reference.get("apiVersion") != kind.api_version:
        return None
    found = await _or_none(api, kind.named(reference["name"], namespace))
    # One that was deleted and made again under its name is another, and does not look after this pod.
    return found if found is not None and found["metadata"]["uid"] == reference.get("uid") else None


async def _or_none(api: Client, path: str) -> Object | None:
    try:
        return await api.get(path)
    except NotFound:
        return None


def claim_names(pod: Object) -> list[str]:
    """Names of the claims that a pod uses."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found
