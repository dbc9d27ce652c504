import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.errors import InputError
from foresail.traces.openb.read import read_nodes, read_pods
from foresail.traces.trace import load, load_nodes

MIB = 2**20
POD_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def rows(workload):
    """Everything a workload says, one tuple a pod."""
    return [
        (name, workload.spec(i), workload.arrival_s[i], workload.duration_s[i], workload.priority[i])
        for i, name in enumerate(workload.names)
    ]


def test_nodes_carry_every_column(write):
    path = write(
        "nodes.csv",
        "sn,cpu_milli,memory_mib,gpu,model,rack,server,max_pods,label:zone,resource:example.com/fpga\n"
        "n1,96000,393216,8,G2,r1,s1,110,z1,2\n"
        "n0,32000,262144,0,,,,,,\n",
    )
    assert read_nodes(path) == (
        [
            NodeSpec(
                "n1",
                96000,
                393216 * MIB,
                8,
                "G2",
                110,
                labels=(("rack", "r1"), ("server", "s1"), ("zone", "z1")),
                extended=(("example.com/fpga", 2),),
            ),
            NodeSpec("n0", 32000, 262144 * MIB),
        ],
        0,
    )


def test_pods_carry_every_column(write):
    path = write(
        "pods.csv",
        f"{POD_HEADER},gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time,priority,owner,resource:x\n"
        "a,4000,1024,1,500,T4|G2|T4,LS,Running,0,100,40,7,web,\n"
        "b,4000,1024,1,500,T4|G2|T4,BE,Pending,5,25,,,web,\n"
        "c,8000,2048,2,1000,,LS,Running,6.5,,7,-3,,1\n"
        "d,1000,512,0,0,,LS,Running,9,9,9,0,,0\n",
    )
    workload, dropped = read_pods(path)
    share = PodSpec(4000, 1024 * MIB, 1, 500, ("T4", "G2", "T4"), owner="web")
    assert rows(workload) == [
        ("a", share, 0.0, 60.0, 7),  # from scheduled to deleted
        ("b", share, 5.0, 20.0, 0),  # never scheduled: from created to deleted
        ("c", PodSpec(8000, 2048 * MIB, 2, 1000, extended=(("x", 1),)), 6.5, np.inf, -3),
        ("d", PodSpec(1000, 512 * MIB), 9.0, 0.0, 0),
    ]
    assert len(workload.specs) == 3
    assert dropped == 0


def test_pods_of_five_columns_arrive_at_once_and_stay(write):
    workload, _ = read_pods(write("pods.csv", f"{POD_HEADER}\na,1,1,0,0\nb,1,1,0,0\n"))
    assert rows(workload) == [(name, PodSpec(1, MIB), 0.0, np.inf, 0) for name in "ab"]
    assert workload.gang_of.tolist() == [-1, -1]


def test_a_stated_duration_goes_before_the_times(write):
    path = write(
        "pods.csv", f"{POD_HEADER},creation_time,deletion_time,duration_s\na,1,1,0,0,0,50,12.5\nb,1,1,0,0,0,50,\n"
    )
    assert read_pods(path)[0].duration_s.tolist() == [12.5, 50.0]


def test_a_gang_waits_for_gang_min_or_for_all_its_rows(write):
    path = write(
        "pods.csv",
        f"{POD_HEADER},gang,gang_min\na,1,1,0,0,ring,2\nb,1,1,0,0,,\nc,1,1,0,0,tree,\nd,1,1,0,0,ring,\n"
        "e,1,1,0,0,ring,2\nf,1,1,0,0,tree,\n",
    )
    workload, _ = read_pods(path)
    assert workload.gangs == [Gang("ring", 2), Gang("tree", 2)]
    assert workload.gang_of.tolist() == [0, -1, 1, 0, 0, 1]


def test_a_pod_without_gpus_has_no_gpu_share(write):
    workload, _ = read_pods(write("pods.csv", f"{POD_HEADER}\na,1,1,0,700\n"))
    assert workload.spec(0) == PodSpec(1, MIB, 0, 0)


