import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from foresail.core.decide import decide
from foresail.core.kubernetes import HostPort, KubernetesPod, PodTerm, Requirement, Selector
from foresail.core.model import Nodes, NoFit, Placement, Pod
from foresail.core.objects import DisruptionBudget
from foresail.core.preempting import Preempting
from foresail.core.preemption import find_victims
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import NodeSpec, PodSpec, Taint
from foresail.core.table import NodeTable
from foresail.errors import PolicyError
from foresail.policies.gpu_sharing.best_fit import BestFit
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.policies.profiles.load import load_profile

GIB = 2**30
LEAVING = KubernetesPod(terminating=True)


def make_cluster(*nodes: NodeSpec) -> NodeTable:
    return NodeTable(list(nodes))


def node(name: str, cpu: int = 10, **more: object) -> NodeSpec:
    return NodeSpec(name, cpu, GIB, **more)  # type: ignore[arg-type]


def stand(
    table: NodeTable, name: str, where: str, spec: PodSpec, *, devices: tuple[int, ...] = (), **more: object
) -> Pod:
    pod = Pod(name, table.shape(spec), **more)  # type: ignore[arg-type]
    table.assume(pod, Placement(table.row_of[where], where, devices))
    return pod


def names(found) -> list[str]:
    return [held.pod.name for held in found.victims]


def labelled(app: str, cpu: int = 4) -> PodSpec:
    return PodSpec(cpu_milli=cpu, labels=(("app", app),))


def budget(app: str, allowed: int, disrupted: frozenset[str] = frozenset()) -> DisruptionBudget:
    return DisruptionBudget("default", app, Selector((Requirement("app", "In", (app,)),)), allowed, disrupted)


def state(table: NodeTable) -> tuple:
    columns = (table.free, table.gpu_free, table.gpu_pods, table.pod_count, table.tenants.held)
    tenants = table.tenants
    return (
        [column.tolist() for column in columns],
        list(table.placed.items()),
        [tenants.labels, tenants.ports, tenants.volumes, tenants.terms],
        table._groups,
    )


# --- which node, which victims ---------------------------------------------------------------------------------------


def test_only_as_many_go_as_must_and_the_least_important_of_them():
    table = make_cluster(node("a"))
    stand(table, "old", "a", PodSpec(cpu_milli=4), arrival_s=1)
    stand(table, "young", "a", PodSpec(cpu_milli=4), arrival_s=2)
    found = find_victims(Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=1), table, load_profile("best-fit"))
    assert (found.node, names(found), found.violations) == ("a", ["young"], 0)


def test_pods_of_the_same_priority_are_left_alone():
    table = make_cluster(node("a"))
    stand(table, "peer", "a", PodSpec(cpu_milli=8), priority=1)
    assert find_victims(Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=1), table, load_profile("fgd")) is None


def test_the_node_with_the_least_important_victims_is_chosen():
    table = make_cluster(node("a"), node("b"), node("c"))
    stand(table, "high", "a", PodSpec(cpu_milli=8), priority=5)
    stand(table, "low", "b", PodSpec(cpu_milli=8), priority=1)
    stand(table, "lower", "c", PodSpec(cpu_milli=8), priority=1, arrival_s=3)
    pod = Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9)
    # b and c would lose the same; the pod on c came later.
    assert names(find_victims(pod, table, load_profile("best-fit"))) == ["lower"]
    table.forget("lower")
    stand(table, "lower", "c", PodSpec(cpu_milli=8), priority=9, arrival_s=3)
    assert names(find_victims(pod, table, load_profile("best-fit"))) == ["low"]


def test_equal_harm_goes_to_the_lowest_rank():
    table = NodeTable([node("a"), node("b")], rank=[1, 0])
    for name in "ab":
        stand(table, f"on-{name}", name, PodSpec(cpu_milli=8))
    found = find_victims(Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9), table, load_profile("best-fit"))
    assert found.node == "b"


def test_a_budget_sends_the_search_to_another_node():
    table = make_cluster(node("a"), node("b"))
    stand(table, "guarded", "a", labelled("web", 8))
    stand(table, "free", "b", PodSpec(cpu_milli=8), priority=3)
    pod = Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9)
    assert find_victims(pod, table, load_profile("best-fit")).node == "a"
    table.objects.budgets["default", "web"] = budget("web", 0)
    assert find_victims(pod, table, load_profile("best-fit")).node == "b"
    table.objects.budgets["default", "web"] = budget("web", 0, frozenset({"guarded"}))
    assert find_victims(pod, table, load_profile("best-fit")).node == "a"


