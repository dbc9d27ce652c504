"""`foresail control` with the chart's rights on a real API server: all of them are used, and no others."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.deploy.charts import allowed, granted, needs_helm, of_kind, render
from tests.deploy.recording import RecordingClient, Used
from tests.deploy.test_deploy_cluster import ACCESS, Account, apply
from tests.live.running import PODS, cluster_of, node, pod

from foresail.core.control import Action, Move, Resize, View
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import find_connection
from foresail.kube.api.kinds import KINDS
from foresail.kube.api.lease import LeaderSettings
from foresail.lab import Lab
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.moves.tools import MoveSettings
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.settings import TelemetrySettings

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

ALL_SOURCES = ("telemetry.cpu.sources={metrics-api,kubelet}", "telemetry.progress.logs=true")
LABEL = "foresail.dev/job"
TARGETS = {"volumes": "b", "stuck": "c", "budget": "d", "kept": "b"}
"""Pod to where it is to go; they all begin on a, and each target takes one at a time."""
NOT_SERVED = {(kind.group, kind.plural, "watch") for kind in KINDS.values() if kind.optional}
"""What is only asked where it is there: the lab has no objects of gangs."""
IN_NAMESPACE = {"configmaps", "leases"}
"""What is written in the release's namespace alone."""
QUICK = MoveSettings(checkpoint_s=5.0, budget_s=1.0, successor_s=2.0, resume_s=1.0, rest_s=1.0)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab("rights", base=Path(folder)) as lab:
        with lab.api() as api:
            api.create("/api/v1/namespaces", {"metadata": {"name": "foresail"}})
            api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
        yield lab


class Busy:
    """Wants every pod elsewhere, until it has moved, and one that stays to have more CPU."""

    every_s = 0.5

    def act(self, view: View) -> Sequence[Action]:
        actions: list[Action] = []
        for one in view.running.values():
            name = one.pod.name.rpartition("/")[2]
            if name in TARGETS:
                actions.append(Move(one.pod, "because", TARGETS[name]))
            elif name == "resized" and one.cpu_milli != 200:
                actions.append(Resize(one.pod, 200, "twice as much", 200))
        return actions


@asynccontextmanager
async def deployed(lab: Lab, folder: Path, *values: str, dry_run: bool = False) -> AsyncIterator[tuple]:
    """`foresail control` as the chart's service account: the program, its client, and the rights it has."""
    objects = render("scheduler.enabled=false", "control.enabled=true", *values)
    with lab.api() as api:
        for manifest in objects:
            if manifest["kind"] in ACCESS:
                apply(api, manifest, dry_run=False)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = "/api/v1/namespaces/foresail/serviceaccounts/foresail-control/token"
        account = Account(lab, api.create(path, asked)["status"]["token"])
    kubeconfig = folder / "account.kubeconfig"
    kubeconfig.write_text(json.dumps(account.kubeconfig(lab)))
    settings = ControlSettings(
        controllers=(),
        scheduler_name="default-scheduler",
        lease=LeaderSettings(namespace="foresail", name="foresail-control"),
        dry_run=dry_run,
        telemetry=TelemetrySettings(
            cpu_sources=("metrics-api", "kubelet"),
            cpu_every_s=1.0,
            progress_logs=True,
            progress_address="localhost:0",
        ),
        moves=QUICK,
        server=ServerSettings(port=0),
    )
    async with RecordingClient(find_connection(kubeconfig)) as own:
        program = ControlProgram(settings, own, announce=lambda _: None, controllers={"busy": Busy()})
        task = asyncio.create_task(program.run())
        try:
            roles = set().union(*(allowed(role) for role in of_kind(objects, "Role")))
            yield program, own, granted(objects, "foresail-control"), roles
        finally:
            program.stop()
            await asyncio.wait_for(task, 60)


def cluster_rights(used: set[Used]) -> set[tuple[str, ...]]:
    return {one[:3] for one in used if one.resource not in IN_NAMESPACE}


def namespace_rights(used: set[Used]) -> set[tuple[str, ...]]:
    """Those in the release's namespace; of Leases also which one."""
    mine = {one for one in used if one.resource in IN_NAMESPACE}
    assert {one.namespace for one in mine} <= {"foresail"}
    return {(*one[:3], one.name) if one.resource == "leases" and one.name else one[:3] for one in mine}


async def until(reached: Callable[[], bool], said: Callable[[], object], within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < end_s, said()
        await asyncio.sleep(0.1)


async def until_running(api: Client, count: int) -> list[Object]:
    end_s = time.monotonic() + 60.0
    while True:
        items, _ = await api.list(PODS)
        if sum(one["status"].get("phase") == "Running" for one in items) == count:
            return items
        assert time.monotonic() < end_s, [(one["metadata"]["name"], one["status"]) for one in items]
        await asyncio.sleep(0.1)


async def cordon(api: Client, name: str, *, back: bool = False) -> None:
    await api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None if back else True}})


