"""A profile: the filters, weighted scores, device rule and tie rule that together decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from foresail.core.model import Codes, Nodes, Pod, Scores
from foresail.core.policy import (
    DeviceRule,
    Filter,
    Indifferent,
    Learning,
    Normalizing,
    ReasonedFilter,
    Score,
    Seeded,
    Skippable,
    is_row_wise,
)
from foresail.core.spec import Workload
from foresail.errors import OptionError, PolicyError


class UsedFilter:
    """A filter under the name the profile gives it."""

    __slots__ = ("_refuses", "_skips", "name", "plugin", "row_wise", "why")

    def __init__(self, name: str, plugin: Filter | ReasonedFilter) -> None:
        self.name = name
        self.plugin = plugin
        self.row_wise = is_row_wise(plugin)
        self._skips = plugin.skips if isinstance(plugin, Skippable) else None
        self._refuses: Callable[[Pod, Nodes], Codes]
        self.why: Callable[[Pod, int], tuple[str, ...]]
        if isinstance(plugin, ReasonedFilter):
            self._refuses, self.why = plugin.refuses, plugin.why
        elif isinstance(plugin, Filter):
            self._refuses = lambda pod, nodes: (~np.asarray(plugin.passes(pod, nodes), dtype=np.bool_)).view(np.uint8)
            self.why = lambda _pod, _code: (plugin.reason,)
        else:
            raise OptionError(f'"{name}" is not a filter: it has neither passes() with a reason, nor refuses()')

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        """0 where a node passes, else the filter's own code."""
        try:
            codes = self._refuses(pod, nodes)
        except Exception as error:
            raise failed(f'filter "{self.name}"', pod, error) from error
        if codes.shape != (len(nodes),):
            raise PolicyError(f'filter "{self.name}" answered with shape {codes.shape} for {len(nodes)} nodes')
        return codes

    def skips(self, pod: Pod, nodes: Nodes) -> bool:
        try:
            return self._skips is not None and self._skips(pod, nodes)
        except Exception as error:
            raise failed(f'filter "{self.name}"', pod, error) from error


class UsedScore:
    """A score under the name and with the weight the profile gives it."""

    __slots__ = ("_normalize", "_same_for_all", "keeps_best", "name", "normalizes", "plugin", "row_wise", "weight")

    def __init__(self, name: str, plugin: Score, weight: float = 1.0) -> None:
        if not isinstance(plugin, Score):
            raise OptionError(f'"{name}" is not a scoring policy: it has no score() method')
        if not np.isfinite(weight) or weight <= 0:
            raise OptionError(f'the weight of "{name}" is {weight}; a weight is a number above 0')
        self.name = name
        self.plugin = plugin
        self.weight = weight
        self.row_wise = is_row_wise(plugin)
        self._normalize = plugin.normalize if isinstance(plugin, Normalizing) else None
        self.normalizes = isinstance(plugin, Normalizing)
        self._same_for_all = plugin.same_for_all if isinstance(plugin, Indifferent) else None
        self.keeps_best = plugin.keeps_best if isinstance(plugin, Normalizing) else True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        """Raw scores, not yet normalised or weighted."""
        try:
            raw = np.asarray(self.plugin.score(pod, nodes))
        except Exception as error:
            raise failed(f'policy "{self.name}"', pod, error) from error
        if raw.shape != (len(nodes),):
            raise PolicyError(f'policy "{self.name}" answered with shape {raw.shape} for {len(nodes)} nodes')
        return raw

    def normalize(self, pod: Pod, nodes: Nodes, raw: Scores) -> Scores:
        try:
            return raw if self._normalize is None else self._normalize(pod, nodes, raw)
        except Exception as error:
            raise failed(f'policy "{self.name}"', pod, error) from error

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None:
        """What every node gets whichever of them are feasible, normalised but not weighted; None if that differs."""
        try:
            return None if self._same_for_all is None else self._same_for_all(pod, nodes)
        except Exception as error:
            raise failed(f'policy "{self.name}"', pod, error) from error


