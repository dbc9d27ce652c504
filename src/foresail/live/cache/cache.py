"""What the cluster is like now, from what its watches tell: a node table, every pod, and the objects around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from foresail.core.model import Pod
from foresail.core.policy import DeviceRule
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.kube.api.kinds import KINDS
from foresail.kube.api.watch import WatchHandler
from foresail.kube.objects.cluster_objects import drop_object, keep_objects, put_object
from foresail.kube.objects.gangs.forms import GROUP_KINDS
from foresail.kube.objects.gpus import MOST_DEVICES
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import Object
from foresail.live.cache.bookings import Bookings
from foresail.live.cache.gangs import Gangs, GroupObject, SeenGroup, gang_name
from foresail.live.cache.handlers import GroupHandler, NodeHandler, ObjectHandler, PodHandler
from foresail.live.cache.listener import Listener, Listeners
from foresail.live.cache.pods import CachedPod, PodReader, discard, uid_of
from foresail.live.cache.unreadable import Unreadable
from foresail.live.cache.volume_books import VolumeBooks

_UNSEEN_BY_FILTERS = frozenset({"PodDisruptionBudget"})
_FEW_SHAPES = 1024


class Cache:
    """The cluster as it was last told. Events may come twice, and in any order between kinds; no I/O happens here.

    Every pod with a node counts, whoever placed it, until it has ended. Pods on nodes that nobody has told of wait
    aside and are booked when the node comes. A pod that the scheduler has assumed stays so until a watch names its
    node, which is the truth, or it is deleted; that it is still unbound in an event is old news. A node that goes
    takes assumed pods with it, so look into `table.placed` before forgetting one.
    """

    def __init__(self, *listeners: Listener, scheduler_name: str | None, devices: DeviceRule) -> None:
        """`scheduler_name`: whose waiting pods are told to listeners, None for nobody's. `devices` guesses which GPUs
        a pod has that does not say.
        """
        self.table = NodeTable([])
        self.volumes = VolumeBooks(self.table, takes=self._is_decided_here)
        """For pods that are assumed; used once it is the table's `volume_taking`."""
        self.pods: dict[str, CachedPod] = {}
        """Every pod there is, by uid, those that have ended too."""
        self.seen = 0
        """How many different pods there have been."""
        self.unreadable = Unreadable()
        self._listeners = Listeners(*listeners)
        self._scheduler_name = scheduler_name
        self._reader = PodReader()
        self._uid_of: dict[tuple[str, str], str] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._told: dict[str, Pod] = {}
        self._expected: dict[str, CachedPod] = {}
        self._gangs = Gangs()
        self._most_shapes = _FEW_SHAPES
        self._bookings = Bookings(
            self.table, devices, pod_of=self._pod, volumes=self.volumes, listeners=self._listeners
        )

    def handler(self, name: str) -> WatchHandler:
        """Who takes in the watch of this name; see `KINDS`."""
        kind, group = KINDS[name].kind, KINDS[name].group
        if kind == "Node":
            return NodeHandler(self)
        if kind == "Pod":
            return PodHandler(self)
        if kind in GROUP_KINDS:
            return GroupHandler(self, name, f"{kind}.{group}")
        return ObjectHandler(self, kind)

    def tell(self, listener: Listener) -> None:
        """One more who is told of changes from now on."""
        self._listeners.add(listener)

    def guess_by(self, devices: DeviceRule) -> None:
        """Guess GPUs by another rule from now on, those guessed before too; whoever waits may fit elsewhere now."""
        self._bookings.guess_by(devices)
        self._listeners.anything_changed()

    def named(self, full_name: str) -> CachedPod | None:
        """The pod that has a name now, written `namespace/name`."""
        namespace, _, name = full_name.partition("/")
        uid = self._uid_of.get((namespace, name))
        return None if uid is None else self.pods[uid]

    def waiting(self, uid: str) -> Pod | None:
        """The pod as it should wait now: for one whose bind has failed and that is no longer assumed."""
        cached = self.pods.get(uid)
        if cached is None or not self._is_ours(cached) or self._obstacle(cached):
            return None
        return self._pod(cached)

    def as_waiting(self, uid: str) -> Pod | str:
        """A pod as one to be placed, whoever's it is and wherever it stands; or why nobody could place it."""
        cached = self.pods[uid]
        return self._obstacle(cached) or self._pod(cached)

    def as_if(self, cached: CachedPod, spec: PodSpec) -> Pod | None:
        """A pod as one that requests something else; None if that is what it requests."""
        return None if spec is cached.spec else self._pod(replace(cached, spec=spec))

    def expect(self, value: Object) -> Pod | str:
        """A pod that is not there yet, as one to be placed, or why nobody could place it. What it requests is known
        until `expect_no_more` is told its uid.
        """
        cached = self._reader.read(value)
        self._expected[cached.uid] = cached
        return self._obstacle(cached) or self._pod(cached)

    def expect_no_more(self, uid: str) -> None:
        self._expected.pop(uid, None)

    @property
    def who_waits(self) -> list[str]:
        """Uids of the pods that the listener was told to place, those among them that are assumed by now too."""
        return list(self._told)

    def give_back(self, uid: str) -> None:
        """A bind has failed: unless a watch has named the pod's node meanwhile, it holds nothing any more."""
        cached = self.pods.get(uid)
        if cached is None or not cached.stands:
            self._bookings.leave(uid)

    def is_guess(self, uid: str) -> bool:
        """Whether it is guessed which GPUs a pod has, be it that it does not say or that it cannot be believed."""
        return self._bookings.is_guess(uid)

    def placed_members(self, gang: str) -> int:
        """How many members of a gang have a node, are assumed on one, or have had it and ended well; for
        `Queue.members_placed`.
        """
        pods = (self.pods[uid] for uid in self._gangs.members(gang))
        return sum(
            (bool(pod.node) or pod.uid in self.table.placed) and pod.phase != "Failed" and not pod.terminating
            for pod in pods
        )

    def members(self, gang: str) -> list[CachedPod]:
        """All pods of a gang, wherever they stand, in the order in which they came."""
        return [self.pods[uid] for uid in self._gangs.members(gang)]

    def has_members(self, gang: str) -> bool:
        """Whether there is a pod of this gang, wherever it stands."""
        return bool(self._gangs.members(gang))

    # --- nodes -----------------------------------------------------------------------------------------------------

    def put_nodes(self, values: Iterable[Object]) -> None:
        """Nodes that have come or changed."""
        specs = []
        for value in values:
            try:
                specs.append(_checked(node_spec(value)))
            except RequestError as error:
                self.unreadable.note("Node", value, error)
            else:
                self.unreadable.clear_of("Node", value)
        structure = self.table.structure
        new = [spec.name for spec in specs if spec.name not in self.table.row_of]
        rows = self.table.put_nodes(specs)
        for name in new:
            for uid in self._on_node.get(name, ()):
                self._bookings.book(self.pods[uid])
        for row in rows:
            self._bookings.node_changed(self.table.names[row])
        if self.table.structure != structure:
            self._listeners.anything_changed()
        else:
            for row in rows:
                self._listeners.room_freed(row)

    def keep_nodes(self, values: list[Object]) -> None:
        """There are these nodes and no others."""
        there = {value["metadata"]["name"] for value in values}
        self.unreadable.keep("Node", values)
        self.remove_nodes([name for name in self.table.names if name not in there])

    def drop_node(self, value: Object) -> None:
        self.unreadable.clear_of("Node", value)
        self.remove_nodes([value["metadata"]["name"]])

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Nodes that have gone; their pods wait aside."""
        gone = [name for name in names if name in self.table.row_of]
        self.table.remove_nodes(gone)
        self._bookings.forget_nodes(gone)
        if gone:
            self._listeners.anything_changed()

    # --- pods ------------------------------------------------------------------------------------------------------

    def put_pod(self, value: Object) -> None:
        """A pod that has come or changed."""
        uid = uid_of(value)
        before = self.pods.get(uid)
        now = self._reader.read(value, before)
        if now is before:
            return
        now = self._bookings.as_held(now, before)
        if before is not None and now == before:
            before.version = now.version
            return
        if before is None:
            replaced = self._uid_of.get((now.namespace, now.name))
            if replaced is not None:
                self.drop_pod(replaced)  # the name is a new pod's, so the old one is gone
            self._uid_of[now.namespace, now.name] = uid
            self.seen += 1
        else:
            self._unlist(before)
        self.pods[uid] = now
        self._list(now)
        held = self.table.placed.get(uid)
        confirmed = held is not None and self.table.names[held.row] == now.node
        if now.node and held is None and uid in self._told:
            self._listeners.pod_bound(self._told[uid], now)
        if now.ended:
            self._bookings.leave(uid)
        elif now.node:
            self._bookings.book(now)
        self._tell(now, confirmed=confirmed)
        self._tell_running(before, now)
        if now.gang is not None and now.node:
            self._listeners.gang_changed(gang_name(now.gang))
        self._drop_shapes()

    def drop_pod(self, uid: str) -> None:
        """A pod that has been deleted; one that is not known is none."""
        gone = self.pods.pop(uid, None)
        if gone is None:
            return
        del self._uid_of[gone.namespace, gone.name]
        self._unlist(gone)
        self.unreadable.pop(uid, None)
        self._bookings.leave(uid)
        if self._told.pop(uid, None) is not None:
            self._listeners.pod_gone(uid)
        self._tell_running(gone, None)
        if gone.gang is not None:
            self._listeners.gang_changed(gang_name(gone.gang))
        self._drop_shapes()

    def _list(self, pod: CachedPod) -> None:
        if pod.stands:
            self._on_node.setdefault(pod.node, {})[pod.uid] = None
        self._gangs.join(pod)

    def _unlist(self, pod: CachedPod) -> None:
        if pod.stands:
            discard(self._on_node, pod.node, pod.uid)
        self._gangs.leave(pod)

    def _tell(self, cached: CachedPod, *, confirmed: bool = False) -> None:
        """Keep the listener's idea of who waits up to date. `confirmed`: it stands where the scheduler put it."""
        uid, told = cached.uid, self._told.get(cached.uid)
        self.unreadable.pop(uid, None)
        if cached.unreadable:
            self.unreadable[uid] = cached.unreadable
        if uid in self.table.placed and not cached.node:
            return  # assumed: whether it waits again is the scheduler's to say
        if not self._is_ours(cached):
            if told is not None:
                del self._told[uid]
                if confirmed:
                    self._listeners.pod_confirmed(cached)
                else:
                    self._listeners.pod_gone(uid)
            return
        obstacle = self._obstacle(cached)
        pod = None if obstacle else self._pod(cached)
        if told is not None:
            if pod is not None and _alike(told, pod):
                return
            del self._told[uid]
            self._listeners.pod_gone(uid)
        if pod is not None:
            self._told[uid] = pod
            self._listeners.pod_waits(pod, cached)
        elif cached.unreadable:
            self._listeners.pod_unreadable(cached, obstacle)
        else:
            self._listeners.pod_waits_for(cached, obstacle)

    def _tell_running(self, before: CachedPod | None, now: CachedPod | None) -> None:
        stood, stands = before is not None and before.stands, now is not None and now.stands
        if stood or stands:
            self._listeners.running_changed(before, now if stands else None)

    def _is_decided_here(self, pod: Pod) -> bool:
        cached = self.pods.get(str(pod.uid))
        return cached is not None and not cached.node

    def _is_ours(self, cached: CachedPod) -> bool:
        return (
            cached.scheduler_name == self._scheduler_name
            and not cached.node
            and not cached.terminating
            and not cached.gated
            and not cached.ended
        )

    def _obstacle(self, cached: CachedPod) -> str:
        """What keeps a waiting pod from being placed at all; empty if nothing does."""
        return cached.unreadable or self._gangs.obstacle(cached)

    def _arrival_s(self, cached: CachedPod, gang: Gang | None) -> float:
        """A pod's place in line. Where some of a gang have nodes, and fewer than it starts with, as after one was lost,
        they hold room in vain until it is whole: whoever is made anew stands where the gang did.
        """
        if gang is None or self._gangs.since_s(gang.name) >= cached.created_s:
            return cached.created_s
        torn = 0 < self.placed_members(gang.name) < gang.min_members
        return self._gangs.since_s(gang.name) if torn else cached.created_s

    def _pod(self, cached: CachedPod) -> Pod:
        gang = self._gangs.gang_of(cached)
        return Pod(
            cached.full_name,
            self.table.shape(cached.spec),
            uid=cached.uid,
            priority=self._gangs.priority_of(cached),
            gang=gang,
            arrival_s=self._arrival_s(cached, gang),
        )

    def _drop_shapes(self) -> None:
        if self.table.shape_count > self._most_shapes:
            self.table.drop_shapes(pod.spec for pod in (*self.pods.values(), *self._expected.values()))
            self._most_shapes = max(_FEW_SHAPES, 2 * self.table.shape_count)

    # --- gangs and other objects -----------------------------------------------------------------------------------

    def put_group(self, watch: str, form: str, value: Object) -> None:
        """An object with the limits of gangs has come or changed; `watch` is the one that tells, of this form."""
        kind = form.partition(".")[0]
        try:
            members = self._gangs.put_object(watch, form, value)
        except RequestError as error:
            self.unreadable.note(kind, value, error)
            members = self._gangs.note_unreadable(watch, form, value, str(error))
        else:
            self.unreadable.clear_of(kind, value)
        self._tell_members(members)

    def drop_group(self, watch: str, about: GroupObject) -> None:
        self.unreadable.pop(f"{about.form.partition('.')[0]} {about.namespace}/{about.name}", None)
        self._tell_members(self._gangs.drop_object(watch, about))

    def groups(self, watch: str) -> list[GroupObject]:
        """The objects with the limits of gangs that one watch has told of."""
        return self._gangs.objects(watch)

    def group(self, about: GroupObject) -> SeenGroup | None:
        """One of them as it was last told, if it has one group."""
        return self._gangs.seen(about)

    def _tell_members(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._tell(self.pods[uid])

    def put_object(self, kind: str, value: Object) -> None:
        """An object that is neither node, pod nor PodGroup has come or changed."""
        if self.volumes.is_old(kind, value):
            return
        try:
            changed = put_object(self.table.objects, kind, value)
        except RequestError as error:
            self.unreadable.note(kind, value, error)
            return
        self.unreadable.clear_of(kind, value)
        self.volumes.told(kind, value)
        self._objects_changed(kind, changed=changed)

    def drop_object(self, kind: str, value: Object) -> None:
        self.unreadable.clear_of(kind, value)
        changed = drop_object(self.table.objects, kind, value)
        self.volumes.dropped(kind, value)
        self._objects_changed(kind, changed=changed)

    def keep_objects(self, kind: str, values: list[Object]) -> None:
        """Of this kind there are these and no others."""
        self.unreadable.keep(kind, values)
        changed = keep_objects(self.table.objects, kind, values)
        self.volumes.kept(kind)
        self._objects_changed(kind, changed=changed)

    def _objects_changed(self, kind: str, *, changed: bool) -> None:
        if changed and kind not in _UNSEEN_BY_FILTERS:
            self.table.objects_changed()
            self._listeners.anything_changed()


def _checked(spec: NodeSpec) -> NodeSpec:
    if spec.gpu_count > MOST_DEVICES:
        raise RequestError(f"the node has {spec.gpu_count} GPUs; at most {MOST_DEVICES} are looked at")
    return spec


def _alike(told: Pod, now: Pod) -> bool:
    return (told.spec, told.priority, told.gang, told.arrival_s) == (now.spec, now.priority, now.gang, now.arrival_s)
