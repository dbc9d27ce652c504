"""YAML that anybody may have written: bounded in depth and expansion, no key twice, and times stay text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from foresail.errors import InputError

DEEPEST = 200
"""Levels of nesting, aliases followed; deeper ones would crash the parser, which calls itself for every level."""
MOST_VALUES = 5_000_000
"""Values of one document, aliases followed: a few lines of aliases to aliases stand for more than any memory holds."""

_TIME, _INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("timestamp", "int", "float", "merge"))


class PlainLoader(yaml.CSafeLoader):
    """Safe YAML as Kubernetes reads it: times stay text, and so does 1:30, which is ninety only in YAML of old."""

    depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError(f"it nests more than {DEEPEST} levels deep")
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in resolvers if tag not in {_TIME, _INT, _FLOAT}]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.add_implicit_resolver(
    _INT, re.compile(r"[-+]?(?:0b[0-1_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$"), list("-+0123456789")
)
PlainLoader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?$|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?$"
        r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def yaml_documents(loader: PlainLoader) -> Iterator[yaml.Node]:
    """The tree of every document, before it becomes values; one that is no honest tree is refused."""
    while loader.check_node():
        node = loader.get_node()
        if node is None:
            return
        _Survey().look_at(node)
        yield node


def read_yaml(path: Path, *, what: str = "", missing: str = "") -> Any:
    """The one document of a file as plain values; None if it is empty. Errors say `what` it was to be."""
    begin = f"{what} " if what else ""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise InputError(missing, path=path) from None
        raise InputError(f"{begin}cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{begin}is not UTF-8 text (byte {error.start}); convert it to UTF-8", path=path) from error
    with told_as_input_errors(path, begin):
        loader = PlainLoader(text)
        found = list(yaml_documents(loader))
        if len(found) > 1:
            raise yaml.MarkedYAMLError(
                problem="another document begins; one is expected", problem_mark=found[1].start_mark
            )
        return loader.construct_document(found[0]) if found else None


@contextmanager
def told_as_input_errors(path: Path, begin: str = "") -> Iterator[None]:
    """Whatever the YAML library raises, as an `InputError` with the line where it knows one."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError(f"{begin}is no YAML: {said}", path=path, line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise InputError(f"{begin}is no YAML: {error}", path=path) from error
    except (RecursionError, ValueError, LookupError, TypeError, OverflowError) as error:
        # Tags that do not go with their values: !!bool x, !!int "".
        raise InputError(f"{begin}is no YAML that can be read: {type(error).__name__}: {error}", path=path) from error


class _Survey:
    """Counts what a document stands for when every alias is followed; anchors stand before their aliases."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int] | None] = {}
        """By node: how many values it stands for and how deep it is; None while it is looked at."""

    def look_at(self, node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 1
        key = id(node)
        if key in self._known:
            known = self._known[key]
            if known is None:
                raise yaml.MarkedYAMLError(problem="an anchor contains itself", problem_mark=node.start_mark)
            return known
        self._known[key] = None
        values, deepest = 1, 0
        for child in self._children(node):
            count, depth = self.look_at(child)
            values, deepest = values + count, max(deepest, depth)
        if values > MOST_VALUES:
            said = f"its aliases stand for more than {MOST_VALUES} values"
            raise yaml.MarkedYAMLError(problem=said, problem_mark=node.start_mark)
        if deepest >= DEEPEST:
            said = f"it nests more than {DEEPEST} levels deep"
            raise yaml.MarkedYAMLError(problem=said, problem_mark=node.start_mark)
        self._known[key] = values, deepest + 1
        return values, deepest + 1

    @staticmethod
    def _children(node: yaml.Node) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
            return
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    said = f'the key "{key.value[:60]}" stands there twice'
                    raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
            yield key
            yield value
