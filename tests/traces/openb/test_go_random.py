import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.errors import InputError
from foresail.traces.openb.go_random import GoRandom, draw_openb_run, state_words

LOAD = 1.3


def sorted_pods(folder, trace):
    """Names, milli per GPU and GPUs of all pods, sorted by name."""
    pods = pl.read_csv(folder / f"openb_pod_list_{trace}.csv", columns=["name", "num_gpu", "gpu_milli"]).sort("name")
    return pods["name"].to_list(), pods["gpu_milli"].to_numpy(), pods["num_gpu"].to_numpy()


def cluster(folder):
    """Number of nodes and milli-GPU of the nodes that the published runs use."""
    nodes = pl.read_csv(folder / "openb_node_list_gpu_node.csv")
    return nodes.height, nodes["gpu"].sum() * 1000


def test_seed_1_draws_what_go_documents():
    random = GoRandom(1)
    assert [random.intn(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_the_mixed_in_words_are_those_of_go():
    words = state_words().astype(np.int64)
    assert words[:3].tolist() == [-4181792142133755926, -4576982950128230565, 1395769623340756751]
    assert len(words) == 607


def test_a_power_of_two_takes_the_low_bits_of_the_upper_half_of_a_draw():
    drawn, whole = GoRandom(3), GoRandom(3)
    for _ in range(700):  # past one turn of the ring
        assert drawn.intn(64) == (whole.int63() >> 32) & 63


def test_zero_and_its_multiples_share_the_seed_that_go_gives_them():
    first = GoRandom(89482311).int63()
    assert [GoRandom(seed).int63() for seed in (0, 2**31 - 1, -(2**31 - 1))] == [first] * 3
    assert GoRandom(-5).int63() == GoRandom(2**31 - 1 - 5).int63()


def test_perm_spends_a_draw_on_its_first_entry():
    permuted, counted = GoRandom(5), GoRandom(5)
    assert permuted.perm(1).tolist() == [0]
    counted.int63()
    assert permuted.int63() == counted.int63()


def test_shuffle_of_one_item_spends_no_draw():
    shuffled, fresh = GoRandom(5), GoRandom(5)
    assert shuffled.shuffle(1).tolist() == [0]
    assert shuffled.int63() == fresh.int63()


@pytest.mark.parametrize("n", [0, -1, 2**31])
def test_intn_refuses_what_go_draws_otherwise(n):
    with pytest.raises(ValueError, match=f"n is {n};"):
        GoRandom(1).intn(n)


@settings(max_examples=50, deadline=None)  # the first example compiles
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))
def test_shuffle_and_perm_lose_nothing(seed, n):
    random = GoRandom(seed)
    assert sorted(random.shuffle(n).tolist()) == list(range(n))
    assert sorted(random.perm(n).tolist()) == list(range(n))


@settings(max_examples=50, deadline=None)  # the first example compiles
@given(st.integers(0, 2**40), st.integers(1, 2**31 - 1))
def test_intn_stays_below_n(seed, n):
    assert 0 <= GoRandom(seed).intn(n) < n


@settings(max_examples=50, deadline=None)  # the first example compiles
@given(
    st.lists(st.sampled_from([(0, 0), (1, 300), (1, 1000), (4, 1000)]), min_size=1, max_size=40),
    st.integers(1, 60_000),
    st.integers(0, 1000),
)
def test_a_tuned_draw_is_near_its_target(pods, target, seed):
    num_gpu = np.array([count for count, _ in pods])
    gpu_milli = np.array([milli for _, milli in pods])
    demand = int((num_gpu * gpu_milli).sum())
    if demand == 0:
        return
    draw = draw_openb_run(gpu_milli, num_gpu, target, seed, 5)
    tuned = int((num_gpu * gpu_milli)[draw.order].sum())
    assert len(draw.order) == len(draw.is_clone)
    if demand <= target:
        assert sorted(draw.order[~draw.is_clone].tolist()) == list(range(len(pods)))
        # The stopping rule looks at one device, so the last clone may pass the target by its others.
        assert target - 1000 < tuned <= target + 3000
    else:
        assert tuned <= target
        assert not draw.is_clone.any()
        assert len(set(draw.order.tolist())) == len(draw.order)


def test_pods_without_gpus_cannot_be_tuned():
    zeros = np.zeros(3, dtype=np.int64)
    with pytest.raises(InputError, match="none of the 3 pods asks for a GPU"):
        draw_openb_run(zeros, zeros, 1000.0, 42, 2)


@pytest.mark.data
def test_default_42_arrives_and_ranks_as_published(openb_csv, openb_expected):
    names, gpu_milli, num_gpu = sorted_pods(openb_csv, "default")
    node_count, milli = cluster(openb_csv)
    draw = draw_openb_run(gpu_milli, num_gpu, LOAD * milli, 42, node_count)

    arrivals = pl.read_csv(openb_expected / "placements_default_seed42.csv")
    assert len(draw.order) == 10_866
    drawn = [names[i] for i in draw.order]
    assert drawn[:5] == ["openb-pod-0255", "openb-pod-1685", "openb-pod-6784", "openb-pod-4463", "openb-pod-0602"]
    assert arrivals["pod"].to_list() == drawn
    assert arrivals["is_clone"].cast(pl.Boolean).to_list() == draw.is_clone.tolist()
    assert arrivals["gpu_milli"].to_list() == gpu_milli[draw.order].tolist()
    assert arrivals["num_gpu"].to_list() == num_gpu[draw.order].tolist()

    ranks = pl.read_csv(openb_expected / "node_rank_default_seed42.csv").sort("sn")
    assert draw.rank[:5].tolist() == [601, 815, 450, 13, 731]
    assert ranks["rank"].to_list() == draw.rank.tolist()


@pytest.mark.data
def test_every_published_run_has_the_expected_pods_and_demand(openb_csv, openb_expected):
    node_count, milli = cluster(openb_csv)
    runs = pl.read_csv(openb_expected / "runs.csv").select("trace", "seed", "pods_after_tuning", "arrived_gpu_milli")
    drawn = []
    for trace, seed in runs.select("trace", "seed").unique(maintain_order=True).iter_rows():
        _, gpu_milli, num_gpu = sorted_pods(openb_csv, trace)
        draw = draw_openb_run(gpu_milli, num_gpu, LOAD * milli, seed, node_count)
        drawn.append((trace, seed, len(draw.order), int((gpu_milli * num_gpu)[draw.order].sum())))
    assert len(drawn) >= 45
    assert set(runs.iter_rows()) == set(drawn)
