"""What a run depends on: its input files, the files that its plug-ins read, and the source of plug-ins of a user's own.

A result is only as old as these. They are hashed into the manifest, compared before an earlier result is kept, sent
along to other machines, and checked there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from foresail.controllers import load_companions, load_controllers
from foresail.digest import sha256_of
from foresail.experiments.pins import pins_file
from foresail.experiments.request import RunRequest, WhatIfRequest
from foresail.plugins.files import files_of, sources_of
from foresail.policies.profiles.load import is_profile_file, load_profile, profile_path

SOURCE = "source:"
"""What the keys of sources begin with; behind it stands the path within the package, the same on every machine."""


def input_hashes(request: RunRequest | WhatIfRequest) -> dict[str, str]:
    """SHA-256 of everything that the answer depends on, by path, and by `source:` and the path within the package."""
    return hashes_of(input_files(request), plugins_of(request))


def hashes_of(files: Iterable[str], plugins: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of these files, of what the plug-ins read, and of the source of those that are not built in."""
    plugins = list(plugins)
    hashes = {path: sha256_of(path) for path in files}
    hashes |= {path: sha256_of(path) for path in read_by(plugins)}
    return hashes | source_hashes(plugins)


def input_files(request: RunRequest | WhatIfRequest) -> list[str]:
    """The files that the request names."""
    if isinstance(request, WhatIfRequest):
        files = [request.snapshot, *([request.pods] if request.pods is not None else [])]
    else:
        models = None if request.training is None else request.training.models
        named = (request.nodes, request.pods, request.faults, pins_file(request.pin_to), models)
        files = [path for path in named if path]
    return files + ([profile_path(request.policy)] if is_profile_file(request.policy) else [])


def plugins_of(request: RunRequest | WhatIfRequest) -> list[Any]:
    """The plug-ins of a request: those of its profile, and its controllers."""
    profile = load_profile(request.policy)
    if isinstance(request, WhatIfRequest):
        return profile.all_plugins()
    controllers = load_controllers(request.controllers)
    companions = load_companions(profile.companions, beside=controllers)
    return [*profile.all_plugins(), *companions.values(), *controllers.values()]


def read_by(plugins: Iterable[Any]) -> list[str]:
    """The files that plug-ins say they read, each once."""
    return list(dict.fromkeys(str(path) for plugin in plugins for path in files_of(plugin)))


def source_hashes(plugins: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of the source of plug-ins that are not built in."""
    hashes = {}
    for plugin in plugins:
        for path in sources_of(plugin):
            hashes[f"{SOURCE}{_within_package(path, type(plugin).__module__)}"] = sha256_of(path)
    return hashes


def _within_package(path: Path, module: str) -> str:
    """`package/part.py` wherever the package is installed; the file's name for a module of its own."""
    top = module.partition(".")[0]
    parts = path.parts
    return "/".join(parts[parts.index(top) :]) if top in parts[:-1] else path.name
