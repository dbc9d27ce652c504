"""Objects of YAML, JSON and JSON-lines files, each with the line where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from foresail.errors import InputError
from foresail.formats import JSON_ENDINGS, YAML_ENDINGS
from foresail.yaml_files import PlainLoader, told_as_input_errors, yaml_documents


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
        except ValueError as error:  # a whole number of thousands of digits
            raise InputError(f"has a number that cannot be read: {error}", path=path, line=line + 1) from error
        _refuse_half_characters(value, text, start, end, path, line + 1)
        yield value, line + 1
        line += text.count("\n", start, end)
        at = end


def objects(path: Path) -> Iterator[Found]:
    """All objects of a file in order; lists (`List`, `NodeList`, a plain JSON list) are opened."""
    text = read_text(path)
    ending = path.suffix.lower()
    as_json = ending in JSON_ENDINGS or (ending not in YAML_ENDINGS and text.lstrip()[:1] in {"{", "["})
    documents = _json_values(path, text) if as_json else _yaml_values(path, text)
    for number, (value, line, item_lines) in enumerate(documents, 1):
        yield from _opened(path, value, "", f"document {number}", line, item_lines)


def _refuse_half_characters(value: object, text: str, start: int, end: int, path: Path, line: int) -> None:
    """Raise if an escape stands for half a character, which no file can be written with."""
    if text.find("\\ud", start, end) < 0 and text.find("\\uD", start, end) < 0:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end].encode("ascii", "backslashreplace").decode()
        raise InputError(f"{half} is half a character; write both halves", path=path, line=line) from error


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
