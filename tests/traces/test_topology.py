from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traces.object_files import write_nodes

from foresail.core.spec import NodeSpec
from foresail.errors import InputError, OptionError
from foresail.traces import kubernetes
from foresail.traces.openb import read as openb
from foresail.traces.topology import label, label_files, place


def labelled(tmp_path, name, content, servers_per_rack=2):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (done,) = label_files([str(path)], servers_per_rack)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert done.target == path.with_name(f"{path.stem}-hier{path.suffix}")
    return done.target.read_bytes().decode("utf-8", "surrogateescape")


def test_nodes_fill_racks_in_list_order():
    assert [place(index, 4) for index in (0, 3, 4, 9)] == [
        ("rack-0", "srv-0"),
        ("rack-0", "srv-3"),
        ("rack-1", "srv-0"),
        ("rack-2", "srv-1"),
    ]


def test_csv_rows_get_two_columns(tmp_path):
    assert labelled(tmp_path, "nodes.csv", "sn,gpu\na,1\nb,2\nc,3\n") == (
        "sn,gpu,rack,server\na,1,rack-0,srv-0\nb,2,rack-0,srv-1\nc,3,rack-1,srv-0\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sn,rack\r\na,\r\n\r\nb,mine\r\n", "sn,rack,server\r\na,rack-0,srv-0\r\n\r\nb,mine,srv-1\r\n"),
        ('rack,sn,server\n,a,s9\n"",b,\n', "rack,sn,server\nrack-0,a,s9\nrack-0,b,srv-1\n"),
        (
            'sn,note\n"a,1","x\ny ""z"""\nb,  \n',
            'sn,note,rack,server\n"a,1","x\ny ""z""",rack-0,srv-0\nb,  ,rack-0,srv-1\n',
        ),
        ("\ufeffsn\na", "\ufeffsn,rack,server\na,rack-0,srv-0"),
        ("sn,x\na,1\x0c2\n", "sn,x,rack,server\na,1\x0c2,rack-0,srv-0\n"),
    ],
)
def test_csv_keeps_every_other_byte(tmp_path, before, after):
    assert labelled(tmp_path, "nodes.csv", before) == after


def test_csv_bytes_that_are_no_utf8_pass_through(tmp_path):
    labelled(tmp_path, "nodes.csv", b"sn,x\na,\xff\n")
    assert (tmp_path / "nodes-hier.csv").read_bytes() == b"sn,x,rack,server\na,\xff,rack-0,srv-0\n"


CELLS = st.text(st.sampled_from('ab,"\n; é'), max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["", "mine"])), min_size=1, max_size=6), st.integers(1, 4))
def test_csv_values_survive_and_only_empty_places_are_filled(rows, servers_per_rack):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("sn", "note", "rack"), *rows])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nodes.csv"
        path.write_text(out.getvalue(), encoding="utf-8", newline="")
        done = label(path, servers_per_rack)
    got = list(csv.reader(io.StringIO(done.content.decode(), newline="")))
    assert done.nodes == len(rows)
    assert got == [
        ["sn", "note", "rack", "server"],
        *(
            [name, note, rack or place(index, servers_per_rack)[0], place(index, servers_per_rack)[1]]
            for index, (name, note, rack) in enumerate(rows)
        ),
    ]


