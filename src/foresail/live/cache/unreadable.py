"""Objects that are not as they should be: one such must not end a watch, and is told once."""

from __future__ import annotations

from collections.abc import Iterable

from foresail.kube.objects.values import Object
from foresail.logs import get_logger


class Unreadable(dict[str, str]):
    """Uid of a pod, or kind and name of another object, to why it cannot be used."""

    def note(self, kind: str, value: Object, error: Exception) -> None:
        title = _title(kind, value)
        if self.get(title) != str(error):
            self[title] = str(error)
            get_logger().warning("object_unreadable", kind=kind, name=title.removeprefix(f"{kind} "), why=str(error))

    def clear_of(self, kind: str, value: Object) -> None:
        """The object can be read again, or is gone."""
        self.pop(_title(kind, value), None)

    def keep(self, kind: str, values: Iterable[Object]) -> None:
        """Of this kind there are these objects and no others."""
        there = {_title(kind, value) for value in values}
        for gone in [title for title in self if title.startswith(f"{kind} ") and title not in there]:
            del self[gone]


def _title(kind: str, value: Object) -> str:
    """Kind and name; with the namespace, for each may have an object of that name."""
    metadata = value["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind} {namespace}{metadata['name']}"
