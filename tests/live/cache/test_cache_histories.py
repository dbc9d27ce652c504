"""Whatever happens to a cluster, and however its watches tell it: in the end the cache is what the cluster is."""

import copy
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shown import ZONE, by_name
from tests.live.cluster import make_cache, make_group, make_node, make_pod
from tests.live.differences import differences

from foresail.core.model import Placement
from foresail.kube.objects.values import GANG, GANG_MIN, GPU_DEVICES
from foresail.live.cache.cache import Cache
from foresail.policies.plain.devices import LeastSufficient

NODES = ("a", "b", "c")
KINDS = ("Node", "Pod", "PodGroup", "Service")
PODS = ("p", "q", "r", "s", "t")
pick = st.integers(0, 1000)
OFTEN = ("node", "pod", "pod_changes", "pod_binds", "hear", "hear", "assume")
SELDOM = ("node_gone", "pod_ends", "pod_gone", "group", "group_gone", "service", "service_gone")
OTHERS = ("hear_again", "relist", "bind", "bind_fails")
steps = st.lists(st.tuples(st.sampled_from((*OFTEN, *OFTEN, *SELDOM, *OTHERS)), pick, pick), max_size=60)


class World:
    """A cluster, what its watches have yet to tell, and a scheduler that assumes and binds."""

    def __init__(self):
        self.cache, self.heard = make_cache()
        self.now = defaultdict(dict)
        self.coming = defaultdict(list)
        self.last = {}
        self.assumed = {}
        self.uids = 0

    def tell(self, kind, event, value):
        self.coming[kind].append((event, copy.deepcopy(value)))

    def put(self, kind, key, value):
        event = "MODIFIED" if key in self.now[kind] else "ADDED"
        self.now[kind][key] = value
        self.tell(kind, event, value)

    def drop(self, kind, key):
        if key in self.now[kind]:
            self.tell(kind, "DELETED", self.now[kind].pop(key))

    # --- what happens in the cluster ---

    def node(self, one, two):
        taints = [{"key": "spot", "effect": "NoSchedule"}] if two % 5 == 0 else []
        labels = {ZONE: "xyz"[two % 3]} if two % 4 else {}
        name = NODES[one % 3]
        self.put("Node", name, make_node(name, cpu=str(1 + two % 7), gpus=two % 4, labels=labels, taints=taints))

    def node_gone(self, one, _two):
        self.drop("Node", NODES[one % 3])

    def pod(self, one, two):
        name = PODS[one % 5]
        if name not in self.now["Pod"]:
            self.uids += 1
            more = {"labels": {GANG: "g"}, "annotations": {GANG_MIN: "2"}} if two % 5 == 0 else {}
            spec = {"schedulingGroup": {"podGroupName": "group"}} if two % 5 == 1 else {}
            node = NODES[one % 3] if two % 3 == 0 else ""
            uid = f"{name}{self.uids}"
            self.put("Pod", name, make_pod(name, f"{1 + two % 9}00m", node, uid=uid, gpus=two % 3, **more, **spec))

    def changed(self, one):
        """A copy of a pod, to be put; of one that nobody keeps if there is none."""
        return copy.deepcopy(self.now["Pod"].get(PODS[one % 5]))

    def pod_changes(self, one, two):
        if pod := self.changed(one):
            pod["metadata"].setdefault("labels", {})["app"] = "web" if two % 2 else "db"
            pod["status"]["containerStatuses"] = [{"name": "main", "resources": {"requests": {"cpu": f"{two % 2}"}}}]
            if two % 7 == 0:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.put("Pod", PODS[one % 5], pod)

    def pod_binds(self, one, two):
        if PODS[one % 5] in self.now["Pod"]:
            self.set_node(PODS[one % 5], NODES[two % 3], None)

    def pod_ends(self, one, two):
        pod = self.changed(one)
        if pod and pod["spec"].get("nodeName"):
            pod["status"]["phase"] = "Succeeded" if two % 2 else "Failed"
            self.put("Pod", PODS[one % 5], pod)

    def pod_gone(self, one, _two):
        self.drop("Pod", PODS[one % 5])

    def group(self, _one, two):
        self.put("PodGroup", "group", make_group("group", 1 + two % 3))

    def group_gone(self, _one, _two):
        self.drop("PodGroup", "group")

    def service(self, _one, two):
        selector = {"app": "web" if two % 2 else "db"}
        self.put("Service", "s", {"metadata": {"name": "s"}, "spec": {"selector": selector}})

    def service_gone(self, _one, _two):
        self.drop("Service", "s")

    def set_node(self, name, node, devices):
        pod = copy.deepcopy(self.now["Pod"][name])
        if not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = node
            if devices:
                pod["metadata"].setdefault("annotations", {})[GPU_DEVICES] = ",".join(map(str, devices))
            self.put("Pod", name, pod)

    # --- what the watches tell ---

    def hear(self, one, _two):
        kind = KINDS[one % 4]
        if self.coming[kind]:
            self.last[kind] = self.coming[kind].pop(0)
            self.cache.handler(kind).apply(*copy.deepcopy(self.last[kind]))

    def hear_again(self, one, _two):
        kind = KINDS[one % 4]
        if kind in self.last:
            self.cache.handler(kind).apply(*copy.deepcopy(self.last[kind]))

    def relist(self, one, _two):
        kind = KINDS[one % 4]
        self.coming[kind].clear()
        self.last.pop(kind, None)
        self.cache.handler(kind).replace(copy.deepcopy(list(self.now[kind].values())))

    # --- what the scheduler does ---

    def assume(self, one, two):
        cache, table = self.cache, self.cache.table
        waiting = sorted(uid for uid in cache.pods if cache.waiting(uid) and uid not in self.assumed)
        if waiting and table.count:
            pod = cache.waiting(waiting[one % len(waiting)])
            row = two % table.count
            table.widen(2)
            devices = LeastSufficient().devices(pod, table.all, row)
            if len(devices) == pod.gpu_count:
                table.assume(pod, Placement(row, table.names[row], devices))
                self.assumed[pod.uid] = (table.names[row], devices)

    def bind(self, one, _two):
        if self.assumed:
            self.finish(sorted(self.assumed)[one % len(self.assumed)], succeeds=True)

    def bind_fails(self, one, _two):
        if self.assumed:
            self.finish(sorted(self.assumed)[one % len(self.assumed)], succeeds=False)

    def finish(self, uid, *, succeeds):
        """As a scheduler ends a bind: by the API server's word, or by giving the room back."""
        node, devices = self.assumed.pop(uid)
        name = next((name for name, pod in self.now["Pod"].items() if pod["metadata"]["uid"] == uid), None)
        if succeeds and name is not None and not self.now["Pod"][name]["spec"].get("nodeName"):
            self.set_node(name, node, devices)
        elif uid in self.cache.table.placed and not (uid in self.cache.pods and self.cache.pods[uid].node):
            self.cache.table.forget(uid)

    def settle(self):
        for uid in list(self.assumed):
            self.finish(uid, succeeds=False)
        for kind, events in self.coming.items():
            for event in events:
                self.cache.handler(kind).apply(*event)

    def waiting(self):
        """Who waits, by what the listener was told."""
        waits = set()
        for what, *uid in self.heard.log:
            if what == "waits":
                assert uid[0] not in waits
                waits.add(uid[0])
            elif what == "gone":
                waits.remove(uid[0])
        return waits


