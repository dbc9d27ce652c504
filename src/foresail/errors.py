"""Every error that Foresail raises on purpose.

    ForesailError            something the user can mend; the command line prints it and exits with 2
    ├── InputError           a file, row or value that cannot be read; carries where it stands
    ├── OptionError          an option, policy or profile that does not exist or does not go with the rest
    ├── PolicyError          a policy raised, or answered with what is no score or no place for a pod
    ├── ControllerError      a controller raised, or answered with what is no action
    ├── ResultsError         a results folder that cannot be written, read or resumed
    ├── LabError             a part of the lab that is missing or does not start; stands in foresail.lab.errors
    └── ClusterError         a cluster that cannot be reached, or that refuses; stands in foresail.kube.api.errors
        ├── Unreachable      no answer: refused connection, name, certificate, timeout
        └── ApiError         an answer other than 2xx: Unauthorized, Forbidden, NotFound, Conflict, Gone, …

A pod that fits nowhere is no error but a value: `foresail.core.model.NoFit`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

_LONGEST = 1000
"""Of a message, and of a path in it."""


_LONGEST_NAME = 200
"""Longer ones are no misspelt names, and comparing them takes time by the square of their length."""


class ForesailError(Exception):
    """Something the user can mend. The message says what happened, the value, and what to do."""


class InputError(ForesailError):
    """A file, row or value that cannot be used, with the place where it stands."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else str(path)
        self.line = line
        place = "" if self.path is None else self.path if line is None else f"{self.path}:{line}"
        message, place = shortened(message, _LONGEST), shortened(place, _LONGEST)
        super().__init__(f"{place}: {message}" if place else message)


class OptionError(ForesailError):
    """An option, policy or profile that does not exist or does not go with the rest."""


class PolicyError(ForesailError):
    """A policy raised, or answered with what is no score or no place for a pod."""


class ControllerError(ForesailError):
    """A controller raised, or answered with what is no action. Names the controller, the pod and the value."""


class ResultsError(ForesailError):
    """A results folder that cannot be written, read or resumed."""


def shortened(text: str, most: int = 80) -> str:
    """The text, or its beginning and how long it is: a value that somebody else wrote may be of any length."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text)} characters)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?` for the nearest known name, or an empty string."""
    if len(name) > _LONGEST_NAME:
        return ""
    near = difflib.get_close_matches(name, [one for one in known if len(one) <= _LONGEST_NAME], n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