def test_quoted_fields_may_hold_commas_quotes_and_line_breaks(write):
    path = write("pods.csv", f'{POD_HEADER}\n"a,""1""",1,1,0,0\n"b\nc",1,1,0,0\nd,x,1,0,0\n')
    workload, dropped = read_pods(path, skip_bad_rows=True)
    assert workload.names == ['a,"1"', "b\nc"]
    assert dropped == 1
    with pytest.raises(InputError, match=r"pods\.csv:5: cpu_milli is \"x\""):
        read_pods(path)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{POD_HEADER}\na,1,1,0,0\n",
        f"{POD_HEADER}\r\na,1,1,0,0\r\n",
        f"{POD_HEADER}\n\na,1,1,0,0\n\n\n",
        f"{POD_HEADER}\na,1,1,0,0",
        f"{POD_HEADER}\n a , 1 ,1.0, 0 ,0\n",
        "gpu_milli,num_gpu,memory_mib,cpu_milli,name\n0,0,1,1,a\n",
    ],
    ids=["byte order mark", "carriage returns", "blank lines", "no last line break", "blanks", "other column order"],
)
def test_harmless_differences_change_nothing(write, text):
    workload, dropped = read_pods(write("pods.csv", text))
    assert rows(workload) == [("a", PodSpec(1, MIB), 0.0, np.inf, 0)]
    assert dropped == 0


BAD_PODS = {
    "negative": ("a,1,1,-1,0", 'num_gpu is "-1"; a pod asks for 0 or more GPUs'),
    "fraction": ("a,1,1,0.5,0", 'num_gpu is "0.5"; a pod asks for 0 or more GPUs'),
    "word": ("a,four,1,0,0", 'cpu_milli is "four"; CPU is a whole number of milli-cores, 0 or more'),
    "nan": ("a,nan,1,0,0", 'cpu_milli is "nan"; CPU is a whole number of milli-cores, 0 or more'),
    "inf": ("a,1,inf,0,0", 'memory_mib is "inf"; memory is a whole number of MiB, 0 or more'),
    "too large": ("a,1,99999999999999999999,0,0", 'memory_mib is "99999999999999999999"; memory is a whole number'),
    "empty": ("a,,1,0,0", "cpu_milli is empty; CPU is a whole number of milli-cores, 0 or more"),
    "no name": (",1,1,0,0", "name is empty; every row needs a name"),
    "share too large": ("a,1,1,1,1001", 'gpu_milli is "1001"; it is per GPU, and one GPU is 1000 milli'),
    "share of nothing": ("a,1,1,1,0", "gpu_milli is 0 but num_gpu is 1; write 1000 for whole GPUs"),
    "shares of several": ("a,1,1,2,500", "gpu_milli is 500 but num_gpu is 2; several GPUs are whole ones: write 1000"),
    "too few fields": ("a,1,1,0", "the row has 4 fields, the header has 5; quote fields with commas"),
    "too many fields": ("a,1,1,0,0,0", "the row has 6 fields, the header has 5; quote fields with commas"),
    "twice": ("ok,1,1,0,0", 'name is "ok", as in line 2; names must differ'),
}


@pytest.mark.parametrize(("row", "message"), BAD_PODS.values(), ids=BAD_PODS)
def test_a_bad_row_is_named_and_can_be_dropped(write, row, message):
    path = write("pods.csv", f"{POD_HEADER}\nok,1,1,0,0\n{row}\nalso,1,1,1,1000\n")
    with pytest.raises(InputError) as error:
        read_pods(path)
    assert str(error.value).startswith(f"{path}:3: {message}")
    assert str(error.value).endswith(" (--skip-bad-rows drops 1 such row)")
    workload, dropped = read_pods(path, skip_bad_rows=True)
    assert (workload.names, dropped) == (["ok", "also"], 1)


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ("creation_time,deletion_time", "50,40", "deletion_time is 40, before creation_time 50; leave it empty for"),
        ("scheduled_time,deletion_time", "50,40", "deletion_time is 40, before scheduled_time 50; leave it empty for"),
        ("creation_time", "-1", 'creation_time is "-1"; times are seconds from the start of the trace, 0 or more'),
        ("creation_time", "NaN", 'creation_time is "NaN"; times are seconds from the start of the trace, 0 or more'),
        ("duration_s", "inf", 'duration_s is "inf"; a duration is in seconds, 0 or more; empty if unknown'),
        ("priority", "high", 'priority is "high"; a priority is a whole number'),
        ("resource:x", "-2", 'resource:x is "-2"; an extended resource is a whole number, 0 or more'),
        ("gang_min", "2", "gang_min is 2 but the pod is in no gang; name its gang"),
    ],
)
def test_a_bad_optional_cell_is_named(write, columns, row, message):
    path = write("pods.csv", f"{POD_HEADER},{columns}\nbad,1,1,0,0,{row}\n")
    with pytest.raises(InputError) as error:
        read_pods(path)
    assert str(error.value).startswith(f"{path}:2: {message}")