def test_those_whose_budget_would_be_violated_are_put_back_first():
    table = make_cluster(node("a", 12))
    stand(table, "guarded", "a", labelled("web"), priority=0)
    stand(table, "free", "a", PodSpec(cpu_milli=4), priority=5)
    table.objects.budgets["default", "web"] = budget("web", 0)
    pod = Pod("p", table.shape(PodSpec(cpu_milli=8)), priority=9)
    found = find_victims(pod, table, load_profile("best-fit"))
    assert (names(found), found.violations) == (["free"], 0)
    table.objects.budgets["default", "web"] = budget("web", 1)
    found = find_victims(pod, table, load_profile("best-fit"))
    assert (names(found), found.violations) == (["guarded"], 0)


def test_what_removal_cannot_cure_is_not_searched():
    table = make_cluster(node("tainted", taints=(Taint("gone"),)), node("cordoned", unschedulable=True), node("down"))
    table.set_down(2, down=True)
    for name in table.names:
        stand(table, f"on-{name}", name, PodSpec(cpu_milli=8))
    pod = Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9)
    assert find_victims(pod, table, load_profile("best-fit")) is None
    assert find_victims(pod, table, load_profile("kubernetes")) is None


def test_victims_are_found_for_ports_and_anti_affinity_too():
    table = make_cluster(
        node("a", labels=(("kubernetes.io/hostname", "a"),)), node("b", labels=(("kubernetes.io/hostname", "b"),))
    )
    term = PodTerm("kubernetes.io/hostname", Selector((Requirement("app", "In", ("web",)),)), ("default",))
    stand(table, "port", "a", PodSpec(cpu_milli=1, kubernetes=KubernetesPod(host_ports=(HostPort(80),))), priority=1)
    stand(table, "bystander", "a", PodSpec(cpu_milli=1))
    stand(table, "web", "b", labelled("web", 1), priority=2)
    asks = PodSpec(cpu_milli=1, kubernetes=KubernetesPod(host_ports=(HostPort(80),), anti_affinity=(term,)))
    pod = Pod("p", table.shape(asks), priority=9)
    assert names(find_victims(pod, table, load_profile("kubernetes"))) == ["port"]
    port = table.forget("port").pod
    stand(table, "port", "a", port.spec, priority=9)
    assert names(find_victims(pod, table, load_profile("kubernetes"))) == ["web"]


def test_devices_of_victims_become_free():
    table = make_cluster(NodeSpec("a", 10, GIB, 2))
    half, whole = (PodSpec(cpu_milli=1, gpu_count=1, gpu_milli=milli) for milli in (500, 1000))
    stand(table, "important", "a", half, devices=(0,), priority=9)
    stand(table, "share", "a", half, devices=(1,))
    stand(table, "other-share", "a", half, devices=(0,))
    found = find_victims(Pod("p", table.shape(whole), priority=5), table, load_profile("best-fit"))
    assert (names(found), found.devices) == (["share"], (1,))


def test_victims_that_leave_already_are_not_evicted_again():
    table = make_cluster(node("a"))
    stand(table, "leaving", "a", PodSpec(cpu_milli=4, kubernetes=LEAVING))
    stand(table, "staying", "a", PodSpec(cpu_milli=4))
    found = find_victims(Pod("p", table.shape(PodSpec(cpu_milli=9)), priority=9), table, load_profile("best-fit"))
    assert sorted(names(found)) == ["leaving", "staying"]
    assert [held.pod.name for held in found.evictions] == ["staying"]


def test_a_nominated_pod_waits_for_those_who_leave():
    table = make_cluster(node("a"), node("b"))
    stand(table, "low", "a", PodSpec(cpu_milli=8, kubernetes=LEAVING))
    stand(table, "low-too", "b", PodSpec(cpu_milli=8))
    pod, profile = Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9), load_profile("best-fit")
    preemption = Preempting()
    preemption.nominate(pod, "a")
    assert preemption.plan(pod, table, profile) is None
    # Once its node can no longer be had, it looks for another.
    table.set_unschedulable(0, unschedulable=True)
    assert preemption.plan(pod, table, profile).node == "b"
    table.set_unschedulable(0, unschedulable=False)
    preemption.nominate(pod, "b", victims=["low-too"])
    assert preemption.plan(pod, table, profile) is None
    table.forget("low-too")
    assert isinstance(decide(pod, table, profile), Placement)


