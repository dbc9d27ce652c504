import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.spec import NodeSpec
from foresail.errors import InputError, OptionError
from foresail.sim.faults import Fault, Faults

NODES = [NodeSpec("alpha", 1, 1), NodeSpec("beta", 1, 1), NodeSpec("gamma", 1, 1, unschedulable=True)]


@pytest.fixture
def read(tmp_path):
    def _read(text: str) -> Faults:
        path = tmp_path / "faults.csv"
        path.write_text(text)
        return Faults.read(path, NODES)

    return _read


def test_rows_are_sorted_by_time_and_keep_their_order_within_an_instant(read):
    faults = read(
        "time_s,node,event\n9,alpha,repair\n5, alpha ,fail\n9,beta,cordon\n9,beta,uncordon\n9.5,gamma,uncordon\n"
    )
    assert faults.faults == (
        Fault(5.0, "alpha", "fail", 3),
        Fault(9.0, "alpha", "repair", 2),
        Fault(9.0, "beta", "cordon", 4),
        Fault(9.0, "beta", "uncordon", 5),
        Fault(9.5, "gamma", "uncordon", 6),
    )


def test_columns_may_stand_in_any_order_and_a_file_may_be_empty(read):
    assert read("event,time_s,node,remark\nfail,1,beta,disk\n").faults == (Fault(1.0, "beta", "fail", 2),)
    assert read("time_s,node,event\n").faults == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("-1,alpha,fail", "2: time_s is -1; a time is in seconds from the start of the trace, 0 or more"),
        ("nan,alpha,fail", "2: time_s is nan; a time is in seconds from the start of the trace, 0 or more"),
        ("inf,alpha,fail", "2: time_s is inf; a time is in seconds from the start of the trace, 0 or more"),
        ("soon,alpha,fail", '2: time_s is "soon"; a time is in seconds from the start of the trace, 0 or more'),
        ("1,alhpa,fail", '2: there is no node "alhpa"; did you mean "alpha"?'),
        ("1,n17,fail", '2: there is no node "n17"; the trace has 3 other nodes'),
        ("1,alpha,fial", '2: event is "fial"; did you mean "fail"?'),
        ("1,alpha,explode", '2: event is "explode"; it is one of fail, repair, cordon, uncordon'),
        ("1,alpha,", "2: event is empty; every row needs time_s,node,event"),
        ("1,alpha", "2: event is empty; every row needs time_s,node,event"),
        (
            "1,alpha,repair",
            '2: event is "repair" at 1 s, but node "alpha" is up; only a node that has failed can be repaired',
        ),
        ("1,alpha,fail\n2,alpha,fail", '3: event is "fail" at 2 s, but node "alpha" is down already; repair it first'),
        ("1,gamma,cordon", '2: event is "cordon" at 1 s, but node "gamma" is cordoned already; uncordon it first'),
        ("1,alpha,uncordon", '2: event is "uncordon" at 1 s, but node "alpha" is not cordoned; cordon it first'),
    ],
)
def test_a_bad_row_is_named_with_its_line_value_and_remedy(read, tmp_path, row, message):
    with pytest.raises(InputError) as caught:
        read(f"time_s,node,event\n{row}\n")
    assert str(caught.value) == f"{tmp_path / 'faults.csv'}:{message}"


def test_a_missing_column_or_file_is_named(read, tmp_path):
    with pytest.raises(InputError, match=r'faults\.csv:1: no column "time_s"; did you mean "times"'):
        read("times,node,event\n1,alpha,fail\n")
    with pytest.raises(InputError, match=r'faults\.csv:1: no column "time_s"; the first line must be time_s'):
        read("")
    with pytest.raises(InputError, match=r"none\.csv: cannot read the faults: No such file"):
        Faults.read(tmp_path / "none.csv", NODES)


def test_random_faults_repeat_with_their_seed_and_stay_in_their_time():
    options = {"mttf_s": 50.0, "mttr_s": 10.0, "until_s": 1000.0}
    first = Faults.random(NODES, **options, seed=1)
    assert first == Faults.random(NODES[::-1], **options, seed=1)
    assert first != Faults.random(NODES, **options, seed=2)
    fails = [fault for fault in first.faults if fault.event == "fail"]
    assert len(fails) * 2 == len(first.faults)
    assert all(fault.time_s < 1000 for fault in fails)
    # Three nodes are up for about 50 of every 60 seconds: some 50 failures, and never 20 or 100 with this seed.
    assert 20 < len(fails) < 100


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(0, 1000))
def test_every_random_sequence_is_one_that_a_file_could_hold(tmp_path_factory, seed):
    faults = Faults.random(NODES, mttf_s=30, mttr_s=30, until_s=300, seed=seed)
    path = tmp_path_factory.mktemp("faults") / "faults.csv"
    faults.write(path)
    assert [fault[:3] for fault in Faults.read(path, NODES).faults] == [fault[:3] for fault in faults.faults]


@pytest.mark.parametrize("wrong", [{"mttf_s": 0.0}, {"mttr_s": -1.0}, {"until_s": float("inf")}, {"seed": -1}])
def test_random_faults_need_times_above_zero(wrong):
    options = {"mttf_s": 1.0, "mttr_s": 1.0, "until_s": 1.0, "seed": 0} | wrong
    name = next(iter(wrong))
    with pytest.raises(OptionError, match=name):
        Faults.random(NODES, **options)