def made(name: str, **more: object) -> Object:
    amounts = {"cpu": "100m", "memory": "16Mi"}
    found = pod(name, scheduler="default-scheduler", requests=amounts, labels={LABEL: name, "app": name}, **more)
    found["spec"]["containers"][0]["resources"]["limits"] = amounts
    return found


async def put_pods(api: Client) -> None:
    """A pod with a volume, one whose target is lost, one that a budget keeps, one to resize, one that is not moved."""
    amount = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {**amount, "capacity": {"storage": "1Gi"}, "nfs": {"server": "nfs.example.org", "path": "/"}}
    claim = {**amount, "volumeName": "shared", "resources": {"requests": {"storage": "1Gi"}}}
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "budget"}}}
    about = {"metadata": {"name": "shared"}}
    await api.post("/api/v1/persistentvolumes", {**about, "spec": volume})
    await api.post("/api/v1/namespaces/default/persistentvolumeclaims", {**about, "spec": claim})
    await api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**about, "spec": budget})
    shared = [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]
    never = {"foresail.dev/no-move": "true"}
    pods = [made("volumes", volumes=shared), *(made(name) for name in ("stuck", "budget", "resized"))]
    for one in (*pods, made("kept", annotations=never)):
        await api.post(PODS, one)


async def report(api: Client, url: str) -> int:
    """A row, sent with the token that a pod would have."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    uid = (await api.get(f"{PODS}/kept"))["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "kept", "uid": uid}
    spec = {"audiences": ["foresail-progress"], "boundObjectRef": bound}
    token = await api.post(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    headers = {"Authorization": f"Bearer {token['status']['token']}"}
    rows = [{"time": time.time(), "step": 1, "total": 9}]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/progress", json={"job": "kept", "rows": rows}, headers=headers) as answer,
    ):
        return answer.status


@needs_helm
def test_a_run_with_moves_resizes_and_all_telemetry_uses_exactly_the_rights_of_the_chart(lab, tmp_path):
    """Every rule is used, so none can be dropped; nothing is refused, so none is missing.

    Rules for what goes wrong now and then need something to go wrong: an answer, a request and a node are lost.
    """

    async def live() -> None:
        async with cluster_of(lab, *(node(name) for name in "abcd")) as api:
            for name in "bcd":
                await cordon(api, name)
            await put_pods(api)
            await until_running(api, 5)
            for name in "bcd":
                await cordon(api, name, back=True)
            first: set[tuple[str, ...]] = set()

            def once(used: Used, *what: str) -> bool:
                if (used.resource, used.verb) != what[:2] or not used.name.startswith(what[2]) or what in first:
                    return False
                first.add(what)
                return True

            async def before(used: Used) -> None:
                if used.resource == "pods/eviction" and used.name == "stuck":
                    await cordon(api, "c")  # no successor of it finds room where it is to go

            async with deployed(lab, tmp_path, *ALL_SOURCES) as (program, own, everywhere, in_namespace):
                own.before = before
                own.lose_answer = lambda used: once(used, "configmaps", "create", "")
                own.lose_request = lambda used: once(used, "pods/eviction", "create", "budget")
                wanted = everywhere - NOT_SERVED

                def missing() -> set[tuple[str, ...]]:
                    return (wanted - cluster_rights(own.used)) | (in_namespace - namespace_rights(own.used))

                await until(lambda: bool(program.telemetry.receiver_url), lambda: "nobody listens")
                end_s = time.monotonic() + 60.0
                # The watch has to tell of the pod, and the Lease to be taken.
                while (status := await report(api, program.telemetry.receiver_url)) != 200:
                    assert time.monotonic() < end_s, status
                    await asyncio.sleep(0.5)
                await until(lambda: not missing(), lambda: f"never used: {missing()}")
            assert own.refused == []
            assert cluster_rights(own.used) == wanted
            assert namespace_rights(own.used) == in_namespace

    asyncio.run(live())


@needs_helm
def test_a_dry_run_of_all_that_may_change_nothing_and_reads_no_more_than_it_must(lab, tmp_path):
    async def live() -> None:
        async with cluster_of(lab, *(node(name) for name in "ab")) as api:
            await cordon(api, "b")
            await api.post(PODS, made("volumes"))
            await api.post(PODS, made("kept"))
            await until_running(api, 2)
            await cordon(api, "b", back=True)
            values = (*ALL_SOURCES, "control.dryRun=true", "telemetry.progress.http.enabled=false")
            async with deployed(lab, tmp_path, *values, dry_run=True) as (_program, own, everywhere, in_namespace):
                wanted = everywhere - NOT_SERVED

                def missing() -> set[tuple[str, ...]]:
                    return wanted - cluster_rights(own.used)

                await until(lambda: not missing(), lambda: f"never used: {missing()}")
            assert (own.refused, in_namespace) == ([], set())
            assert {one[:3] for one in own.used} == wanted
            assert {one.verb for one in own.used} == {"get", "list", "watch"}

    asyncio.run(live())
