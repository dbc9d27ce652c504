"""Objects of YAML, JSON and JSON-lines files, each with the line where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from foresail.errors import InputError
from foresail.formats import JSON_ENDINGS, YAML_ENDINGS

_DEEPEST = 200


class PlainLoader(yaml.CSafeLoader):
    """Safe YAML in which times stay text, so that an unquoted RFC 3339 time reads like a quoted one."""

    depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        # The C parser calls itself for every level and would crash the whole program on a hostile file.
        self.depth += 1
        if self.depth > _DEEPEST:
            raise yaml.YAMLError(f"it nests more than {_DEEPEST} levels deep")
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Found:
    """One Kubernetes object and where it stands."""

    kind: str
    value: Mapping[str, Any]
    place: str
    line: int | None


def read_text(path: Path) -> str:
    """The file as text; a missing or undecodable file is an `InputError`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start}); convert it to UTF-8", path=path) from error


def json_documents(path: Path, text: str) -> Iterator[tuple[Any, int]]:
    """Every JSON value of the text with its first line: one document, or JSON lines."""
    decoder = json.JSONDecoder()
    at = line = 0
    while (start := _after_space(text, at)) < len(text):
        line += text.count("\n", at, start)
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise InputError(f"is no JSON: {error.msg} (column {error.colno})", path=path, line=error.lineno) from error
        except RecursionError as error:
            raise InputError("nests too deeply to be read", path=path, line=line + 1) from error
        yield value, line + 1
        line += text.count("\n", start, end)
        at = end


def yaml_documents(loader: PlainLoader) -> Iterator[yaml.Node]:
    """The tree of every document, before it becomes values."""
    while loader.check_node():
        node = loader.get_node()
        if node is None:
            return
        yield node


@contextmanager
def told_as_input_errors(path: Path) -> Iterator[None]:
    """Whatever the YAML library raises, as an `InputError` with the line where it knows one."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError(f"is no YAML: {said}", path=path, line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise InputError(f"is no YAML: {error}", path=path) from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"is no YAML that can be read: {error}", path=path) from error


def objects(path: Path) -> Iterator[Found]:
    """All objects of a file in order; lists (`List`, `NodeList`, a plain JSON list) are opened."""
    text = read_text(path)
    ending = path.suffix.lower()
    as_json = ending in JSON_ENDINGS or (ending not in YAML_ENDINGS and text.lstrip()[:1] in {"{", "["})
    documents = _json_values(path, text) if as_json else _yaml_values(path, text)
    for number, (value, line, item_lines) in enumerate(documents, 1):
        yield from _opened(path, value, "", f"document {number}", line, item_lines)


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _json_values(path: Path, text: str) -> Iterator[tuple[Any, int | None, list[int]]]:
    for value, line in json_documents(path, text):
        yield value, line, []


def _yaml_values(path: Path, text: str) -> Iterator[tuple[Any, int | None, list[int]]]:
    with told_as_input_errors(path):
        loader = PlainLoader(text)
        for node in yaml_documents(loader):
            yield loader.construct_document(node), node.start_mark.line + 1, _item_lines(node)


def _item_lines(node: yaml.Node) -> list[int]:
    items: yaml.Node = node
    if isinstance(node, yaml.MappingNode):
        items = next((value for key, value in node.value if key.value == "items"), node)
    return [item.start_mark.line + 1 for item in items.value] if isinstance(items, yaml.SequenceNode) else []


def _opened(
    path: Path, value: object, kind: str, place: str, line: int | None, item_lines: list[int]
) -> Iterator[Found]:
    if value is None:
        return
    items: object = value
    if isinstance(value, Mapping):
        kind = value.get("kind") or kind
        if not isinstance(kind, str) or not kind:
            raise InputError(f"{place} has no kind; a Kubernetes object says what it is", path=path, line=line)
        if not (kind.endswith("List") and "items" in value):
            yield Found(kind, value, place, line)
            return
        items = value["items"] or []
        kind = kind.removesuffix("List")
    if not isinstance(items, list):
        raise InputError(f"{place} is no Kubernetes object", path=path, line=line)
    for index, item in enumerate(items):
        at = item_lines[index] if index < len(item_lines) else line
        yield from _opened(path, item, kind, f"{place} item {index + 1}", at, [])
