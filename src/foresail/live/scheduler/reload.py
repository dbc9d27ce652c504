"""A profile file that is edited while the scheduler runs: loaded anew, or kept as it was if the new one is wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from foresail.core.profile import Profile
from foresail.errors import ForesailError
from foresail.live.scheduler.metrics import Metrics
from foresail.logs import get_logger

_LOOK_EVERY_S = 2.0


class Reloader:
    """Watches one file; `now` asks for a look at once (SIGHUP)."""

    def __init__(
        self, path: Path, load: Callable[[], Profile], use: Callable[[Profile], None], metrics: Metrics
    ) -> None:
        self._path = path
        self._load = load
        self._use = use
        self._metrics = metrics
        self._seen = self._content()
        self.now = asyncio.Event()
        self.problem = ""
        """Why the file as it is now is not used; empty if it is."""

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                # Before Python 3.12 wait_for loses a cancel that comes together with news, and this would never end.
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self.now.wait()
            self.now.clear()
            self.look()

    def look(self) -> None:
        """Take the file's profile if it is another one than before."""
        content = self._content()
        if content == self._seen:
            return
        self._seen = content
        try:
            profile = self._load()
            self._use(profile)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the new one, the one before still works
            said = str(error) if isinstance(error, ForesailError) else f"{type(error).__name__}: {error}"
            self.problem = f"the profile before is still used: {said}"
            self._metrics.reloads.labels("refused").inc()
            get_logger().error("profile_refused", path=str(self._path), error=said)
            return
        self.problem = ""
        self._metrics.reloads.labels("loaded").inc()
        get_logger().info("profile_loaded", path=str(self._path), profile=profile.name)

    def _content(self) -> bytes | None:
        # The content, not its time: a ConfigMap's file is a link that is switched to another folder.
        try:
            return self._path.read_bytes()
        except OSError:
            return None