def failed(what: str, pod: Pod, error: Exception) -> PolicyError:
    """The error for a plug-in that raised: whose it is, and on which pod."""
    return PolicyError(f"{what} failed on {pod.name}: {type(error).__name__}: {error}")


class Profile:
    """How to decide. Compiled once, then used for every pod."""

    def __init__(
        self,
        name: str,
        *,
        filters: list[tuple[str, Filter | ReasonedFilter]],
        scores: list[UsedScore],
        devices: DeviceRule,
        devices_given: bool = False,
        tie: UsedScore | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        """`devices` chooses where no score has a rule of its own, or always if `devices_given`.

        `tie` scores the nodes that share the best total; what then still ties goes to the lowest rank.

        `description` is the profile as plain data, for manifests.
        """
        if not scores:
            raise OptionError(f'profile "{name}" has no scores; give it at least one [[scores]] table')
        self.name = name
        self.filters = [UsedFilter(filter_name, plugin) for filter_name, plugin in filters]
        self.scores = scores
        self.tie = tie
        own_rule = next((used.plugin for used in scores if isinstance(used.plugin, DeviceRule)), None)
        self.devices: DeviceRule = devices if devices_given or own_rule is None else own_rule
        self.description = description or {}
        self.lessons = 0
        """How often plug-ins were told something that may change their answers."""

    @property
    def plugins(self) -> list[UsedFilter | UsedScore]:
        """Filters, then scores."""
        return [*self.filters, *self.scores]

    def all_plugins(self) -> list[Any]:
        """The objects behind filters, scores, device rule and tie rule."""
        plugins: list[Any] = [*(used.plugin for used in self.plugins), self.devices]
        return plugins if self.tie is None else [*plugins, self.tie.plugin]

    @property
    def remembers_totals(self) -> bool:
        """Whether a node's total depends on that node alone, so that totals can be kept like scores."""
        row_wise = all(used.row_wise is not False for used in self.plugins)
        return row_wise and (
            (len(self.scores) == 1 and self.scores[0].keeps_best) or not any(used.normalizes for used in self.scores)
        )

    def behind(self, name: str, first: Filter | ReasonedFilter) -> Profile:
        """The same profile behind one more filter, which is asked before all others."""
        return Profile(
            self.name,
            filters=[(name, first), *((used.name, used.plugin) for used in self.filters)],
            scores=self.scores,
            devices=self.devices,
            devices_given=True,
            tie=self.tie,
        )

    def devices_on(self, row: int, pod: Pod, nodes: Nodes) -> tuple[int, ...]:
        """The GPUs of a node that the pod gets; none if it asks for none."""
        if not pod.shape.gpu_count:
            return ()
        try:
            return self.devices.devices(pod, nodes, row)
        except Exception as error:
            raise failed(f'the device rule of "{self.name}"', pod, error) from error

    def learn(self, workload: Workload, nodes: Nodes) -> None:
        """Tell the plug-ins that want to know which pods to expect."""
        self.lessons += 1
        self._each(Learning, lambda plugin: plugin.learn(workload, nodes))

    def seed(self, seed: int) -> None:
        """Tell the plug-ins that draw random numbers the run's seed."""
        self.lessons += 1
        self._each(Seeded, lambda plugin: plugin.seed(seed))

    @property
    def companions(self) -> tuple[str, ...]:
        """The controllers that plug-ins rely on, as `NAME` or `NAME:key=value,…`; worlds give them turns."""
        return tuple(dict.fromkeys(name for plugin in self.all_plugins() for name in getattr(plugin, "companions", ())))

    def _each(self, kind: type[Any], call: Callable[[Any], None]) -> None:
        for plugin in dict.fromkeys(self.all_plugins()):
            if isinstance(plugin, kind):
                call(plugin)
