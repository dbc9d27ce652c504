"""TOML files that users write, read with errors that name file and line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from foresail.errors import InputError

_MOST_PARTS = 100


def read_toml(path: Path, what: str, missing: str) -> dict[str, Any]:
    """The data of a file; `what` is "a profile" or the like, `missing` what to say where there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
        _refuse_endless_keys(path, text)
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(missing, path=path) from None
    except OSError as error:
        raise InputError(f"the {what.rsplit(maxsplit=1)[-1]} cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not UTF-8; {what} is a TOML file in UTF-8", path=path) from error
    except RecursionError as error:
        raise InputError("not TOML that can be read: it nests too deeply", path=path) from error
    except tomllib.TOMLDecodeError as error:
        said = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(said[2]) if said and said[2] else None
        reason = said[1] if said else str(error)
        raise InputError(f"not TOML: {reason[:1].lower()}{reason[1:]}", path=path, line=line) from error
    except ValueError as error:  # a whole number of thousands of digits
        raise InputError(f"not TOML that can be read: {error}", path=path) from error


def _refuse_endless_keys(path: Path, text: str) -> None:
    """Raise if a key has more parts than anybody writes: reading one takes time by the square of them."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MOST_PARTS and line.partition("=")[0].count(".") > _MOST_PARTS:
            raise InputError(
                f"not TOML that can be read: a key of more than {_MOST_PARTS} parts", path=path, line=number
            )