def test_labelled_csv_gives_labelled_nodes(tmp_path):
    labelled(tmp_path, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1000,1,0,\nb,1000,1,0,\nc,1000,1,0,\n")
    nodes, _ = openb.read_nodes(tmp_path / "nodes-hier.csv")
    assert [dict(node.labels) for node in nodes] == [
        {"rack": "rack-0", "server": "srv-0"},
        {"rack": "rack-0", "server": "srv-1"},
        {"rack": "rack-1", "server": "srv-0"},
    ]


YAML = """\
apiVersion: v1
kind: List
items:
- kind: Node
  metadata:
    name: a
    labels: &shared
      zone: "007"
      on: 'yes'
    creationTimestamp: 2023-01-01T00:00:00Z
- kind: Pod
  metadata: {name: p, labels: *shared}
- kind: Node
  metadata:
    name: b
    labels: *shared
---
kind: Node
metadata:
  name: c
  labels:
    <<: {rack: old}
    server: mine
---
kind: Node
metadata: {name: d}
"""


def test_yaml_nodes_get_labels_and_all_else_stays(tmp_path):
    text = labelled(tmp_path, "nodes.yaml", YAML)
    first, third, fourth = yaml.safe_load_all(text)
    a, pod, b = first["items"]
    shared = {"zone": "007", True: "yes"}
    assert a["metadata"]["labels"] == shared | {"rack": "rack-0", "server": "srv-0"}
    assert pod["metadata"] == {"name": "p", "labels": shared}
    assert b["metadata"]["labels"] == shared | {"rack": "rack-0", "server": "srv-1"}
    assert third["metadata"]["labels"] == {"rack": "old", "server": "mine"}
    assert fourth["metadata"]["labels"] == {"rack": "rack-1", "server": "srv-1"}
    assert "creationTimestamp: 2023-01-01T00:00:00Z" in text
    assert 'zone: "007"' in text


@pytest.mark.parametrize("shape", ["list", "NodeList", "jsonl"])
def test_json_nodes_get_labels_and_all_else_stays(tmp_path, shape):
    nodes = [
        {"kind": "Node", "metadata": {"name": "a", "labels": {"rack": "mine"}}, "status": {"x": [1, None]}},
        {"kind": "Node", "metadata": {"name": "é"}},
    ]
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    text, name = {
        "list": (json.dumps([nodes[0], pod, nodes[1]]), "n.json"),
        "NodeList": (json.dumps({"kind": "NodeList", "items": [node | {"kind": None} for node in nodes]}), "n.json"),
        "jsonl": ("".join(json.dumps(value) + "\n" for value in [*nodes, pod]), "n.jsonl"),
    }[shape]
    written = labelled(tmp_path, name, text, 1)
    again = [json.loads(line) for line in written.splitlines()] if shape == "jsonl" else json.loads(written)
    objects = again["items"] if shape == "NodeList" else again
    found = {entry["metadata"]["name"]: entry for entry in objects}
    assert found["a"]["metadata"]["labels"] == {"rack": "mine", "server": "srv-0"}
    assert found["a"]["status"] == {"x": [1, None]}
    assert found["é"]["metadata"]["labels"] == {"rack": "rack-1", "server": "srv-0"}
    assert found.get("p", pod) == pod


def test_written_kubernetes_nodes_can_be_labelled_and_read(tmp_path):
    nodes = [NodeSpec(f"n{index}", 1000, 2**30, 1, "T4") for index in range(3)]
    write_nodes(tmp_path / "nodes.yaml", nodes)
    label_files([str(tmp_path / "nodes.yaml")], 2)
    again, _ = kubernetes.read_nodes(tmp_path / "nodes-hier.yaml")
    assert [node.labels for node in again] == [
        (("rack", "rack-0"), ("server", "srv-0")),
        (("rack", "rack-0"), ("server", "srv-1")),
        (("rack", "rack-1"), ("server", "srv-0")),
    ]


def test_labelling_twice_changes_nothing(tmp_path):
    labelled(tmp_path, "nodes.yaml", YAML)
    first = (tmp_path / "nodes-hier.yaml").read_bytes()
    (tmp_path / "again.yaml").write_bytes(first)
    label_files([str(tmp_path / "again.yaml")], 3)
    assert (tmp_path / "again-hier.yaml").read_bytes() == first


@pytest.mark.parametrize("how", ["folder", "pattern", "names"])
def test_outputs_and_files_without_nodes_are_not_read(tmp_path, how):
    for name, text in {
        "a.csv": "sn\nx\n",
        "b.csv": "sn\ny\n",
        "a-hier.csv": "sn\nold\n",
        "pods.csv": "name\np\n",
        "notes.txt": "hello",
    }.items():
        (tmp_path / name).write_text(text)
    given_names = {
        "folder": [str(tmp_path)],
        "pattern": [str(tmp_path / "*.csv")],
        "names": [str(tmp_path / name) for name in ("a-hier.csv", "a.csv", "b.csv", "a.csv")],
    }[how]
    for _ in range(2):
        done = label_files(given_names)
        assert [(entry.source.name, entry.target.name, entry.nodes) for entry in done] == [
            ("a.csv", "a-hier.csv", 1),
            ("b.csv", "b-hier.csv", 1),
        ]
        names = ["a-hier.csv", "a.csv", "b-hier.csv", "b.csv", "notes.txt", "pods.csv"]
        assert sorted(path.name for path in tmp_path.iterdir()) == names
    # Counting starts anew in every file.
    assert (tmp_path / "b-hier.csv").read_text() == "sn,rack,server\ny,rack-0,srv-0\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pods.csv", "name\np\n", r'pods\.csv: holds no nodes; a CSV of nodes has a column "sn"'),
        ("empty.csv", "", r"empty\.csv: holds no nodes"),
        ("short.csv", "sn,gpu\na,1\nb\n", r"short\.csv:3: has 1 fields, the header 2; mend the row"),
        ("open.csv", 'sn\n"a\nb\n', r"open\.csv:2: opens a quote that is never closed"),
        ("pods.yaml", "kind: Pod", r"pods\.yaml: holds no nodes; it has no objects of kind Node"),
        ("bad.yaml", "a: [1\n", r"bad\.yaml:2: is no YAML"),
        ("deep.yaml", "[" * 100_000, r"deep\.yaml: is no YAML: it nests more than 200 levels"),
        ("words.yaml", "kind: Node\nmetadata: 3\n", r"words\.yaml:2: metadata of a node is no mapping"),
        ("bad.json", "{", r"bad\.json:1: is no JSON"),
        ("words.json", '{"kind": "Node", "metadata": {"labels": 3}}', r"words\.json: labels of a node is 3"),
        ("nodes.txt", "sn\na\n", r"nodes\.txt: has no known ending"),
    ],
)
def test_a_bad_file_stops_all_before_anything_is_written(tmp_path, name, text, message):
    (tmp_path / "good.csv").write_text("sn\na\n")
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        label_files([str(tmp_path / "good.csv"), str(tmp_path / name)])
    assert not list(tmp_path.glob("*-hier*"))


def test_nothing_to_label_is_told(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        label_files([str(tmp_path / "none.csv")])
    with pytest.raises(InputError, match=r"matches no file"):
        label_files([str(tmp_path / "*.csv")])
    with pytest.raises(InputError, match=r"no node files in .*files ending in -hier are outputs"):
        label_files([str(tmp_path)])
    with pytest.raises(OptionError, match="servers per rack is 0; a rack holds 1 or more"):
        label_files([str(tmp_path)], 0)
