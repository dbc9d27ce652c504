from __future__ import annotations

from decimal import ROUND_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.kube.objects.quantity import QuantityError, RequestError, milli, nano, units
from foresail.kube.objects.requests import effective_requests


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100m", 100),
        ("1", 1000),
        ("1.5", 1500),
        ("2e3", 2_000_000),
        ("2E3", 2_000_000),
        ("2E-1", 200),
        ("0.0001", 1),
        ("1u", 1),
        ("1n", 1),
        ("1001u", 2),
        (".5", 500),
        ("5.", 5000),
        ("+3", 3000),
        ("0", 0),
        ("-0.0001", -1),
        ("1k", 1_000_000),
        ("1Ki", 1_024_000),
        (2, 2000),
        (0.1, 100),
        (1e-7, 1),
    ],
)
def test_milli_is_exact_and_rounds_up(text, expected):
    assert milli(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1Gi", 2**30),
        ("1.5Gi", 3 * 2**29),
        ("0.1Ki", 103),
        ("12E", 12 * 10**18),
        ("12Ei", 12 * 2**60),
        ("12e1", 120),
        ("128974848", 128974848),
        ("129M", 129 * 10**6),
        ("100m", 1),
        ("1e-900000000", 1),
        ("0e900000000", 0),
    ],
)
def test_units_are_exact_and_round_up(text, expected):
    assert units(text) == expected


@pytest.mark.parametrize(
    "text", ["", ".", "1 Gi", "1gi", "1K", "two", "1e", "0x10", "1_000", "1,5", "--1", "1" * 101, True, None, [], "²"]
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(QuantityError, match=r'is ".*"; write a Kubernetes quantity such as "500m"'):
        nano(text)


def test_an_endless_exponent_is_refused_at_once():
    with pytest.raises(QuantityError, match="far too large"):
        nano("1e900000000")


SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_decimal_quantities_equal_decimal_arithmetic(number, suffix):
    exact = Decimal(f"{number:f}").scaleb(SUFFIXES[suffix])
    assert milli(f"{number:f}{suffix}") == int((exact * 1000).to_integral_value(ROUND_UP))


@given(st.integers(0, 10**15), st.sampled_from(["Ki", "Mi", "Gi"]))
def test_binary_quantities_equal_shifts(number, suffix):
    assert units(f"{number}{suffix}") == number << {"Ki": 10, "Mi": 20, "Gi": 30}[suffix]


CANONICAL = st.one_of(
    st.builds("{}{}".format, st.integers(0, 2**63 - 1), st.sampled_from(["", "n", "u", "m"])),
    st.builds("{}{}".format, st.integers(0, 2**63 - 1), st.sampled_from(["k", "M", "G", "T", "P", "E"])),
    st.builds("{}{}".format, st.integers(0, 2**53), st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])),
    st.builds("{}e{}".format, st.integers(0, 2**63 - 1), st.sampled_from(range(-9, 19, 3))),
)
"""What an API server writes for a quantity: it stores whole numbers with a suffix or an exponent, nothing else."""


@given(CANONICAL)
def test_every_quantity_that_an_api_server_writes_is_read(text):
    assert nano(text) >= 0


def container(**requests):
    return {"resources": {"requests": requests}}


def cpu_milli(spec):
    return -(-effective_requests(spec).get("cpu", 0) // 10**6)


def test_init_containers_run_alone_beside_the_sidecars_started_before_them():
    sidecar = container(cpu="300m") | {"restartPolicy": "Always"}
    spec = {"initContainers": [container(cpu="1"), sidecar, container(cpu="2")], "containers": [container(cpu="500m")]}
    assert cpu_milli(spec) == 2300
    assert cpu_milli(spec | {"containers": [container(cpu="2"), container(cpu="1")]}) == 3300


def test_small_requests_are_added_before_they_are_rounded():
    assert cpu_milli({"containers": [container(cpu="0.5m"), container(cpu="0.5m")]}) == 1


def test_limits_stand_in_for_missing_requests_and_an_explicit_zero_stays():
    both = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "0"}}}
    assert effective_requests({"containers": [both]}) == {"cpu": 0, "memory": 2**30 * 10**9}


def test_pod_level_requests_replace_cpu_memory_and_huge_pages_and_overhead_comes_on_top():
    spec = {
        "containers": [container(**{"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "2"})],
        "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "9"}, "limits": {"memory": 1}},
        "overhead": {"cpu": "250m", "memory": "1"},
    }
    assert effective_requests(spec) == {
        "cpu": 1250 * 10**6,
        "memory": (2**30 + 1) * 10**9,
        "nvidia.com/gpu": 2 * 10**9,
        "hugepages-2Mi": 4 * 2**20 * 10**9,
    }


def test_a_pod_level_limit_counts_where_no_container_asks():
    assert cpu_milli({"containers": [{}], "resources": {"limits": {"cpu": "3"}}}) == 3000


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"containers": [container(cpu="two")]},
            r'spec\.containers\[0\]\.resources\.requests\.cpu is "two"; write a Kube',
        ),
        ({"containers": [container(cpu="-1")]}, r'requests\.cpu is "-1"; write 0 or more'),
        ({"containers": [container(memory="12E")]}, r'requests\.memory is "12E"; the largest quantity is 92233'),
        ({"containers": {}}, r"spec\.containers is a dict; write a list"),
        ({"initContainers": [3]}, r'spec\.initContainers\[0\] is "3"; write a mapping'),
        ({"overhead": "1"}, r'spec\.overhead is "1"; write a mapping'),
    ],
)
def test_bad_requests_are_told_by_field(spec, message):
    with pytest.raises(RequestError, match=message):
        effective_requests(spec)
