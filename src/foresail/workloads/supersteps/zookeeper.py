"""A board on ZooKeeper: a node for what the job says, one a task for what it reports, and ephemeral ones for presence.

    PATH/job               the job's record
    PATH/tasks/TASK        a task's record; holds its last results, so that no node is left behind by old steps
    PATH/present/TASK.N    there as long as the session of the task's N-th pod is

Several jobs share a server by different paths.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from foresail.workloads.supersteps.board import JOB, Stored, StoreTroubleError

SESSION_S = 10.0
"""A task whose server has not heard of it for so long is not present."""
_CLOSE_S = 5.0
_AGAIN_S = 0.5


class ZooKeeperStore:
    """Records as nodes; sessions that are lost or expire are opened anew by themselves."""

    def __init__(self, hosts: str, path: str, *, login: str = "", session_s: float = SESSION_S) -> None:
        """Nothing is asked yet; with a login (USER:PASSWORD) nodes are for its holders alone."""
        self._path = f"/{path.strip('/')}"
        self.address = f"zookeeper://{hosts}{self._path}"
        user, _, password = login.partition(":")
        quiet = logging.getLogger("foresail.zookeeper")
        quiet.addHandler(logging.NullHandler())
        # The board tells of trouble itself, each kind once.
        quiet.propagate = False
        self._client = KazooClient(
            hosts,
            timeout=session_s,
            auth_data=[("digest", login)] if login else None,
            default_acl=[make_digest_acl(user, password, all=True)] if login else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0),
            logger=quiet,
        )
        self._client.add_listener(self._on_state)
        self._started = False
        self._closing = False
        self._changed = threading.Condition()
        self._changes: Counter[str | None] = Counter()
        """By what is watched: how often it has changed, or may have."""
        self._seen = threading.local()
        """The same when this thread last read: what one has read is still news to another."""
        self._watches: dict[str | None, Callable[[Any], None]] = {}
        self._presence: tuple[str, bytes] | None = None

    def read(self, name: str, by_s: float) -> Stored | None:
        watch, path = self._watch(name), self._node(name)
        while True:
            found = self._ask(by_s, f"read {path}", lambda: self._client.get_async(path, watch=watch), NoNodeError)
            if found is not None:
                return _stored(found)
            # Looked for once more with a watch for its coming, which a failed read does not leave behind.
            if self._ask(by_s, f"look for {path}", lambda: self._client.exists_async(path, watch=watch)) is None:
                return None

    def read_tasks(self, by_s: float, wanted: Collection[str] | None = None) -> Mapping[str, Stored]:
        watch = self._watch(None)
        names = self._children("tasks", by_s, watch)
        if wanted is not None:
            names = [name for name in names if name in wanted]
        asked = {name: self._client.get_async(f"{self._path}/tasks/{name}", watch=watch) for name in names}
        found = {}
        for name, answer in asked.items():
            there = self._ask(by_s, f"read tasks/{name}", functools.partial(_itself, answer), NoNodeError)
            if there is not None:
                found[name] = _stored(there)
        return found

    def write(self, name: str, text: str, was: Stored | None, by_s: float) -> bool:
        path, data = self._node(name), text.encode()
        if was is None:
            made = self._ask(
                by_s, f"create {path}", lambda: self._client.create_async(path, data, makepath=True), NodeExistsError
            )
            return made is not None
        version = int(was.version)
        return (
            self._ask(
                by_s,
                f"write {path}",
                lambda: self._client.set_async(path, data, version=version),
                BadVersionError,
                NoNodeError,
            )
            is not None
        )

    def wait(self, name: str | None, by_s: float) -> None:
        with self._changed:
            seen = getattr(self._seen, "changes", {}).get(name)
            self._changed.wait_for(lambda: self._changes[name] != seen, max(0.0, by_s - time.monotonic()))

    def announce(self, task: str, pod_uid: str, attempt: int, by_s: float) -> None:
        self._presence = (f"{self._path}/present/{task}.{attempt}", pod_uid.encode())
        self._be_present(by_s)

    def present(self, by_s: float) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name in self._children("present", by_s):
            task, _, attempt = name.rpartition(".")
            if attempt.isdecimal() and len(attempt) < 20:
                found[task] = max(int(attempt), found.get(task, 0))
        return found

    def remove(self, by_s: float) -> None:
        self._remove(self._path, by_s)

    def close(self) -> None:
        self._closing = True
        if self._started:
            # A server that does not answer is not waited for; the session then ends by itself.
            ending = threading.Thread(target=self._stop, name="foresail-zookeeper-close", daemon=True)
            ending.start()
            ending.join(_CLOSE_S)

    def _stop(self) -> None:
        with suppress(KazooException, OSError):
            self._client.stop()
            self._client.close()

    def _node(self, name: str) -> str:
        return f"{self._path}/job" if name == JOB else f"{self._path}/tasks/{name}"

    def _children(self, folder: str, by_s: float, watch: Callable[[Any], None] | None = None) -> list[str]:
        path = f"{self._path}/{folder}"
        while True:
            found = self._ask(
                by_s, f"list {path}", lambda: self._client.get_children_async(path, watch=watch), NoNodeError
            )
            if found is not None:
                return list(found)
            if self._ask(by_s, f"look for {path}", lambda: self._client.exists_async(path, watch=watch)) is None:
                return []

    def _remove(self, path: str, by_s: float) -> None:
        """A node with all below it; somebody may add to it meanwhile."""
        while True:
            children = self._ask(by_s, f"list {path}", lambda: self._client.get_children_async(path), NoNodeError)
            for child in children or ():
                self._remove(f"{path}/{child}", by_s)
            try:
                self._ask(by_s, f"remove {path}", lambda: self._client.delete_async(path), NoNodeError)
            except _NotEmptyYetError:
                continue
            return

    def _ask(self, by_s: float, what: str, send: Callable[[], Any], *none: type[KazooException]) -> Any:
        """The answer to a request; None if it fails in one of these ways. Nothing is awaited beyond the time."""
        try:
            self._connect(by_s)
            return send().get(timeout=max(0.0, by_s - time.monotonic()))
        except none:
            return None
        except NotEmptyError as error:
            raise _NotEmptyYetError(f"{what}: others add to it") from error
        except (KazooTimeoutError, TimeoutError) as error:
            raise StoreTroubleError(f"{what} at {self.address}: no answer, the session is {self._state}") from error
        except (KazooException, OSError) as error:
            said = f"{type(error).__name__} {error}".strip()
            raise StoreTroubleError(f"{what} at {self.address}: {said}, the session is {self._state}") from error

    @property
    def _state(self) -> str:
        return str(self._client.state).lower()

    def _connect(self, by_s: float) -> None:
        if not self._started:
            self._client.start_async()
            self._started = True
        left_s = by_s - time.monotonic()
        if not self._client.connected:
            with self._changed:
                connected = self._changed.wait_for(lambda: self._client.connected, max(0.0, left_s))
            if not connected:
                raise KazooTimeoutError("no connection")

    def _watch(self, name: str | None) -> Callable[[Any], None]:
        """What is called when this changes; from here on news of it is news."""
        with self._changed:
            self._seen.changes = {**getattr(self._seen, "changes", {}), name: self._changes[name]}
            # One and the same for each name: a watch that is set again is not set twice.
            return self._watches.setdefault(name, functools.partial(self._on_change, name))

    def _on_change(self, name: str | None, _event: Any) -> None:
        with self._changed:
            self._changes[name] += 1
            self._changed.notify_all()

    def _on_state(self, state: str) -> None:
        """Watches may be lost with a session; whoever waits looks again."""
        with self._changed:
            self._changes.update(self._watches.keys())
            self._changed.notify_all()
        if state == KazooState.CONNECTED and self._presence is not None and not self._closing:
            # The listener itself must not wait for answers: they come by its own thread.
            self._client.handler.spawn(self._be_present_again)

    def _be_present_again(self) -> None:
        while not self._closing and self._client.connected:
            with suppress(StoreTroubleError):
                self._be_present(time.monotonic() + SESSION_S)
                return
            time.sleep(_AGAIN_S)

    def _be_present(self, by_s: float) -> None:
        if self._presence is None:
            return
        path, data = self._presence
        while True:
            made = self._ask(
                by_s,
                f"create {path}",
                lambda: self._client.create_async(path, data, ephemeral=True, makepath=True),
                NodeExistsError,
            )
            if made is not None:
                return
            there = self._ask(by_s, f"look for {path}", lambda: self._client.exists_async(path))
            session = self._client.client_id[0] if self._client.client_id else None
            if there is not None and there.ephemeralOwner == session:
                return
            # No other ever has this number of the task: it is what an earlier session of ours has left.
            self._ask(by_s, f"remove {path}", lambda: self._client.delete_async(path), NoNodeError)


class _NotEmptyYetError(StoreTroubleError):
    """Something was put below a node that was about to be removed."""


def _itself(answer: Any) -> Any:
    return answer


def _stored(found: tuple[bytes, Any]) -> Stored:
    return Stored(found[0].decode("utf-8", errors="replace"), str(found[1].version))
