from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traces.workloads import assert_equal

from foresail.core.spec import PodSpec
from foresail.errors import OptionError
from foresail.traces.generate.catalogue import CATALOGUE, CLASS_PODS, NODE_SHAPES
from foresail.traces.generate.generate import ARRIVALS, LONGEST_S, GenerateSettings, generate, largest_remainder


def make(**options):
    return generate(GenerateSettings(**options))


def class_of(spec: PodSpec) -> str:
    if not spec.gpu_count:
        return "cpu"
    return "multi" if spec.gpu_count > 1 else "share" if spec.gpu_milli < 1000 else "one"


@given(st.integers(0, 10**6), st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_largest_remainder_sums_up_and_stays_within_one(total, weights):
    parts = largest_remainder(total, weights)
    assert parts.sum() == total
    exact = np.array(weights) * (total / sum(weights))
    assert (np.abs(parts - exact) < 1 + 1e-6).all()


def test_1213_nodes_are_the_openb_cluster():
    nodes, _ = make(nodes=1213, pods=1)
    assert sum(node.gpu_count for node in nodes) == 6212
    assert sum(node.cpu_milli for node in nodes) == 107_018_000
    assert sum(node.memory_bytes for node in nodes) == 503_828_480 * 2**20
    assert Counter(node.gpu_model for node in nodes) == {
        "G2": 549, "T4": 404, "G3": 39, "P100": 134, "V100M32": 30, "V100M16": 55, "A10": 2
    }  # fmt: skip
    assert sum(weight for *_, weight in NODE_SHAPES) == 1213


def test_8152_pods_have_the_openb_class_mix():
    _, workload = make(pods=8152)
    assert Counter(class_of(workload.spec(index)) for index in range(8152)) == CLASS_PODS


def test_distinct_asks_stay_bounded_however_many_pods():
    assert sum(map(len, CATALOGUE.values())) == 88
    rows = [row[:4] for rows in CATALOGUE.values() for row in rows]
    assert len(set(rows)) == 88
    _, workload = make(nodes=1213, pods=100_000, spec_share=0.4, gangs=0.3)
    assert 88 < len(workload.specs) <= 120
    assert len(set(workload.specs)) == len(workload.specs)


def test_every_ask_fits_an_empty_node():
    nodes, workload = make(nodes=1213, pods=100_000, spec_share=0.5)
    for spec in workload.specs:
        assert any(
            node.cpu_milli >= spec.cpu_milli
            and node.memory_bytes >= spec.memory_bytes
            and node.gpu_count >= spec.gpu_count
            and (not spec.gpu_models or node.gpu_model in spec.gpu_models)
            for node in nodes
        ), spec


def test_lifetimes_have_the_openb_quartiles():
    _, workload = make(pods=200_000)
    median, p75 = np.percentile(workload.duration_s, [50, 75])
    assert median == pytest.approx(540, rel=0.02)
    assert p75 == pytest.approx(1972, rel=0.02)
    assert workload.duration_s.max() <= LONGEST_S
    assert workload.duration_s.min() >= 1


def test_lifetimes_are_capped():
    _, workload = make(pods=2000, median_s=1e6, p75_s=1e7)
    assert workload.duration_s.max() == LONGEST_S


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_the_offered_load_is_as_asked(arrivals):
    nodes, workload = make(pods=50_000, arrivals=arrivals, load_factor=0.5, day_s=3600)
    asked = np.array([spec.gpu_count * spec.gpu_milli for spec in workload.specs])[workload.spec_of]
    capacity = sum(node.gpu_count for node in nodes) * 1000 * workload.arrival_s.max()
    assert (asked @ workload.duration_s) / capacity == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_the_rate_is_as_asked(arrivals):
    _, workload = make(pods=50_000, arrivals=arrivals, rate_per_s=10, day_s=1000)
    assert 50_000 / workload.arrival_s.max() == pytest.approx(10, rel=0.1)


def test_uniform_arrivals_are_evenly_spaced():
    _, workload = make(pods=100, arrivals="uniform", rate_per_s=0.25)
    assert workload.arrival_s.tolist() == [4.0 * index for index in range(100)]


def test_poisson_gaps_vary_as_much_as_they_last():
    _, workload = make(pods=50_000, rate_per_s=0.01)
    gaps = np.diff(workload.arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.03)


def test_diurnal_days_are_busier_at_noon_than_at_midnight():
    _, workload = make(pods=100_000, arrivals="diurnal", rate_per_s=1, day_s=1000, day_swing=0.8)
    hour = workload.arrival_s % 1000 // 100
    counts = np.bincount(hour.astype(int), minlength=10) / 10_000
    phase = np.linspace(0, 1, 11)
    expected = 10 * np.diff(phase - 0.8 * np.sin(2 * np.pi * phase) / (2 * np.pi))
    np.testing.assert_allclose(counts, expected, atol=0.05)


def test_bursts_leave_long_gaps_between_clumps():
    _, workload = make(pods=5000, arrivals="burst", rate_per_s=0.1, burst_pods=100, burst_spread_s=5)
    gaps = np.diff(workload.arrival_s)
    assert np.median(gaps) <= 1
    assert 25 <= (gaps > 60).sum() <= 50


def test_gangs_have_the_share_sizes_and_minimum_asked():
    _, workload = make(pods=10_000, gangs=0.3, gang_sizes=(3, 5), gang_min=0.5, priorities=((0, 1), (9, 1)))
    in_gang = workload.gang_of >= 0
    assert 2995 <= in_gang.sum() <= 3000
    for index, gang in enumerate(workload.gangs):
        members = np.flatnonzero(workload.gang_of == index)
        assert len(members) in {3, 5}
        assert gang.min_members == {3: 2, 5: 3}[len(members)]
        assert np.ptp(members) == len(members) - 1
        for column in (workload.spec_of, workload.arrival_s, workload.duration_s, workload.priority):
            assert len(set(column[members].tolist())) == 1
    mix = Counter(class_of(workload.spec(index)) for index in range(10_000))
    for name, pods in CLASS_PODS.items():
        assert mix[name] == pytest.approx(10_000 * pods / 8152, abs=15)


def test_priorities_have_the_weights_asked():
    _, workload = make(pods=20_000, priorities=((-5, 1.0), (1000, 3.0), (7, 0.0)))
    counts = Counter(workload.priority.tolist())
    assert set(counts) == {-5, 1000}
    assert counts[1000] == pytest.approx(15_000, rel=0.02)


def test_replica_sets_own_pods_of_one_ask_outside_gangs():
    _, workload = make(pods=20_000, gangs=0.2, replica_sets=30, replica_share=0.4)
    owners = [workload.spec(index).owner for index in range(20_000)]
    assert len(set(owners) - {""}) == 30
    assert len({(spec.owner, spec) for spec in workload.specs if spec.owner}) == 30
    free = workload.gang_of < 0
    assert not any(owner for owner, alone in zip(owners, free, strict=True) if not alone)
    assert sum(map(bool, owners)) == pytest.approx(0.4 * free.sum(), rel=0.05)


def test_the_share_of_pods_that_name_models_is_as_asked():
    _, workload = make(nodes=1213, pods=8152, spec_share=0.33)
    naming = sum(bool(workload.spec(index).gpu_models) for index in range(8152))
    assert naming == pytest.approx(0.33 * (8152 - 1088), abs=3)


def test_models_that_a_small_cluster_lacks_are_not_named():
    nodes, workload = make(nodes=3, pods=3000, spec_share=1.0)
    named = {model for spec in workload.specs for model in spec.gpu_models}
    assert named
    assert named <= {node.gpu_model for node in nodes}


SETTINGS = st.builds(
    GenerateSettings,
    nodes=st.integers(1, 40),
    pods=st.integers(1, 120),
    seed=st.integers(0, 2**40),
    arrivals=st.sampled_from(ARRIVALS),
    load_factor=st.floats(0.01, 10),
    rate_per_s=st.none() | st.floats(0.001, 1000),
    day_s=st.floats(1, 1e6),
    day_swing=st.floats(0, 1),
    burst_pods=st.integers(1, 500),
    burst_spread_s=st.floats(0, 1000),
    time_step_s=st.sampled_from([1.0, 0.5, 2.0**-6]),
    spec_share=st.floats(0, 1),
    gangs=st.floats(0, 1),
    gang_sizes=st.lists(st.integers(2, 9), min_size=1, max_size=3).map(tuple),
    gang_min=st.floats(0.01, 1),
    priorities=st.lists(st.tuples(st.integers(-100, 100), st.floats(0.1, 5)), min_size=1, max_size=3).map(tuple),
    replica_sets=st.integers(0, 10),
    replica_share=st.floats(0, 1),
)


@settings(max_examples=100, deadline=None)
@given(SETTINGS)
def test_any_settings_give_a_sound_trace_twice(options):
    nodes, workload = generate(options)
    assert len(nodes) == options.nodes
    assert len(workload) == options.pods
    assert [node.name for node in nodes] == sorted({node.name for node in nodes})
    assert list(workload.names) == sorted(set(workload.names))
    assert (np.diff(workload.arrival_s) >= 0).all()
    assert (workload.arrival_s >= 0).all()
    assert (workload.arrival_s % options.time_step_s == 0).all()
    assert (workload.duration_s >= options.time_step_s).all()
    assert set(workload.spec_of.tolist()) == set(range(len(workload.specs)))
    assert set(workload.gang_of.tolist()) - {-1} == set(range(len(workload.gangs)))
    members = np.bincount(workload.gang_of[workload.gang_of >= 0], minlength=len(workload.gangs))
    assert all(1 <= gang.min_members <= many for gang, many in zip(workload.gangs, members, strict=True))
    again_nodes, again = generate(options)
    assert again_nodes == nodes
    assert_equal(again, workload)


def test_other_seeds_give_other_traces():
    _, one = make(seed=1)
    _, other = make(seed=2)
    assert one.arrival_s.tolist() != other.arrival_s.tolist()
    assert one.spec_of.tolist() != other.spec_of.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes is 0; make 1 or more"),
        ({"pods": -3}, "pods is -3; make 1 or more"),
        ({"seed": -1}, "seed is -1; write 0 or more"),
        ({"arrivals": "poison"}, 'arrivals is poison; write one of .*; did you mean "poisson"'),
        ({"gangs": 1.5}, "gangs is 1.5; write a share from 0 to 1"),
        ({"spec_share": math.nan}, "spec_share is nan; write a share"),
        ({"load_factor": 0.0}, "load_factor is 0.0; write a number above 0"),
        ({"rate_per_s": math.inf}, "rate_per_s is inf; write a number above 0"),
        ({"p75_s": 100.0}, "p75_s is 100.0; it is at least the median, 540"),
        ({"time_step_s": 0.1}, "time_step_s is 0.1; write 1, 0.5, 0.25"),
        ({"gang_sizes": (1, 2)}, "gang_sizes is .* a gang has 2 or more"),
        ({"gang_min": 0.0}, "gang_min is 0.0; write a share above 0"),
        ({"priorities": ((1, 0.0),)}, "priorities is .* one of them above 0"),
        ({"replica_sets": -1}, "replica_sets is -1; write 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        make(**options)
