"""What changes while pods run, one file a controller. Knows the core's contract of controllers, no world and no clock.

Other packages add theirs with an entry point in the group `foresail.controllers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foresail.errors import OptionError
from foresail.plugins.naming import parse_named, written
from foresail.plugins.registry import PluginKind, Registry

CONTROLLERS = {
    "balance": "foresail.controllers.balance:Balance",
    "defragment": "foresail.controllers.defragment:Defragment",
    "equal-shares": "foresail.controllers.equal_shares:EqualShares",
    "focus": "foresail.controllers.focus:Focus",
    "gain": "foresail.controllers.gain:Gain",
    "migrate": "foresail.controllers.migrate:Migrate",
    "supersteps": "foresail.controllers.supersteps.controller:Supersteps",
    "watch-progress": "foresail.controllers.watch_progress:WatchProgress",
}

REGISTRY = Registry(
    "foresail.controllers",
    "foresail controllers",
    [PluginKind("controller", CONTROLLERS, ("act",))],
)


def controller(name: str, **options: Any) -> Any:
    """Make a fresh controller."""
    return REGISTRY.build("controller", name, options)


def in_words(controllers: Mapping[str, Any]) -> str:
    """Controllers with how often they have their turns: "equal-shares every 10 s, mover when it says"."""
    said = []
    for name, one in controllers.items():
        every_s = getattr(one, "every_s", None)
        said.append(f"{name} when it says" if every_s is None else f"{name} every {every_s:g} s")
    return ", ".join(said)


def load_controllers(named: Iterable[str]) -> dict[str, Any]:
    """Fresh controllers from `NAME` or `NAME:key=value,key=value`, each under that text in its normal form.

    That is the name by which the journal and results tell them apart; one controller may stand there twice with
    different options.
    """
    loaded: dict[str, Any] = {}
    for text in named:
        name, options = parse_named(text, "controller", next(iter(CONTROLLERS)))
        made, values = REGISTRY.find("controller", name).make(options)
        shown = written(name, values)
        if shown in loaded:
            raise OptionError(f'the controller "{shown}" is given twice; once is enough')
        loaded[shown] = made
    return loaded


def load_companions(named: Iterable[str], beside: Iterable[str] = ()) -> dict[str, Any]:
    """Fresh controllers that the plug-ins of a profile rely on (`Profile.companions`).

    One of a name that stands `beside` is left out: whoever gives it, with options of his own, means that one.
    """
    there = {text.partition(":")[0].strip() for text in beside}
    return load_controllers(text for text in dict.fromkeys(named) if text.partition(":")[0].strip() not in there)