def test_a_filter_that_fails_leaves_the_table_as_it_was():
    class Moody:
        row_wise = True
        reason = "are out of mood"
        questions = 0

        def passes(self, _pod: Pod, nodes: Nodes) -> np.ndarray:
            self.questions += 1
            if self.questions > 3:
                raise RuntimeError("enough")
            return np.ones(len(nodes), dtype=np.bool_)

    table = make_cluster(node("a"))
    for number in range(3):
        stand(table, f"low-{number}", "a", PodSpec(cpu_milli=3))
    filters = [("fit", Fit()), ("moody", Moody())]
    profile = Profile("moody", filters=filters, scores=[UsedScore("best-fit", BestFit())], devices=LeastSufficient())
    before = state(table)
    with pytest.raises(PolicyError, match="enough"):
        find_victims(Pod("p", table.shape(PodSpec(cpu_milli=3)), priority=9), table, profile)
    assert state(table) == before


def test_enough_candidates_are_enough():
    table = make_cluster(*(node(f"node-{number:04}") for number in range(300)))
    for number, name in enumerate(table.names):
        stand(table, f"low-{number}", name, PodSpec(cpu_milli=8), arrival_s=number)
    pod = Pod("p", table.shape(PodSpec(cpu_milli=6)), priority=9)
    # The latest of the first hundred; not of all, which would cost too much on a large cluster.
    assert find_victims(pod, table, load_profile("best-fit")).node == "node-0099"


# --- nominated pods --------------------------------------------------------------------------------------------------


def test_a_nominated_pod_holds_its_node_against_no_more_priority():
    table = make_cluster(node("a"), node("b", 6))
    profile, preemption = load_profile("least-allocated"), Preempting()
    nominated = Pod("nominated", table.shape(PodSpec(cpu_milli=8)), priority=5)
    preemption.nominate(nominated, "a")
    answer = preemption.holds.deciding()

    def goes_to(priority: int, cpu: int) -> str:
        outcome = answer(Pod("p", table.shape(PodSpec(cpu_milli=cpu)), priority=priority), table, profile)
        return "nowhere" if isinstance(outcome, NoFit) else outcome.node

    before = state(table)
    assert [goes_to(5, 4), goes_to(6, 4), goes_to(5, 2), goes_to(5, 7)] == ["b", "a", "a", "nowhere"]
    assert answer(nominated, table, profile).node == "a"
    assert state(table) == before
    preemption.withdraw("nominated")
    assert goes_to(5, 7) == "a"


def test_a_nominated_pod_takes_its_node_though_another_is_better():
    table = make_cluster(node("a"), node("b", 99))
    preemption, pod = Preempting(), Pod("p", table.shape(PodSpec(cpu_milli=8)))
    assert preemption.holds.deciding()(pod, table, load_profile("least-allocated")).node == "b"
    preemption.nominate(pod, "a")
    assert preemption.holds.deciding()(pod, table, load_profile("least-allocated")).node == "a"


def test_more_priority_takes_a_nomination_away():
    table = make_cluster(node("a"))
    low, high = (Pod(name, table.shape(PodSpec(cpu_milli=8)), priority=at) for at, name in enumerate(("low", "high")))
    preemption = Preempting()
    assert preemption.nominate(low, "a") == []
    assert preemption.nominate(high, "a") == [low]
    assert (preemption.nominated("low"), preemption.nominated("high").node) == (None, "a")


def test_company_that_is_only_nominated_does_not_count():
    table = make_cluster(node("a", labels=(("zone", "x"),)))
    term = PodTerm("zone", Selector((Requirement("app", "In", ("web",)),)), ("default",))
    preemption = Preempting()
    preemption.nominate(Pod("web", table.shape(labelled("web"))), "a")
    pod = Pod("p", table.shape(PodSpec(cpu_milli=1, kubernetes=KubernetesPod(affinity=(term,)))))
    assert isinstance(preemption.holds.deciding()(pod, table, load_profile("kubernetes")), NoFit)


# --- whatever the cluster --------------------------------------------------------------------------------------------

APPS = ("web", "db", "")
PORTS = ((), (), (HostPort(80),))


