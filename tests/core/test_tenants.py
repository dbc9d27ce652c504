"""Counts of pods by kind: the same whether they were kept up to date or made afresh."""

from hypothesis import given
from hypothesis import strategies as st

from foresail.core.kubernetes import ClaimVolume, HostPort, KubernetesPod, PodTerm, Selector
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable

TERM = PodTerm("zone", Selector(), ("default",))
SPECS = [
    PodSpec(cpu_milli=1, memory_bytes=2),
    PodSpec(labels=(("app", "web"),)),
    PodSpec(labels=(("app", "web"),), kubernetes=KubernetesPod(terminating=True, held_request=(5, 6))),
    PodSpec(kubernetes=KubernetesPod(host_ports=(HostPort(80),), affinity=(TERM,))),
    PodSpec(namespace="ns", kubernetes=KubernetesPod(claims=(ClaimVolume("c"),), anti_affinity=(TERM,))),
]


def make_table():
    return NodeTable([NodeSpec(f"n{row}", 100, 100) for row in range(3)])


def shown(table):
    tenants = table.tenants
    return tenants.labels, tenants.ports, tenants.volumes, tenants.terms, tenants.held.tolist()


@given(st.lists(st.tuples(st.integers(0, len(SPECS) - 1), st.integers(0, 2), st.booleans()), max_size=30))
def test_counts_are_the_same_however_they_came_about(steps):
    kept, afresh = make_table(), make_table()
    assert shown(kept) == ({}, {}, {}, {}, [[0, 0]] * 3)
    for number, (which, row, leaves) in enumerate(steps):
        for table in (kept, afresh):
            table.assume(table.pod(str(number), SPECS[which]), Placement(row, f"n{row}"))
            if leaves:
                table.forget(str(number // 2) if str(number // 2) in table.placed else str(number))
    assert shown(kept) == shown(afresh)
    for name in list(kept.placed):
        kept.forget(name)
    assert shown(kept) == ({}, {}, {}, {}, [[0, 0]] * 3)


def test_a_table_that_nobody_asks_keeps_no_counts():
    table = make_table()
    table.assume(table.pod("a", SPECS[1]), Placement(0, "n0"))
    assert table._tenants is None
    assert table.tenants.count(table.tenants.labels.values()).tolist() == [1, 0, 0]
