"""The CPU that pods use, from a Prometheus that scrapes kubelets: their `/metrics/cadvisor` or `/metrics/resource`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from foresail.errors import OptionError
from foresail.live.cache.pods import CachedPod
from foresail.live.telemetry.cpu import CpuBook, CpuSourceError
from foresail.live.telemetry.jobs import Jobs

_METRIC = "container_cpu_usage_seconds_total"
_RANGE = "3m"
"""The last sample of a series lies within this time, unless nobody scrapes it any more."""
_TIMEOUT_S = 30.0
_MOST_BYTES = 1 << 26
_MOST_NAMESPACES = 50


def check_prometheus(url: str) -> None:
    """Refuse what is no URL of a Prometheus."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise OptionError(f'--prometheus is "{url}"; write its URL, as in http://prometheus.monitoring:9090')


class PrometheusCpu:
    """One query a look, for the namespaces that have pods of ours."""

    name = "prometheus"

    def __init__(self, url: str, jobs: Jobs, *, token_file: Path | None = None) -> None:
        self.problem = ""
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._jobs = jobs
        self._token_file = token_file

    async def look(self, book: CpuBook) -> int:
        ours = {pod.full_name: pod for pod in self._jobs.pods()}
        found: dict[str, list[tuple[dict[str, str], float, float]]] = {}
        for labels, used_s, at_s in series_in(await self._ask(query(pod.namespace for pod in ours.values()))):
            pod = ours.get(f"{labels.get('namespace')}/{labels.get('pod')}")
            if pod is not None and is_of(labels, at_s, pod):
                found.setdefault(pod.uid, []).append((labels, used_s, at_s))
        for uid, series in found.items():
            book.counted(self.name, uid, counters_of(series), max(at_s for _, _, at_s in series))
        return len(found)

    async def _ask(self, asked: str) -> Any:
        headers = {}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {self._token_file.read_text(encoding='ascii').strip()}"
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, data={"query": asked}, headers=headers, allow_redirects=False) as answer,
            ):
                said = await answer.content.read(_MOST_BYTES)
                while not answer.content.at_eof() and len(said) < _MOST_BYTES:
                    said += await answer.content.read(_MOST_BYTES - len(said))
                status = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise CpuSourceError(f"{self._url}: {error or type(error).__name__}") from error
        with contextlib.suppress(msgspec.DecodeError):
            found = msgspec.json.decode(said)
            if isinstance(found, dict) and found.get("status") == "success":
                return found.get("data")
            if isinstance(found, dict) and found.get("error"):
                raise CpuSourceError(f"{self._url}: {str(found['error'])[:300]}")
        raise CpuSourceError(f"{self._url}: {status}, and no answer of a Prometheus; is this its URL?")


def query(namespaces: Iterable[str]) -> str:
    """What is asked of Prometheus: the last samples of every container in these namespaces."""
    names = sorted(set(namespaces))
    within = f'namespace=~"{"|".join(names)}",' if 0 < len(names) <= _MOST_NAMESPACES else ""
    return f'{_METRIC}{{{within}pod!="",container!="",container!="POD"}}[{_RANGE}]'


def series_in(data: Any) -> Iterator[tuple[dict[str, str], float, float]]:
    """Labels, CPU-seconds and the time of the last sample of each series of an answer."""
    for one in (data.get("result") or ()) if isinstance(data, dict) else ():
        try:
            at_s, used_s = one["values"][-1]
            yield dict(one["metric"]), float(used_s), float(at_s)
        except (KeyError, TypeError, ValueError, IndexError):
            continue


def counters_of(series: Sequence[tuple[dict[str, str], float, float]]) -> dict[str, float]:
    """The counter of each container of a pod. Two endpoints of a kubelet, or two that scrape it, may tell of one."""
    by_group = [one for one in series if one[0].get("id")]
    counters: dict[str, float] = {}
    for labels, used_s, _ in by_group or series:
        container = " ".join(labels.get(name, "") for name in ("container", "id", "name"))
        counters[container] = max(used_s, counters.get(container, 0.0))
    return counters


def is_of(labels: dict[str, str], at_s: float, pod: CachedPod) -> bool:
    """Whether a series is of this pod and not of one that had its name before."""
    group = labels.get("id", "")
    if "pod" in group:
        # The control group of a pod is named after its uid, by systemd with _ for -.
        return pod.uid in group or pod.uid.replace("-", "_") in group
    return pod.started_s is not None and at_s >= pod.started_s