def test_a_gang_of_two_sizes_names_both_lines(write):
    path = write("pods.csv", f"{POD_HEADER},gang,gang_min\na,1,1,0,0,ring,4\nb,1,1,0,0,ring,3\n")
    with pytest.raises(InputError, match=r'pods\.csv:3: gang_min is 3 but line 2 says 4 for gang "ring"'):
        read_pods(path)


def test_the_first_bad_line_is_named_and_all_bad_rows_are_counted(write):
    path = write("pods.csv", f"{POD_HEADER}\na,1,1,0,0\nb,1,1,1,0\nc,-1,1,0,0\nd,1,1,1,0\n")
    with pytest.raises(InputError) as error:
        read_pods(path)
    assert str(error.value) == (
        f"{path}:3: gpu_milli is 0 but num_gpu is 1; write 1000 for whole GPUs "
        "(--skip-bad-rows drops 2 such rows, 3 bad rows in all)"
    )


def test_a_name_is_free_again_when_its_row_is_bad(write):
    path = write("pods.csv", f"{POD_HEADER}\na,-1,1,0,0\na,2,1,0,0\n")
    workload, dropped = read_pods(path, skip_bad_rows=True)
    assert (rows(workload), dropped) == ([("a", PodSpec(2, MIB), 0.0, np.inf, 0)], 1)


def test_a_pod_whose_models_nobody_has_is_a_bad_row(write):
    path = write("pods.csv", f"{POD_HEADER},gpu_spec\na,1,1,1,1000,H100|T4\nb,1,1,1,1000,H100\nc,1,1,0,0,H100\n")
    with pytest.raises(InputError, match=r'pods\.csv:3: gpu_spec is "H100"; no node has such a GPU.*have G2, T4\)'):
        read_pods(path, models=frozenset({"T4", "G2"}))
    workload, dropped = read_pods(path, models=frozenset({"T4", "G2"}), skip_bad_rows=True)
    assert (workload.names, dropped) == (["a", "c"], 1)
    assert read_pods(path)[0].names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (f"{POD_HEADER}\n", "the file has a header but no rows"),
        (b"name,cpu_milli\na\xe9,1\n", ":2: not UTF-8 text (byte 0xe9); save or convert the file as UTF-8"),
        (b"name,cpu_milli\na,\x001\n", ":2: not text (a zero byte)"),
        (
            "name,cpu_milli,memory_mib,num_gpus,gpu_milli\na,1,1,0,0\n",
            ':1: no column "num_gpu"; did you mean "num_gpus"?',
        ),
        ("name,name,cpu_milli\na,b,1\n", ':1: the column "name" stands twice'),
        (f'{POD_HEADER}\na,1,1,0,0\n"b,1,1,0,0\n', ":3: the quotes of this row do not match"),
    ],
    ids=["empty", "blank", "header only", "latin1", "zero byte", "missing column", "double column", "open quote"],
)
def test_a_file_that_is_no_pod_list_says_so(write, text, message):
    path = write("pods.csv", text)
    for skip_bad_rows in (False, True):
        with pytest.raises(InputError) as error:
            read_pods(path, skip_bad_rows=skip_bad_rows)
        assert str(error.value).startswith(str(path))
        assert message in str(error.value)


def test_nothing_left_is_an_error_even_when_bad_rows_are_dropped(write):
    path = write("pods.csv", f"{POD_HEADER}\na,-1,1,0,0\nb,1,1\n")
    with pytest.raises(InputError, match="no row is left after dropping 2 bad ones"):
        read_pods(path, skip_bad_rows=True)


def test_a_folder_and_a_missing_file_say_so(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: this is a folder; give the file in it"):
        read_pods(tmp_path / "folder.csv")
    with pytest.raises(InputError, match=r"gone\.csv: no such file; check the path"):
        read_nodes(tmp_path / "gone.csv")


def test_an_unknown_ending_names_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r'nodes\.xls: the ending "\.xls" is not known.*\.csv, \.json, \.jsonl, '):
        load_nodes(tmp_path / "nodes.xls")


def test_a_bad_node_is_named(write):
    path = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,2000,T4\n")
    with pytest.raises(InputError, match=r'nodes\.csv:2: gpu is "2000"; a node has 0 to 1024 GPUs'):
        read_nodes(path)


