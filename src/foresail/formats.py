"""Which file endings mean which format."""

from __future__ import annotations

from pathlib import Path

from foresail.errors import InputError

TABLE_ENDINGS = frozenset({".csv", ".parquet"})
"""Rows with the openb columns."""
JSON_ENDINGS = frozenset({".json", ".jsonl", ".ndjson"})
"""Kubernetes objects: one document, or one a line."""
YAML_ENDINGS = frozenset({".yaml", ".yml"})
"""Kubernetes objects, one or more documents."""
OBJECT_ENDINGS = JSON_ENDINGS | YAML_ENDINGS


def refuse_other_endings(path: Path, known: frozenset[str]) -> None:
    """Raise an `InputError` that lists the known endings, unless the file has one of them."""
    ending = path.suffix.lower()
    if ending not in known:
        what = f'the ending "{ending}" is not known' if ending else "the file has no ending"
        raise InputError(f"{what}; name the file by its format ({', '.join(sorted(known))})", path=path)