def without_guesses(cache: Cache) -> dict[str, object]:
    """What the cache knows; which GPUs a pod is taken to have may depend on binds that failed meanwhile."""
    guessed = {uid for uid, pod in cache.pods.items() if pod.stands and pod.devices is None and pod.spec.gpu_count}
    at = {cache.table.names[cache.table.placed[uid].row] for uid in guessed if uid in cache.table.placed}
    shown = by_name(cache.table)
    for name in at:
        facts = list(shown[name])
        facts[3] = sum(facts[3])
        shown[name] = tuple(facts)
    placed = shown["placed"]
    shown["placed"] = {uid: what[:3] if uid in guessed else what for uid, what in placed.items()}
    return shown


@settings(max_examples=100, deadline=None)
@given(steps)
def test_the_cache_is_what_the_cluster_is_however_it_was_told(steps):
    world = World()
    for what, one, two in steps:
        getattr(world, what)(one, two)
    world.settle()
    fresh, heard = make_cache()
    for kind in ("Pod", "Service", "PodGroup", "Node"):
        fresh.handler(kind).replace(list(world.now[kind].values()))
    assert without_guesses(world.cache) == without_guesses(fresh)
    assert world.cache.pods == fresh.pods
    assert world.cache.table.objects == fresh.table.objects
    assert world.cache.unreadable == fresh.unreadable
    assert world.waiting() == {entry[1] for entry in heard.log if entry[0] == "waits"}
    truth = differences(world.cache, world.now["Node"].values(), world.now["Pod"].values())
    assert [line for line in truth if "over capacity" not in line] == []
