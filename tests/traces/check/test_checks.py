import re
from pathlib import Path

import numpy as np
import pytest

from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.traces import trace
from foresail.traces.check.checks import KEPT_PER_CODE, Findings, check_fit, check_nodes, check_workload
from foresail.traces.check.explanations import EXPLANATIONS

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


@pytest.fixture
def check(tmp_path):
    """Check the given texts as CSV files; give code, file, line and message of each finding."""

    def check(nodes=None, pods=None):
        paths = []
        for name, text in (("nodes.csv", nodes), ("pods.csv", pods)):
            if text is None:
                paths.append(None)
            else:
                (tmp_path / name).write_text(text)
                paths.append(tmp_path / name)
        return [(f.code, f.severity, Path(f.path).name, f.line, f.message) for f in trace.check(*paths)]

    return check


def listed(findings):
    return [(finding.code, finding.line, finding.message) for finding in findings]


def test_a_sound_trace_has_no_findings(check):
    assert check(f"{NODES}n,8000,1024,2,T4\nm,8000,1024,0,\n", f"{PODS},gpu_spec\na,1,1,1,500,T4\nb,1,1,0,0,\n") == []


def test_all_errors_of_a_file_are_listed_by_line_with_the_odd_ones(check):
    pods = (
        f"{PODS},gpu_spec,prio\n"
        "a,1,1,1,1000,T4|T4|H100,\n"
        "b,-1,1,x,0,,\n"
        "a,1,1,0,0,,\n"
        "c,1,1,0,300,,\n"
        "d,1,1\n"
        "e,9000,1,0,0,,\n"
        "f,1,1,1,1000,H100,\n"
    )
    assert check(f"{NODES}n,8000,1024,0,P4\nm,8000,1024,2,T4\no,8000,1024,2,\n", pods) == [
        ("FS308", "warning", "nodes.csv", 2, 'node "n" has 0 GPUs but the model "P4"'),
        (
            "FS309",
            "warning",
            "nodes.csv",
            4,
            'node "o" has 2 GPUs of no model; pods that name a model cannot use them',
        ),
        ("FS107", "warning", "pods.csv", 1, 'the column "prio" is not known and is ignored; did you mean "priority"?'),
        ("FS303", "note", "pods.csv", 2, '"T4|T4|H100" names T4 more than once (1 pod)'),
        ("FS302", "warning", "pods.csv", 2, '"T4|T4|H100" names H100, which no node has (1 pod)'),
        ("FS202", "error", "pods.csv", 3, 'cpu_milli is "-1"; CPU is a whole number of milli-cores, 0 or more'),
        ("FS201", "error", "pods.csv", 3, 'num_gpu is "x"; a pod asks for 0 or more GPUs'),
        ("FS206", "error", "pods.csv", 4, 'name is "a", as in line 2; names must differ'),
        ("FS212", "warning", "pods.csv", 5, "gpu_milli is 300 but num_gpu is 0; read as a pod without GPU"),
        ("FS106", "error", "pods.csv", 6, "the row has 3 fields, the header has 7; quote fields with commas"),
        ("FS301", "warning", "pods.csv", 7, 'pod "e" asks 9000 milli-CPU, 1 MiB; no empty node has that much (1 pod)'),
        (
            "FS211",
            "error",
            "pods.csv",
            8,
            'gpu_spec is "H100"; no node has such a GPU, so the pod can never be placed (the nodes have P4, T4)',
        ),
    ]


def test_a_file_that_cannot_be_read_is_one_finding(check, tmp_path):
    assert check(pods="") == [
        ("FS102", "error", "pods.csv", None, "the file is empty; write or download it again"),
    ]
    found = trace.check(tmp_path / "gone.yaml", tmp_path / "pods.xls")
    assert [(f.code, f.severity, Path(f.path).name) for f in found] == [
        ("FS100", "error", "gone.yaml"),
        ("FS100", "error", "pods.xls"),
    ]


def test_many_findings_of_one_code_are_counted(check):
    found = check(pods="\n".join([PODS, *(f"p{i},-1,1,0,0" for i in range(KEPT_PER_CODE + 5))]))
    assert [line for _, _, _, line, _ in found] == [*range(2, KEPT_PER_CODE + 2), None]
    assert found[-1] == ("FS202", "error", "pods.csv", None, "5 more like this: the value is too small")


