"""Web addresses that may carry a user and a password, which no message shows."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit, urlunsplit


def split_login(url: str) -> tuple[str, str | None]:
    """An address without its user and password, and the Authorization header that these two make."""
    at = urlsplit(url)
    if at.username is None:
        return url, None
    shown = urlunsplit(at._replace(netloc=at.netloc.rpartition("@")[2]))
    return shown, basic_authorization(unquote(at.username), unquote(at.password or ""))


def basic_authorization(username: str, password: str) -> str:
    """The header of HTTP's basic authentication."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def without_secret(text: str) -> str:
    """What may be shown of a text that is no address, but may have been meant as one with a password."""
    secret, at, rest = text.rpartition("@")
    scheme, slashes, _ = secret.partition("://")
    return f"{scheme}{slashes}…{at}{rest}" if at and slashes else f"…{at}{rest}" if at else text
