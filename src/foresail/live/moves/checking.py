"""What an object lacks so that its pods can be moved without harm: the mover's own rules, asked beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foresail.errors import InputError, did_you_mean
from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import NotFound
from foresail.kube.api.kinds import DEPLOYMENT, JOB, KINDS, POD, REPLICA_SET, STATEFUL_SET, Kind
from foresail.live.moves.owners import has_ended, lacks, mended_in_template
from foresail.live.moves.subjects import Lack, Subject, controller_of, look_at, with_volumes

_KINDS = {"job": JOB, "deployment": DEPLOYMENT, "statefulset": STATEFUL_SET, "pod": POD}
_SHORT = {"deploy": "deployment", "sts": "statefulset", "po": "pod"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One object that was looked at."""

    namespace: str
    name: str
    """KIND/NAME."""
    pods: tuple[str, ...]
    """Those that were looked at; without any, what the object would make was."""
    lacks: tuple[Lack, ...]
    """What stops moves, then what does harm."""


def parse_object(text: str) -> tuple[str, str]:
    """Kind and name of `KIND/NAME`, with kubectl's short names and plurals."""
    kind, slash, name = text.partition("/")
    word = kind.lower().partition(".")[0]
    word = _SHORT.get(word, word)
    word = word if word in _KINDS else word.removesuffix("s")
    if not slash or not name or "/" in name:
        raise InputError(f'"{text}" names no object; write KIND/NAME, as in job/train')
    if word not in _KINDS:
        known = ", ".join(_KINDS)
        raise InputError(
            f'"{text}": there is no checking a {kind}{did_you_mean(kind, _KINDS)} ({known} can be checked)'
        )
    return word, name


async def check(
    api: Client, namespace: str, objects: Sequence[tuple[str, str]], *, scheduler_name: str
) -> list[Checked]:
    """Look at objects of a namespace, each a kind and a name, whose pods the controllers of a scheduler name are to
    look after.
    """
    budgets, _ = await api.list(KINDS["PodDisruptionBudget"].within(namespace))
    found = []
    for kind, name in objects:
        try:
            subjects = await _subjects(api, namespace, kind, name)
        except NotFound as error:
            raise InputError(f"there is no {kind}/{name} in namespace {namespace}; -n names another one") from error
        every = [
            one
            for subject in subjects
            for one in (*_of_scheduler(subject, scheduler_name), *lacks(replace(subject, budgets=tuple(budgets))))
        ]
        # Pods of one owner lack the same, mostly; each thing is told once.
        told = {(one.problem, one.of): one for one in every}
        pods = tuple(subject.pod["metadata"]["name"] for subject in subjects if "uid" in subject.pod["metadata"])
        ordered = sorted(told.values(), key=lambda one: not one.stops)
        found.append(Checked(namespace, f"{kind}/{name}", pods, tuple(ordered)))
    return found


def _of_scheduler(subject: Subject, scheduler_name: str) -> Iterator[Lack]:
    found = subject.pod["spec"].get("schedulerName", "default-scheduler")
    if found != scheduler_name:
        told = f"it is placed by {found} (schedulerName), and the controllers of {scheduler_name} do not look after it"
        yield mended_in_template(subject, told, {"spec": {"schedulerName": scheduler_name}}, stops=True)


async def all_jobs(api: Client, namespace: str) -> list[tuple[str, str]]:
    """Every Job of a namespace that has not ended."""
    items, _ = await api.list(JOB.within(namespace))
    return [("job", one["metadata"]["name"]) for one in items if not has_ended(one)]


async def _subjects(api: Client, namespace: str, kind: str, name: str) -> list[Subject]:
    """The pods of an object; the one that it would make, if it has none now."""
    if kind == "pod":
        return [await look_at(api, namespace, name)]
    owner = await api.get(_KINDS[kind].named(name, namespace))
    made_by = [owner]
    if kind == "deployment":
        made_by = await _of(api, REPLICA_SET, namespace, {owner["metadata"]["uid"]})
    found = []
    for pod in await _of(api, POD, namespace, {one["metadata"]["uid"] for one in made_by}):
        if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in {"Succeeded", "Failed"}:
            continue
        try:
            found.append(await look_at(api, namespace, pod["metadata"]["name"]))
        except NotFound:
            continue  # it has left meanwhile
    return found or [await with_volumes(api, namespace, _to_be_made(kind, owner))]


async def _of(api: Client, kind: Kind, namespace: str, owners: set[str]) -> list[Object]:
    items, _ = await api.list(kind.within(namespace))
    return [one for one in items if (controller_of(one) or {}).get("uid") in owners]


def _to_be_made(kind: str, owner: Object) -> Subject:
    """A pod as the owner's template has it."""
    template = owner["spec"]["template"]
    made = template.get("metadata") or {}
    reference = {
        "kind": "ReplicaSet" if kind == "deployment" else _KINDS[kind].kind,
        "name": owner["metadata"]["name"],
        "controller": True,
    }
    metadata = {
        "name": owner["metadata"]["name"],
        **{key: made[key] for key in ("labels", "annotations") if key in made},
        "ownerReferences": [reference],
    }
    # A StatefulSet adds the claims that it makes.
    claims = [
        {"name": one["metadata"]["name"], "persistentVolumeClaim": {"claimName": _first_claim(owner, one)}}
        for one in owner["spec"].get("volumeClaimTemplates") or ()
    ]
    spec = template["spec"]
    pod = {"metadata": metadata, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), *claims]}}
    return Subject(pod, owner, owner if kind == "deployment" else None)


def _first_claim(owner: Object, claim: Object) -> str:
    return f"{claim['metadata']['name']}-{owner['metadata']['name']}-0"
