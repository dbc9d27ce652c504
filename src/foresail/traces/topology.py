"""Rack and server labels for node files: node i of a file stands in rack ⌊i/n⌋ as server i mod n."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from foresail.atomic import replacing
from foresail.errors import InputError, OptionError
from foresail.formats import JSON_ENDINGS, OBJECT_ENDINGS
from foresail.kube.objects.documents import json_documents, read_text
from foresail.yaml_files import PlainLoader, told_as_input_errors, yaml_documents

SUFFIX = "-hier"
"""Outputs stand beside their input with this at the end of the name, and are not taken as inputs again."""
KEYS = ("rack", "server")
_ENDINGS = OBJECT_ENDINGS | {".csv"}
_STRING = "tag:yaml.org,2002:str"


class _PlainDumper(yaml.CSafeDumper):
    """Writes times as they were read: as text, without quotes that were not there."""


_PlainDumper.yaml_implicit_resolvers = PlainLoader.yaml_implicit_resolvers


@dataclass(frozen=True, slots=True)
class Labelled:
    """A file that was labelled: where the result goes, and how many nodes it has."""

    source: Path
    target: Path
    nodes: int
    content: bytes


def place(index: int, servers_per_rack: int) -> tuple[str, str]:
    """Rack and server of the node at this position of its file."""
    return f"rack-{index // servers_per_rack}", f"srv-{index % servers_per_rack}"


def output_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}{SUFFIX}{path.suffix}")


def inputs(names: Iterable[str]) -> tuple[list[Path], list[Path]]:
    """Files named outright, and files found in folders and patterns; earlier outputs are in neither."""
    named: dict[Path, None] = {}
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            found.update(dict.fromkeys(sorted(entry for entry in path.iterdir() if entry.is_file())))
        elif path.exists() or not glob.has_magic(name):
            named[path] = None
        else:
            matches = sorted(Path(match) for match in glob.glob(name, recursive=True))  # noqa: PTH207 - a pattern may be absolute
            if not matches:
                raise InputError("matches no file; check the pattern", path=name)
            found.update(dict.fromkeys(match for match in matches if match.is_file()))
    keep = [path for path in named if not path.stem.endswith(SUFFIX)]
    further = [
        path
        for path in found
        if path.suffix.lower() in _ENDINGS and not path.stem.endswith(SUFFIX) and path not in named
    ]
    return keep, further


def label_files(names: Iterable[str], servers_per_rack: int = 4) -> list[Labelled]:
    """Label all node files and write the results; nothing is written if one of them cannot be used.

    A file named outright must hold nodes. Files found in a folder or by a pattern that hold none are passed over.
    """
    if servers_per_rack < 1:
        raise OptionError(f"servers per rack is {servers_per_rack}; a rack holds 1 or more")
    names = list(names)
    named, found = inputs(names)
    done = [label(path, servers_per_rack) for path in named]
    for path in found:
        labelled = _label(path, servers_per_rack)
        if labelled is not None:
            done.append(labelled)
    if not done:
        raise InputError(f"no node files in {', '.join(names)} (files ending in {SUFFIX} are outputs and not read)")
    for labelled in done:
        with replacing(labelled.target) as part:
            part.write_bytes(labelled.content)
    return done


def label(path: Path, servers_per_rack: int) -> Labelled:
    """The labelled content of one node file; a file without nodes is an `InputError`."""
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"has no known ending; nodes stand in {', '.join(sorted(_ENDINGS))}", path=path)
    labelled = _label(path, servers_per_rack)
    if labelled is None:
        wanted = (
            'a CSV of nodes has a column "sn"' if path.suffix.lower() == ".csv" else "it has no objects of kind Node"
        )
        raise InputError(f"holds no nodes; {wanted}", path=path)
    return labelled


def _label(path: Path, servers_per_rack: int) -> Labelled | None:
    ending = path.suffix.lower()
    if ending == ".csv":
        content, nodes = _csv(path, servers_per_rack)
    elif ending in JSON_ENDINGS:
        content, nodes = _json(path, servers_per_rack)
    else:
        content, nodes = _yaml(path, servers_per_rack)
    return Labelled(path, output_path(path), nodes, content) if nodes else None


# ---------------------------------------------------------------------------------------------------------------- CSV


def _csv(path: Path, servers_per_rack: int) -> tuple[bytes, int]:
    try:
        # Bytes that are no UTF-8 pass through unharmed.
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    written: list[str] = []
    width = 0
    columns: list[int | None] = []
    nodes = 0
    for line, record, ending in _records(path, text):
        if not record.strip():
            written.append(record + ending)
            continue
        fields = _fields(record)
        if not width:
            header = [_bare(field) for field in fields]
            if "sn" not in header:
                return b"", 0
            width = len(fields)
            columns = [header.index(key) if key in header else None for key in KEYS]
            fields += [key for key, column in zip(KEYS, columns, strict=True) if column is None]
        else:
            if len(fields) != width:
                raise InputError(f"has {len(fields)} fields, the header {width}; mend the row", path=path, line=line)
            for column, value in zip(columns, place(nodes, servers_per_rack), strict=True):
                if column is None:
                    fields.append(value)
                elif not _bare(fields[column]):
                    fields[column] = value
            nodes += 1
        written.append(",".join(fields) + ending)
    return "".join(written).encode("utf-8", "surrogateescape"), nodes


def _records(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, raw record and its line ending; a quoted field may hold line breaks."""
    held = ""
    begin = 1
    for line, raw in enumerate(_lines(text), 1):
        begin = begin if held else line
        held += raw
        if held.count('"') % 2 == 0:
            record = held.rstrip("\r\n")
            yield begin, record, held[len(record) :]
            held = ""
    if held:
        raise InputError("opens a quote that is never closed", path=path, line=begin)


