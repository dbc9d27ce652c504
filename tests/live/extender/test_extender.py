"""What the extender answers, byte for byte where kube-scheduler reads it, without a cluster."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from foresail.core.decide import decide
from foresail.core.model import NoFit, Pod
from foresail.core.profile import Profile, UsedScore
from foresail.errors import ForesailError, InputError, OptionError
from foresail.kube.objects.pod import pod_spec_of
from foresail.live.cache.cache import Cache
from foresail.live.extender.app import ExtenderApp
from foresail.live.extender.config import (
    Wanted,
    check,
    check_file,
    configuration,
    configuration_text,
    other_scores_most,
)
from foresail.live.extender.extender import Extender, ExtenderSettings
from foresail.live.extender.samples import SampleWatch
from foresail.live.extender.scores import to_scores
from foresail.live.extender.service import _ChangeEvent
from foresail.live.scheduler.learning import workload_of
from foresail.live.serving.server import ServerSettings, listen, parse_address
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.profiles.load import load_profile

SHARE = {"alibabacloud.com/gpu-milli": "400"}


def make_node(name, *, cpu="16", gpus=0, **more):
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "metadata": {"name": name, "resourceVersion": "1", **more},
        "spec": {},
        "status": {"allocatable": allocatable},
    }


def make_pod(name, *, cpu="1", node="", annotations=None, version="1", **spec):
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    where = {"nodeName": node} if node else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "main", "resources": resources}], **where, **spec},
        "status": {"phase": "Pending"},
    }


class Bench:
    """An extender on a cache that a test fills, asked as kube-scheduler asks."""

    def __init__(self, policy="least-allocated", nodes=3, *, gpus=0, bind=None, **settings):
        self.now_s = 0.0
        self.news = _ChangeEvent()
        self.cache = Cache(self.news, scheduler_name=None, devices=LeastSufficient())
        self.cache.handler("Node").replace([make_node(f"n{at}", gpus=gpus) for at in range(nodes)])
        self.profile = policy if isinstance(policy, Profile) else load_profile(policy)
        self.extender = Extender(self.cache, self.profile, ExtenderSettings(**settings), now_s=lambda: self.now_s)
        self.ready = True
        self.problem = ""
        self.app = ExtenderApp(
            self.extender,
            is_ready=lambda: self.ready,
            problem=lambda: self.problem,
            changed=self.news.next_change,
            bind=bind,
            wait_for_node_s=0.05,
        )

    @property
    def names(self):
        return sorted(self.cache.table.row_of)

    def put(self, *pods):
        for pod in pods:
            self.cache.handler("Pod").apply("ADDED", pod)

    async def send(self, path, body=None, method="POST"):
        sent = []
        halves = [body[: len(body) // 2], body[len(body) // 2 :]] if body else [b""]

        async def receive():
            return {"type": "http.request", "body": halves.pop(0), "more_body": bool(halves)}

        async def send(message):
            sent.append(message)

        await self.app({"type": "http", "method": method, "path": path}, receive, send)
        return sent[0]["status"], sent[1]["body"]

    def ask(self, path, body=None, method="POST"):
        return asyncio.run(self.send(path, body, method))

    def verb(self, verb, pod, names=None, **more):
        asked = {"Pod": pod, "Nodes": None, "NodeNames": self.names if names is None else names, **more}
        status, body = self.ask(f"/{verb}", json.dumps(asked).encode())
        assert status == 200
        return json.loads(body)

    def filter(self, pod, names=None, **more):
        return self.verb("filter", pod, names, **more)

    def scores(self, pod, names=None):
        """As kube-scheduler takes them: nodes that are left out have 0."""
        told = {line["Host"]: line["Score"] for line in self.verb("prioritize", pod, names)}
        assert 0 not in told.values()
        return dict.fromkeys(self.names if names is None else names, 0) | told

    def figures(self):
        lines = self.ask("/metrics", method="GET")[1].decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def passed(names, refused=None, error=""):
    return {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": refused or {},
        "FailedAndUnresolvableNodes": {},
        "Error": error,
    }


# --- filter ----------------------------------------------------------------------------------------------------------


def test_the_answer_names_who_passes_and_why_the_others_do_not():
    bench = Bench()
    bench.put(make_pod("old", cpu="15", node="n1"))
    assert bench.filter(make_pod("a", cpu="2")) == passed(["n0", "n2"], {"n1": "have too little cpu"})
    assert bench.filter(make_pod("b")) == passed(["n0", "n1", "n2"])
    assert bench.filter(make_pod("c", cpu="99")) == passed([], dict.fromkeys(bench.names, "have too little cpu"))
    assert bench.filter(make_pod("d"), ["n2", "n0"]) == passed(["n2", "n0"])


def test_fields_may_be_written_in_any_case():
    bench = Bench()
    asked = {"pod": make_pod("a"), "nodes": None, "nodenames": ["n1"]}
    status, body = bench.ask("/filter", json.dumps(asked).encode())
    assert (status, json.loads(body)) == (200, passed(["n1"]))


def test_whole_nodes_are_refused_unless_forced():
    nodes = {"items": [make_node("n0"), make_node("n1")]}
    error = Bench().filter(make_pod("a"), None, Nodes=nodes, NodeNames=None)["Error"]
    assert "kube-scheduler 1.33 and later then scores nodes as if they were empty" in error
    assert "nodeCacheCapable: true" in error
    forced = Bench(nodes=2, force=True)
    for verb, names in (("filter", ["n0", "n1"]), ("choose", ["n0"])):
        answer = forced.verb(verb, make_pod("a"), Nodes=nodes, NodeNames=None)
        # kube-scheduler looks for whole nodes in the answer then, and finds none in a list of names.
        assert answer == passed(names) | {"Nodes": {"items": nodes["items"][: len(names)]}}


def test_a_node_that_the_watch_has_not_told_of_is_waited_for_then_refused():
    bench = Bench()
    asked = json.dumps({"Pod": make_pod("a"), "Nodes": None, "NodeNames": ["n0", "new"]}).encode()

    async def comes_late():
        answer = asyncio.create_task(bench.send("/filter", asked))
        await asyncio.sleep(0)
        bench.cache.handler("Node").apply("ADDED", make_node("new"))
        return await answer

    unknown = bench.filter(make_pod("a"), ["n0", "new"])
    assert unknown == passed(["n0"], {"new": "the extender's watch does not know this node yet"})
    assert json.loads(asyncio.run(comes_late())[1]) == passed(["n0", "new"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the request is no JSON"),
        (b"{}", "the request has no Pod"),
        (b'{"Pod":{"metadata":{"name":7}},"NodeNames":["n0"]}', "str"),
        (json.dumps({"Pod": make_pod("a", cpu="x"), "NodeNames": ["n0"]}).encode(), "pod a"),
    ],
)
def test_what_cannot_be_read_is_an_error_in_the_answer_and_the_server_lives_on(body, said):
    bench = Bench()
    status, answer = bench.ask("/filter", body)
    assert status == 200
    assert said in json.loads(answer)["Error"]
    assert bench.filter(make_pod("a")) == passed(bench.names)


# --- choose ----------------------------------------------------------------------------------------------------------


def test_the_chosen_node_is_the_only_one_in_the_answer_and_holds_the_pod():
    bench = Bench("best-fit")
    bench.put(make_pod("old", cpu="8", node="n1"))
    assert bench.verb("choose", make_pod("a")) == passed(["n1"])
    assert bench.verb("choose", make_pod("b"), ["n2", "n0"]) == passed(["n0"])
    assert free_cpu(bench) == {"n0": 15000, "n1": 7000, "n2": 16000}
    # Asked again, a pod has not got its node.
    assert bench.verb("choose", make_pod("b"), ["n2"]) == passed(["n2"])
    assert free_cpu(bench) == {"n0": 16000, "n1": 7000, "n2": 15000}


def test_where_nothing_can_be_chosen_the_reasons_are_those_of_the_filters():
    bench = Bench()
    assert bench.verb("choose", make_pod("a", cpu="99")) == passed(
        [], dict.fromkeys(bench.names, "have too little cpu")
    )
    unknown = bench.verb("choose", make_pod("b"), ["new"])
    assert unknown == passed([], {"new": "the extender's watch does not know this node yet"})
    assert bench.verb("choose", make_pod("c"), []) == passed([])


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_of_any_nodes_the_chosen_one_is_what_decide_decides_where_there_are_no_others(data):
    policy = data.draw(st.sampled_from(["least-allocated", "best-fit", "kubernetes", "balanced"]))
    bench = Bench(policy, nodes=6)
    for at in range(data.draw(st.integers(1, 10))):
        pod = make_pod(f"p{at}", cpu=data.draw(st.sampled_from(["1", "3", "7"])))
        asked = data.draw(st.lists(st.sampled_from(bench.names), min_size=1, unique=True))
        alone = Bench(policy, nodes=0)
        alone.cache.handler("Node").replace([make_node(name) for name in asked])
        for held in bench.cache.table.placed.values():
            name = bench.cache.table.names[held.row]
            if name in asked:
                cpu = f"{held.pod.spec.cpu_milli}m"
                alone.put(make_pod(str(held.pod.uid).removeprefix("uid-"), cpu=cpu, node=name))
        bare = Pod(f"default/p{at}", alone.cache.table.shape(pod_spec_of(pod)), uid=f"uid-p{at}")
        expected = decide(bare, alone.cache.table, alone.profile)
        chosen = bench.verb("choose", pod, asked)["NodeNames"]
        assert chosen == ([] if isinstance(expected, NoFit) else [expected.node])


# --- prioritize ------------------------------------------------------------------------------------------------------


def test_the_node_that_decide_would_choose_stands_alone_at_the_top():
    bench = Bench(nodes=4)
    bench.put(make_pod("old", cpu="8", node="n0"))
    # n1, n2 and n3 share the best total; the lowest rank is chosen, as by decide.
    assert bench.scores(make_pod("a")) == {"n0": 0, "n1": 10, "n2": 5, "n3": 5}
    assert Bench(nodes=2, weight=1).scores(make_pod("a")) == {"n0": 10, "n1": 10}


def test_nodes_that_do_not_pass_any_more_score_nothing():
    bench = Bench(weight=1)
    bench.put(make_pod("old", cpu="16", node="n0"))
    assert bench.scores(make_pod("a")) == {"n0": 0, "n1": 10, "n2": 10}
    assert bench.scores(make_pod("b", cpu="99")) == dict.fromkeys(bench.names, 0)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.booleans())
def test_scores_are_in_the_order_of_the_totals(numbers, decides):
    totals = np.array(numbers, dtype=float)
    best = int(totals.argmax()) if decides else None
    scores = to_scores(totals, best)
    assert scores.min() >= 0
    assert scores.max() == 10
    for at, total in enumerate(totals):
        for other in range(len(totals)):
            if total > totals[other]:
                assert scores[at] >= scores[other]
    # The best are told apart, even among hundreds.
    if best is not None:
        assert (scores == 10).nonzero()[0].tolist() == [best]
    top = sorted(set(numbers))[-8:]
    assert len({int(scores[numbers.index(total)]) for total in top if best is None}) == (0 if decides else len(top))


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_what_the_extender_puts_on_top_is_what_decide_decides(data):
    policy = data.draw(st.sampled_from(["least-allocated", "most-allocated", "best-fit", "kubernetes"]))
    bench = Bench(policy, nodes=5)
    for at in range(data.draw(st.integers(1, 12))):
        pod = make_pod(f"p{at}", cpu=data.draw(st.sampled_from(["1", "3", "7"])))
        cached = Pod("p", bench.cache.table.shape(pod_spec_of(pod)), uid="other")
        expected = decide(cached, bench.cache.table, bench.profile)
        feasible = bench.filter(pod)["NodeNames"]
        if isinstance(expected, NoFit):
            assert feasible == []
            continue
        if len(feasible) > 1:
            scores = bench.scores(pod, feasible)
            assert max(scores, key=scores.get) == expected.node
        placed = bench.cache.table.placed[f"uid-p{at}"]
        assert bench.cache.table.names[placed.row] == expected.node


# --- assumed pods ----------------------------------------------------------------------------------------------------


def free_cpu(bench):
    return {name: int(bench.cache.table.free[row, 0]) for name, row in bench.cache.table.row_of.items()}


def test_a_pod_holds_its_room_from_the_answer_on_until_something_else_is_known():
    bench = Bench(nodes=2)
    history = []
    bench.filter(make_pod("a"))
    bench.scores(make_pod("a"))
    history.append(("chosen", free_cpu(bench)))
    bench.put(make_pod("a"))  # an event from before
    history.append(("late event", free_cpu(bench)))
    bench.filter(make_pod("a"))
    history.append(("asked again", free_cpu(bench)))
    bench.scores(make_pod("a"))
    bench.cache.handler("Pod").apply("MODIFIED", make_pod("a", node="n1", version="2"))
    history.append(("bound elsewhere", free_cpu(bench)))
    bench.now_s = 1000.0
    bench.filter(make_pod("b"), ["n0"])
    history.append(("one node for b", free_cpu(bench)))
    bench.now_s = 2000.0
    bench.filter(make_pod("c"))
    history.append(("b never bound", free_cpu(bench)))
    assert history == [
        ("chosen", {"n0": 15000, "n1": 16000}),
        ("late event", {"n0": 15000, "n1": 16000}),
        ("asked again", {"n0": 16000, "n1": 16000}),
        ("bound elsewhere", {"n0": 16000, "n1": 15000}),
        ("one node for b", {"n0": 15000, "n1": 15000}),
        ("b never bound", {"n0": 16000, "n1": 15000}),
    ]


def test_with_a_small_weight_nobody_knows_the_node_so_nothing_is_assumed():
    bench = Bench(nodes=2, weight=1)
    bench.filter(make_pod("a"))
    bench.scores(make_pod("a"))
    assert free_cpu(bench) == {"n0": 16000, "n1": 16000}


# --- preempt and bind ------------------------------------------------------------------------------------------------


def test_preemption_keeps_the_nodes_that_pass_once_the_victims_are_gone():
    bench = Bench()
    bench.put(make_pod("x", cpu="10", node="n0"), make_pod("y", cpu="6", node="n0"), make_pod("z", cpu="9", node="n1"))
    before = free_cpu(bench)
    victims = {
        "n0": {"Pods": [{"UID": "uid-y"}], "NumPDBViolations": 0},
        "n1": {"Pods": [{"UID": "uid-z"}], "NumPDBViolations": 1},
        "gone": {"Pods": [], "NumPDBViolations": 0},
    }
    asked = {"Pod": make_pod("a", cpu="8"), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    answer = json.loads(bench.ask("/preempt", json.dumps(asked).encode())[1])
    assert answer == {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-z"}], "NumPDBViolations": 1}}}
    assert free_cpu(bench) == before


def test_a_pod_with_resource_claims_is_refused_on_every_node():
    claims = [{"name": "gpu", "resourceClaimName": "shared-gpu"}]
    answer = Bench("fgd").filter(make_pod("p", resourceClaims=claims))
    why = 'waiting for resourceclaim "shared-gpu", and Foresail allocates none'
    assert (answer["NodeNames"], {str(said) for said in answer["FailedNodes"].values()}) == ([], {why})


def test_a_bind_carries_the_devices_and_a_failed_one_gives_them_back():
    bound = []

    async def bind(pod, node, devices):
        bound.append((*pod, node, devices))
        if pod.name == "b":
            raise InputError("409 already bound")

    bench = Bench("best-fit", nodes=1, gpus=2, bind=bind)
    answers = []
    for name in ("a", "b", "c"):
        bench.filter(make_pod(name, annotations=SHARE))
        asked = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": "n0"}
        answers.append(json.loads(bench.ask("/bind", json.dumps(asked).encode())[1]))
    assert answers == [{"Error": ""}, {"Error": "409 already bound"}, {"Error": ""}]
    assert bound == [(f"uid-{name}", "default", name, "n0", (0,)) for name in ("a", "b", "c")]
    assert bench.cache.table.gpu_free[0].tolist() == [200, 1000]


def test_a_bind_whose_body_was_cut_off_is_not_carried_out():
    bound = []

    async def bind(*asked):
        bound.append(asked)

    bench = Bench("best-fit", nodes=1, bind=bind)
    bench.filter(make_pod("a"))
    asked = {"PodName": "a", "PodNamespace": "default", "PodUID": "uid-a", "Node": "n0"}
    messages = [
        {"type": "http.request", "body": json.dumps(asked).encode(), "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return messages.pop(0)

    async def send(_message): ...

    asyncio.run(bench.app({"type": "http", "method": "POST", "path": "/bind"}, receive, send))
    assert bound == []


def test_binding_is_not_served_unless_asked_for():
    status, body = Bench().ask("/bind", b"{}")
    assert status == 404
    assert body == (
        b"nothing is served at /bind; paths are /filter, /choose, /prioritize, /preempt, /healthz, /readyz, /metrics\n"
    )


# --- policies that fail ----------------------------------------------------------------------------------------------


class Broken:
    row_wise = True

    def __init__(self):
        self.answer = np.nan

    def score(self, pod, nodes):
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.full(len(nodes), self.answer)


@pytest.mark.parametrize("answer", [np.nan, ValueError("no idea")])
def test_a_policy_that_fails_leaves_the_choice_to_others_and_is_counted(answer):
    broken = Broken()
    broken.answer = answer
    bench = Bench(Profile("broken", filters=[], scores=[UsedScore("broken", broken)], devices=LeastSufficient()))
    if isinstance(answer, Exception):
        assert "no idea" in bench.filter(make_pod("a"))["Error"]
    assert bench.scores(make_pod("a")) == dict.fromkeys(bench.names, 0)
    broken.answer = 1.0
    bench.profile.lessons += 1
    assert bench.scores(make_pod("b")) == {"n0": 10, "n1": 0, "n2": 0}
    figures = bench.figures()
    assert figures['foresail_extender_requests_total{result="policy_error",verb="prioritize"}'] == 1
    assert figures['foresail_extender_requests_total{result="ok",verb="prioritize"}'] == 1


def test_health_readiness_and_wrong_paths():
    bench = Bench()
    bench.ready = False
    assert bench.ask("/healthz", method="GET") == (200, b"ok\n")
    assert bench.ask("/readyz", method="GET") == (503, b"the watches are not in sync yet\n")
    assert "not in sync yet" in bench.filter(make_pod("a"))["Error"]
    bench.ready = True
    assert bench.ask("/readyz", method="GET") == (200, b"ok\n")
    bench.problem = "Pod: GET /api/v1/pods: 401 Unauthorized"
    assert bench.ask("/readyz", method="GET") == (503, b"Pod: GET /api/v1/pods: 401 Unauthorized\n")
    assert not bench.filter(make_pod("a"))["Error"]  # what is known is still the best answer there is
    assert bench.ask("/filter", method="GET")[0] == 405
    assert bench.figures()["foresail_extender_nodes"] == 3


# --- samples, learning -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "passing", "count", "warned"),
    [
        (420, 1000, 1000, True),
        (100, 200, 200, True),
        (1000, 1000, 1000, False),
        (420, 420, 1000, False),
        (50, 90, 90, False),
    ],
)
def test_a_sample_of_the_nodes_is_told_once(asked, passing, count, warned):
    watch = SampleWatch()
    for _ in range(3):
        watch.look(asked, passing, count)
    assert watch.warned is warned


@pytest.mark.parametrize("sampled", [False, True])
def test_an_extender_that_is_set_up_for_samples_does_not_warn_of_them(sampled):
    bench = Bench("best-fit", nodes=150, sampled=sampled)
    with capture_logs() as told:
        for at in range(5):
            names = [f"n{(40 * at + step) % 150}" for step in range(100)]
            (chosen,) = bench.verb("choose", make_pod(f"p{at}"), names)["NodeNames"]
            assert chosen in names
    assert [one["event"] for one in told] == ([] if sampled else ["kube_scheduler_sends_a_sample"])


def test_a_node_far_down_the_order_is_found_too():
    bench = Bench("best-fit", nodes=40)
    bench.put(*(make_pod(f"old-{at}", cpu="2", node=f"n{at}") for at in range(39)))
    assert bench.verb("choose", make_pod("a"), ["n39"]) == passed(["n39"])


def test_the_pods_of_a_cluster_are_a_workload_to_learn_from():
    bench = Bench()
    bench.put(make_pod("a"), make_pod("b"), make_pod("c", cpu="2"))
    workload = workload_of(bench.cache)
    assert sorted(spec.cpu_milli for spec in map(workload.spec, range(len(workload)))) == [1000, 1000, 2000]


# --- kube-scheduler's configuration ----------------------------------------------------------------------------------

CHOOSING = Wanted(ServerSettings())
SCORING = Wanted(ServerSettings(), weight=1000)


def test_the_printed_configuration_passes_its_own_check(tmp_path):
    path = tmp_path / "kube.yaml"
    secure = ServerSettings("10.0.0.5", 443, tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert configuration(CHOOSING)["extenders"][0].keys().isdisjoint({"prioritizeVerb", "weight"})
    for wanted in (CHOOSING, SCORING, Wanted(secure, binds=True, prefix="/foresail", weight=7)):
        path.write_text(configuration_text(wanted))
        assert check_file(path, wanted) == []
    assert configuration(Wanted(secure, binds=True))["extenders"][0]["tlsConfig"].keys() == {
        "caFile",
        "certFile",
        "keyFile",
    }


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("nodeCacheCapable", False, "extenders[0].nodeCacheCapable is false: whole nodes are sent"),
        ("weight", 0, "extenders[0].weight is 0: the scores do not count; set it to 1000, as --weight says"),
        ("weight", 5, "extenders[0].weight is 5: the extender is started with --weight 1000"),
        ("filterVerb", "/filter", "extenders[0].filterVerb is '/filter': the profile is not asked to filter"),
        ("prioritizeVerb", None, "extenders[0].prioritizeVerb not given: the profile is not asked to prioritize"),
        ("preemptVerb", "preemption", "extenders[0].preemptVerb is 'preemption': nothing is served there"),
        ("bindVerb", "bind", "extenders[0].bindVerb is 'bind': this extender does not bind"),
        ("ignorable", True, "extenders[0].ignorable is true: when the extender is away"),
        ("httpTimeout", "100ms", "extenders[0].httpTimeout is '100ms': answers about nodes"),
        ("httpTimeout", "soon", "extenders[0].httpTimeout is 'soon'"),
        ("enableHTTPS", True, "extenders[0].enableHTTPS is true: the extender speaks plain HTTP; set it to false"),
        (
            "urlPrefix",
            "http://other:1",
            "extenders[].urlPrefix is ['http://other:1']: none of them is http://127.0.0.1",
        ),
    ],
)
def test_a_configuration_that_mis_scores_is_told_with_field_value_and_remedy(field, value, said):
    stated = configuration(SCORING)
    stated["extenders"][0][field] = value
    (finding,) = check(stated, SCORING)
    assert str(finding).startswith(said)


def test_who_chooses_is_neither_asked_for_scores_nor_filtered_after():
    stated = configuration(CHOOSING)
    stated["extenders"][0] |= {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 3}
    stated["extenders"].append({"urlPrefix": "http://other", "filterVerb": "f"})
    assert [(finding.field, finding.why) for finding in check(stated, CHOOSING)] == [
        ("extenders[0].filterVerb", "the policy is not asked which node to take"),
        ("extenders[0].prioritizeVerb", "scores are asked for, but --weight is not given"),
        (
            "extenders[1].filterVerb",
            "that extender is asked after this one, and may refuse the only node that is left",
        ),
    ]


def test_samples_and_ignorable_neighbours_are_told_too():
    stated = configuration(SCORING)
    stated["percentageOfNodesToScore"] = 50
    stated["profiles"] = [{"percentageOfNodesToScore": 20}]
    stated["extenders"].append({"urlPrefix": "http://other", "ignorable": True, "prioritizeVerb": "p", "weight": 3})
    assert [(finding.field, finding.value) for finding in check(stated, SCORING)] == [
        ("percentageOfNodesToScore", 50),
        ("profiles[0].percentageOfNodesToScore", 20),
        ("extenders[1].ignorable", True),
    ]
    assert other_scores_most(stated, SCORING) == 1500 + 300


def test_an_extender_that_is_set_up_for_samples_leaves_their_size_to_the_configuration():
    wanted = Wanted(ServerSettings(), sampled=True)
    stated = configuration(wanted)
    assert "percentageOfNodesToScore" not in stated
    assert check(stated, wanted) == check(stated | {"percentageOfNodesToScore": 30}, wanted) == []
    (finding,) = check(stated, CHOOSING)
    assert finding.field == "percentageOfNodesToScore"
    assert "--sample" in finding.remedy


# --- where it listens ------------------------------------------------------------------------------------------------


def test_addresses():
    assert parse_address("127.0.0.1:8888") == ("127.0.0.1", 8888)
    assert parse_address("[::1]:0") == ("::1", 0)
    assert parse_address(":80") == ("0.0.0.0", 80)  # noqa: S104 - only parsed
    for wrong in ("8888", "host:", "host:port", "host:99999"):
        with pytest.raises(OptionError, match="write host and port"):
            parse_address(wrong)


def test_beyond_loopback_only_known_clients_are_let_in(tmp_path):
    pem = tmp_path / "some.pem"
    pem.touch()
    ServerSettings("127.0.0.1").check()
    ServerSettings("::1").check()
    ServerSettings("10.0.0.5", 1, pem, pem, pem).check()
    for refused, said in (
        (ServerSettings("192.0.2.1"), "give --tls-cert, --tls-key and --client-ca"),
        (ServerSettings("10.0.0.5", 1, pem, pem), "give --tls-cert, --tls-key and --client-ca"),
        (ServerSettings("127.0.0.1", 1, pem), "--tls-cert is given without --tls-key"),
        (ServerSettings("127.0.0.1", 1, client_ca=pem), "--client-ca is given without"),
        (ServerSettings("127.0.0.1", 1, pem, tmp_path / "gone"), "there is no such file"),
    ):
        with pytest.raises(OptionError, match=said):
            refused.check()


def test_a_port_that_is_taken_is_named():
    with listen(ServerSettings(port=0)) as taken, pytest.raises(ForesailError, match="give another --address"):
        listen(ServerSettings(port=taken.getsockname()[1]))