@st.composite
def clusters(draw):
    """A table with pods on it, and a pod that waits."""
    hostname = "kubernetes.io/hostname"
    count = draw(st.integers(1, 4))
    table = NodeTable(
        [
            NodeSpec(
                f"n{at}", 10, GIB, draw(st.integers(0, 2)), "", draw(st.sampled_from((0, 4))), ((hostname, f"n{at}"),)
            )
            for at in range(count)
        ]
    )
    for number in range(draw(st.integers(3, 14))):
        app = draw(st.sampled_from(APPS))
        row = draw(st.integers(0, count - 1))
        milli = draw(st.sampled_from((0, 500, 1000)))
        device = draw(st.integers(0, table.gpu_free.shape[1] - 1))
        cpu = draw(st.integers(1, 6))
        milli = milli if table.gpu_free[row, device] >= milli else 0
        if table.free[row, 0] < cpu or (table.max_pods[row] and table.pod_count[row] >= table.max_pods[row]):
            continue
        spec = PodSpec(
            cpu_milli=cpu,
            gpu_count=int(milli > 0),
            gpu_milli=milli,
            labels=(("app", app),) if app else (),
            kubernetes=KubernetesPod(host_ports=draw(st.sampled_from(PORTS))),
        )
        stand(
            table,
            f"p{number}",
            table.names[row],
            spec,
            devices=(device,) if milli else (),
            priority=draw(st.integers(-1, 2)),
            arrival_s=draw(st.integers(0, 3)),
        )
    for app in APPS[:2]:
        if draw(st.booleans()):
            table.objects.budgets["default", app] = budget(app, draw(st.integers(0, 2)))
    milli = draw(st.sampled_from((0, 500, 1000)))
    away = Selector((Requirement("app", "In", ("web",)),))
    asks = PodSpec(
        cpu_milli=draw(st.integers(3, 10)),
        gpu_count=int(milli > 0),
        gpu_milli=milli,
        kubernetes=KubernetesPod(
            host_ports=draw(st.sampled_from(PORTS)),
            anti_affinity=(PodTerm(hostname, away, ("default",)),) if draw(st.booleans()) else (),
        ),
    )
    return table, Pod("waiting", table.shape(asks), priority=draw(st.integers(1, 3)))


def passes(pod: Pod, table: NodeTable, profile: Profile, row: int) -> bool:
    return not any(used.refuses(pod, Nodes(table, np.array([row])))[0] for used in profile.filters)


def violations_of(lower: list[Pod], table: NodeTable) -> set[str]:
    """Whose budget would be violated if all of them went, the most important counted first."""
    found = set()
    for one in table.objects.budgets.values():
        meant = [pod for pod in lower if one.selector.selects(dict(pod.spec.labels))]
        found |= {pod.name for pod in meant[one.allowed :]}
    return found


@settings(max_examples=300, deadline=None)
@given(clusters(), st.sampled_from(("best-fit", "kubernetes")))
def test_those_who_go_are_lower_and_needed_and_budgets_hold_where_they_can(cluster, policy):
    table, pod = cluster
    profile = load_profile(policy)
    assume(isinstance(decide(pod, table, profile), NoFit))
    before = state(table)
    found = find_victims(pod, table, profile)
    assert state(table) == before
    candidates = {row: _expected(pod, table, profile, row) for row in range(table.count)}
    harms = {row: harm for row, (_, harm) in candidates.items() if harm is not None}
    assert state(table) == before
    event(f"{0 if found is None else len(found.victims)} victims, {len(harms)} candidates")
    if found is None:
        assert not harms
        return
    assert all(held.pod.priority < pod.priority and held.row == found.row for held in found.victims)
    assert set(names(found)) == candidates[found.row][0]
    assert harms[found.row] == min(harms.values()) == found.harm
    assert found.row == min(row for row, harm in harms.items() if harm == found.harm)
    for held in found.victims:
        table.forget(held.pod.uid)
    assert passes(pod, table, profile, found.row)
    outcome = decide(pod, table, profile)
    assert isinstance(outcome, Placement)
    # No victim can come back without the pod losing its node again.
    for held in found.victims:
        table.assume(held.pod, Placement(held.row, "", held.devices))
        assert not passes(pod, table, profile, found.row)
        table.forget(held.pod.uid)


def _expected(pod: Pod, table: NodeTable, profile: Profile, row: int):
    """Victims and harm on one node by the plain words of the rule, with nothing but assume and forget."""
    lower = [held for held in table.placed.values() if held.row == row and held.pod.priority < pod.priority]
    lower.sort(key=lambda held: (-held.pod.priority, held.pod.arrival_s))
    order = list(table.placed.items())
    for held in lower:
        table.forget(held.pod.uid)
    victims, violations = [], 0
    fits = passes(pod, table, profile, row)
    violating = violations_of([held.pod for held in lower], table)
    for held in [one for one in lower if one.pod.name in violating] + [
        one for one in lower if one.pod.name not in violating
    ]:
        table.assume(held.pod, Placement(row, "", held.devices))
        if fits and not passes(pod, table, profile, row):
            victims.append(held.pod)
            violations += held.pod.name in violating
            table.forget(held.pod.uid)
    for victim in victims:
        held = next(one for one in lower if one.pod is victim)
        table.assume(victim, Placement(row, "", held.devices))
    table.placed.clear()
    table.placed.update(order)
    if not victims:
        return set(), None
    highest = max(victim.priority for victim in victims)
    return {victim.name for victim in victims}, (
        violations,
        highest,
        sum(victim.priority + 2**31 for victim in victims),
        len(victims),
        -min(victim.arrival_s for victim in victims if victim.priority == highest),
    )
