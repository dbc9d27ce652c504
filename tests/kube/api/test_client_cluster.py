"""The client, a watch and an election on a real API server."""

from __future__ import annotations

import asyncio
import time

import pytest

from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.errors import Conflict, NotFound
from foresail.kube.api.lease import Leader, LeaderSettings
from foresail.kube.api.watch import Watch
from foresail.lab import Lab
from foresail.lab.processes import kill

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/default/pods"
QUICK = LeaderSettings(namespace="default", name="election", lease_s=4, renew_s=3, retry_s=0.5)


class Phases:
    """Pods by name and where they are."""

    def __init__(self):
        self.nodes = {}

    def replace(self, items):
        self.nodes = {}
        for item in items:
            self.apply("ADDED", item)

    def apply(self, kind, value):
        name = value["metadata"]["name"]
        assert "managedFields" not in value["metadata"]
        if kind == "DELETED":
            del self.nodes[name]
        else:
            self.nodes[name] = value["spec"].get("nodeName", "")


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "foresail", "containers": [{"name": "main", "image": "none"}]},
    }


def binding(made, node):
    about = {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}


async def until(condition, *, within_s=60.0):
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def lab():
    with Lab(fake_nodes=3, scheduler=False) as started:
        connection = find_connection(started.kubeconfig)

        async def account():
            # Pods are refused until the controller manager has made their service account.
            async with Client(connection) as api, asyncio.timeout(60):
                while True:
                    try:
                        return await api.get("/api/v1/namespaces/default/serviceaccounts/default")
                    except NotFound:
                        await asyncio.sleep(0.1)

        asyncio.run(account())
        yield started


def on(lab, story):
    async def whole():
        async with Client(find_connection(lab.kubeconfig)) as api:
            return await story(api)

    return asyncio.run(whole())


def test_list_bind_and_bind_again(lab):
    async def story(api):
        nodes, version = await api.list("/api/v1/nodes", page=2)
        assert (len(nodes), version.isdecimal()) == (3, True)
        made = await api.post(PODS, pod("bound"))
        bound = await api.post(f"{PODS}/bound/binding", binding(made, nodes[0]["metadata"]["name"]))
        assert (bound["kind"], bound["status"], bound["code"]) == ("Status", "Success", 201)
        with pytest.raises(Conflict, match="already assigned"):
            await api.post(f"{PODS}/bound/binding", binding(made, nodes[1]["metadata"]["name"]))
        found = await api.get(f"{PODS}/bound")
        assert found["spec"]["nodeName"] == nodes[0]["metadata"]["name"]

    on(lab, story)


def test_a_watch_outlives_its_api_server(lab):
    async def story(api):
        picture = Phases()
        watch = Watch(api, PODS, picture)
        running = asyncio.create_task(watch.run())
        await asyncio.wait_for(watch.ready(), 30)
        made = await api.post(PODS, pod("before"))
        await until(lambda: picture.nodes.get("before") == "")
        # Killed in the middle of the watch; `up` starts whatever does not run.
        assert kill([lab.state.processes["kube-apiserver"]]) == []
        await until(lambda: watch.failed is not None)
        await asyncio.to_thread(lab.up, wait=False)
        back_s = time.monotonic()
        await until(lambda: watch.failed is None)
        assert time.monotonic() - back_s < 20
        await api.post(f"{PODS}/before/binding", binding(made, "fake-00000"))
        await api.post(PODS, pod("after"))
        await until(lambda: picture.nodes.get("after") == "" and picture.nodes["before"] == "fake-00000")
        assert watch.lists <= 2
        running.cancel()

    on(lab, story)


def test_two_leaders_compete_and_hand_over(lab):
    async def story(api):
        log = []

        def join(name):
            leader = Leader(api, QUICK, identity=name)
            return asyncio.create_task(
                leader.run(lambda: log.append((name, "starts")), lambda: log.append((name, "stops")))
            )

        tasks = {name: join(name) for name in "ab"}
        await until(lambda: log)
        # Longer than a Lease lasts: the second one keeps waiting for the first, who lives.
        await asyncio.sleep(1.5 * QUICK.lease_s)
        ((first, _),) = log
        second = "b" if first == "a" else "a"
        tasks[first].cancel()
        await until(lambda: (second, "starts") in log)
        assert log == [(first, "starts"), (first, "stops"), (second, "starts")]
        tasks[second].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        lease = await api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/election")
        assert (lease["spec"].get("holderIdentity", ""), lease["spec"]["leaseTransitions"]) == ("", 1)

    on(lab, story)