def _lines(text: str) -> Iterator[str]:
    # str.splitlines would also split at form feeds and other marks that CSV keeps inside a row.
    parts = text.split("\n")
    yield from (part + "\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def _fields(record: str) -> list[str]:
    """The raw fields, quotes and blanks included: joined by commas they are the record again."""
    if '"' not in record:
        return record.split(",")
    fields: list[str] = []
    quoted = False
    for part in record.split(","):
        if quoted:
            fields[-1] += "," + part
        else:
            fields.append(part)
        quoted ^= part.count('"') % 2 == 1
    return fields


def _bare(field: str) -> str:
    return field.strip("\ufeff \t").strip('"').strip()


# ---------------------------------------------------------------------------------------------------------------- JSON


def _json(path: Path, servers_per_rack: int) -> tuple[bytes, int]:
    documents = [value for value, _ in json_documents(path, read_text(path))]
    nodes = 0
    for item in _json_nodes(documents, ""):
        metadata = _child(path, item, "metadata")
        labels = _child(path, metadata, "labels")
        for key, value in zip(KEYS, place(nodes, servers_per_rack), strict=True):
            labels.setdefault(key, value)
        nodes += 1
    if len(documents) == 1 and path.suffix.lower() == ".json":
        return (json.dumps(documents[0], indent=2, ensure_ascii=False) + "\n").encode(), nodes
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents).encode(), nodes


def _json_nodes(values: list[Any], kind: str) -> Iterator[dict[str, Any]]:
    for value in values:
        if isinstance(value, list):
            yield from _json_nodes(value, kind)
        elif isinstance(value, dict):
            own = str(value.get("kind") or kind)
            if own == "Node":
                yield value
            elif own.endswith("List") and isinstance(value.get("items"), list):
                yield from _json_nodes(value["items"], own.removesuffix("List"))


def _child(path: Path, parent: dict[str, Any], key: str) -> dict[str, Any]:
    if parent.get(key) is None:
        parent[key] = {}
    child = parent[key]
    if not isinstance(child, dict):
        raise InputError(f"{key} of a node is {json.dumps(child)[:60]}; write a mapping", path=path)
    return child


# ---------------------------------------------------------------------------------------------------------------- YAML


def _yaml(path: Path, servers_per_rack: int) -> tuple[bytes, int]:
    """Work on the parsed tree, not on values, so that every scalar keeps its text and its quotes."""
    text = read_text(path)
    with told_as_input_errors(path):
        documents = list(yaml_documents(PlainLoader(text)))
    nodes = 0
    for item in _yaml_nodes(documents, ""):
        metadata = _own_child(path, item, "metadata")
        labels = _own_child(path, metadata, "labels")
        for key, value in zip(KEYS, place(nodes, servers_per_rack), strict=True):
            if _get(labels, key) is None:
                labels.value.append((yaml.ScalarNode(_STRING, key), yaml.ScalarNode(_STRING, value)))
        nodes += 1
    content = yaml.serialize_all(
        documents, Dumper=_PlainDumper, explicit_start=len(documents) > 1, allow_unicode=True, width=2**20
    )
    return content.encode(), nodes


def _yaml_nodes(values: Iterable[yaml.Node | None], kind: str) -> Iterator[yaml.MappingNode]:
    for value in values:
        if isinstance(value, yaml.SequenceNode):
            yield from _yaml_nodes(value.value, kind)
        elif isinstance(value, yaml.MappingNode):
            named = _get(value, "kind")
            own = str(named.value) if isinstance(named, yaml.ScalarNode) else kind
            items = _get(value, "items")
            if own == "Node":
                yield value
            elif own.endswith("List") and isinstance(items, yaml.SequenceNode):
                yield from _yaml_nodes(items.value, own.removesuffix("List"))


def _get(parent: yaml.MappingNode, key: str) -> yaml.Node | None:
    """The value of a key, also where a merge key (`<<`) brings it in."""
    merged: list[yaml.Node] = []
    for name, value in parent.value:
        if name.value == key:
            return value if isinstance(value, yaml.Node) else None
        if name.value == "<<":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    for source in merged:
        if isinstance(source, yaml.MappingNode) and (inherited := _get(source, key)) is not None:
            return inherited
    return None


def _own_child(path: Path, parent: yaml.MappingNode, key: str) -> yaml.MappingNode:
    """A child mapping of this node alone: one that an alias shares would label all its users alike."""
    old = _get(parent, key)
    child = yaml.MappingNode("tag:yaml.org,2002:map", [])
    if isinstance(old, yaml.MappingNode):
        child = yaml.MappingNode(old.tag, [(_copy(name), _copy(value)) for name, value in old.value])
        child.flow_style = old.flow_style
    elif old is not None and not (isinstance(old, yaml.ScalarNode) and old.tag.endswith(":null")):
        raise InputError(f"{key} of a node is no mapping", path=path, line=old.start_mark.line + 1)
    for index, (name, _) in enumerate(parent.value):
        if name.value == key:
            parent.value[index] = (name, child)
            return child
    parent.value.append((yaml.ScalarNode(_STRING, key), child))
    return child


def _copy(node: yaml.Node) -> yaml.Node:
    # A scalar in two places would be written as an anchor and an alias.
    return yaml.ScalarNode(node.tag, node.value, style=node.style) if isinstance(node, yaml.ScalarNode) else node