def test_times_and_gangs_of_the_pods(check):
    pods = (
        f"{PODS},creation_time,duration_s,gang,gang_min\n"
        "a,1,1,0,0,5,0,,\n"
        "b,1,1,0,0,4,1,ring,3\n"
        "c,1,1,0,0,6,1,ring,3\n"
        "d,5000,1,0,0,6,1,wide,\n"
        "e,5000,1,0,0,6,1,wide,\n"
    )
    assert check(f"{NODES}n,8000,1024,0,\n", pods) == [
        ("FS304", "warning", "pods.csv", 2, 'pod "a" runs for 0 s (1 pod)'),
        ("FS305", "note", "pods.csv", 3, 'pod "b" arrives at 4 s, before the pod above it (1 pod)'),
        ("FS307", "warning", "pods.csv", 3, 'gang "ring" waits for 3 pods but has 2, so it never starts'),
        (
            "FS306",
            "warning",
            "pods.csv",
            5,
            'gang "wide" needs 10000 milli-CPU at once; the whole cluster has 8000',
        ),
    ]


def test_specs_from_any_reader_are_checked_without_lines():
    nodes = [NodeSpec("n", 4000, 2**30, 1, "T4", extended=(("fpga", 1),)), NodeSpec("m", 4000, 2**30, 2)]
    workload = Workload(
        names=["fits", "fits too", "wants two", "wants H100"],
        specs=[
            PodSpec(1000, extended=(("fpga", 1),)),
            PodSpec(1000, extended=(("fpga", 2),)),
            PodSpec(1000, gpu_count=1, gpu_milli=1000, gpu_models=("H100",)),
        ],
        spec_of=np.array([0, 0, 1, 2]),
        gangs=[Gang("none", 1)],
    )
    findings = Findings("cluster.yaml")
    check_nodes(nodes, findings)
    check_fit(nodes, workload, findings)
    assert listed(findings) == [
        ("FS309", None, 'node "m" has 2 GPUs of no model; pods that name a model cannot use them'),
        (
            "FS211",
            None,
            'gpu_spec is "H100"; no node has such a GPU, so the pod can never be placed (the nodes have T4)',
        ),
        ("FS301", None, 'pod "wants two" asks 1000 milli-CPU, 0 MiB, 2 fpga; no empty node has that much (1 pod)'),
    ]


def test_an_empty_gang_and_an_empty_workload_are_no_trouble():
    nothing = Workload(names=[], specs=[], spec_of=np.empty(0, dtype=np.int64), gangs=[Gang("ghost", 1)])
    findings = Findings("pods.yaml")
    check_workload(nothing, findings)
    check_fit([], nothing, findings)
    assert listed(findings) == [("FS307", None, 'gang "ghost" waits for 1 pods but has 0, so it never starts')]


def test_kubernetes_objects_are_checked_too(tmp_path):
    path = tmp_path / "nodes.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
        "status: {allocatable: {cpu: '4', memory: 1Gi, nvidia.com/gpu: '2'}}\n"
    )
    assert [(finding.code, Path(finding.path).name) for finding in trace.check(path, None)] == [("FS309", "nodes.yaml")]


def test_every_code_is_explained_in_full_and_used_somewhere():
    source = Path(trace.__file__).parent
    used = set()
    for module in ("check/checks", "openb/read", "tabular", "trace"):
        used |= set(re.findall(r'"(FS\d{3})"', (source / f"{module}.py").read_text()))
    assert used == set(EXPLANATIONS)
    for code, explanation in EXPLANATIONS.items():
        assert all((explanation.title, explanation.why, explanation.remedy, explanation.example)), code


def test_the_reference_lists_exactly_the_codes_and_what_the_program_says():
    page = (DOCS / "findings.md").read_text()
    assert re.findall(r"^### (FS\d{3}) ", page, flags=re.MULTILINE) == sorted(EXPLANATIONS)
    for code, explanation in EXPLANATIONS.items():
        assert f"### {code} ({explanation.severity}): {explanation.title}\n" in page
        assert explanation.why in page
        assert explanation.remedy in page
        assert explanation.example in page


@pytest.mark.data
def test_the_public_traces_have_no_errors(openb_csv):
    for pods in sorted(openb_csv.glob("openb_pod_list_*.csv")):
        found = trace.check(openb_csv / "openb_node_list_gpu_node.csv", pods)
        assert [finding for finding in found if finding.severity == "error"] == []
        assert {finding.code for finding in found} <= {"FS301", "FS303", "FS304", "FS305"}
