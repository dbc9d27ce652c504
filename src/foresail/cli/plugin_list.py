"""How plug-ins are listed and explained, of whatever kind they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from foresail.plugins.registry import Entry, Registry

Explain = Annotated[bool, typer.Option("--explain", help="Print the maths and the options of each.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def show(registry: Registry, name: str | None, *, explain: bool, as_json: bool) -> None:
    """Print all plug-ins of a registry, or the one of a name. This loads them all; --help must not come here."""
    from foresail.errors import OptionError

    entries = registry.registered()
    if name is not None:
        known = [entry.name for entry in entries]
        entries = [entry for entry in entries if entry.name == name]
        if not entries:
            raise OptionError(registry.unknown(registry.what, name, known))
    if as_json:
        _print_json(entries)
    elif explain or name is not None:
        typer.echo("\n\n".join(_explained(entry) for entry in entries))
    else:
        _print_table(entries)


def _print_json(entries: list[Entry]) -> None:
    import json

    typer.echo(json.dumps([_as_data(entry) for entry in entries], indent=2, ensure_ascii=False))


def _as_data(entry: Entry) -> dict[str, Any]:
    from foresail.plugins.options import options_of

    return {
        "name": entry.name,
        "kind": entry.kind,
        "origin": entry.origin,
        "summary": entry.summary,
        "explanation": entry.explanation,
        "options": [
            {
                "name": option.name,
                "allowed": option.allowed,
                "required": option.required,
                "default": None if option.required else option.default,
            }
            for option in (options_of(entry.factory) if entry.factory is not None else [])
        ],
        "error": entry.error,
    }


def _explained(entry: Entry) -> str:
    from foresail.plugins.options import options_of

    if entry.factory is None:
        return f"{entry.name} ({entry.origin}) cannot be loaded: {entry.error}"
    lines = [f"{entry.name} ({entry.kind}, {entry.origin})", "", *entry.explanation.splitlines()]
    options = options_of(entry.factory)
    if options:
        lines += ["", "Options:"]
        width = max(len(option.name) for option in options)
        for option in options:
            default = "required" if option.required else f"default {option.default}"
            lines.append(f"  {option.name:<{width}}  {option.allowed} ({default})")
    return "\n".join(f"  {line}".rstrip() if at else line for at, line in enumerate(lines))


def _print_table(entries: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("origin", no_wrap=True)
    table.add_column("what it does")
    for entry in entries:
        what = entry.summary if entry.factory is not None else f"cannot be loaded: {entry.error}"
        table.add_row(entry.name, entry.kind or "broken", entry.origin, what)
    Console(soft_wrap=False, highlight=False, markup=False).print(table)