def test_parquet_gives_the_same_as_csv(write, tmp_path):
    text = (
        f"{POD_HEADER},gpu_spec,creation_time,deletion_time,gang,priority\n"
        "a,1,1,1,500,T4,0,10,,1\nb,2,2,0,0,,1.5,,g,\nc,2,2,0,0,,2,3,g,4\n"
    )
    csv = write("pods.csv", text)
    frame = pl.read_csv(csv)
    assert frame.schema["num_gpu"] == pl.Int64  # typed columns, with gaps, not the text of the CSV
    frame.write_parquet(tmp_path / "pods.parquet")
    from_csv, from_parquet = read_pods(csv)[0], read_pods(tmp_path / "pods.parquet")[0]
    assert rows(from_csv) == rows(from_parquet)
    assert from_csv.gangs == from_parquet.gangs


def test_parquet_counts_rows_and_refuses_what_is_no_number(tmp_path):
    path = tmp_path / "pods.parquet"
    columns = {
        "name": ["a", "b"],
        "cpu_milli": [1.0, 1.5],
        "memory_mib": [1, 1],
        "num_gpu": [0, 0],
        "gpu_milli": [0, 0],
    }
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(InputError, match=r'pods\.parquet:2: cpu_milli is "1\.5"'):
        read_pods(path)
    path.write_bytes(b"name,cpu_milli\n")
    with pytest.raises(InputError, match=r"pods\.parquet: cannot be read as \.parquet"):
        read_pods(path)


def test_a_trace_knows_its_name_and_the_rows_that_were_dropped(write):
    nodes = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,T4\n")
    pods = write("openb_pod_list_small.csv", f"{POD_HEADER},gpu_spec\na,1,1,1,500,T4\nb,1,1,1,500,P4\n")
    with pytest.raises(InputError, match='gpu_spec is "P4"'):
        load(nodes, pods)
    trace = load(nodes, str(pods), skip_bad_rows=True)
    assert (trace.name, len(trace.nodes), trace.workload.names, trace.dropped_rows) == ("small", 1, ["a"], 1)


ASKS = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from([(0, 0), (1, 250), (1, 1000), (8, 1000)]),
    st.sampled_from(["", "T4", "A|B|A"]),
)


@settings(max_examples=60, deadline=None)  # the file system may be slow
@given(asks=st.lists(ASKS, min_size=1, max_size=30))
def test_every_row_gets_its_own_ask_and_equal_asks_share_one(tmp_path_factory, asks):
    path = tmp_path_factory.mktemp("trace") / "pods.csv"
    lines = [f"p{i},{cpu},{mib},{gpus},{milli},{spec}" for i, (cpu, mib, (gpus, milli), spec) in enumerate(asks)]
    path.write_text("\n".join([f"{POD_HEADER},gpu_spec", *lines]))
    workload, _ = read_pods(path)
    assert [workload.spec(i) for i in range(len(workload))] == [
        PodSpec(cpu, mib * MIB, gpus, milli, tuple(spec.split("|")) if spec else ())
        for cpu, mib, (gpus, milli), spec in asks
    ]
    assert len(workload.specs) == len(set(asks))


@pytest.mark.data
def test_the_public_default_trace_is_what_its_authors_describe(openb_csv):
    trace = load(openb_csv / "openb_node_list_gpu_node.csv", openb_csv / "openb_pod_list_default.csv")
    gpus = np.array([spec.gpu_count for spec in trace.workload.specs])[trace.workload.spec_of]
    milli = np.array([spec.gpu_milli for spec in trace.workload.specs])[trace.workload.spec_of]
    assert trace.name == "default"
    assert (len(trace.nodes), sum(node.gpu_count for node in trace.nodes)) == (1213, 6212)
    assert sum(node.cpu_milli for node in trace.nodes) == 107_018_000
    assert sum(node.memory_bytes for node in trace.nodes) == 503_828_480 * MIB
    assert (len(trace.workload), int((gpus == 0).sum()), int((gpus > 1).sum())) == (8152, 1088, 75)
    assert (int(((gpus == 1) & (milli < 1000)).sum()), int(((gpus == 1) & (milli == 1000)).sum())) == (3078, 3911)
    assert trace.workload.duration_s.max() == 12_537_496


@pytest.mark.data
def test_every_public_trace_can_be_read(openb_csv):
    pod_lists = sorted(openb_csv.glob("openb_pod_list_*.csv"))
    assert pod_lists
    for path in pod_lists:
        trace = load(openb_csv / "openb_node_list_all_node.csv", path)
        assert (len(trace.workload), trace.dropped_rows) == (path.read_bytes().count(b"\n") - 1, 0)
