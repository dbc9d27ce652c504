"""PriorityClass objects, and the priority that a pod gets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foresail.errors import did_you_mean
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import named_metadata, string, whole_number

_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class PriorityClasses:
    """Priority classes by name, and the priority of pods that name none."""

    values: dict[str, int] = field(default_factory=lambda: dict(_BUILT_IN_PRIORITIES))
    default: int = 0

    def add(self, value: Mapping[str, Any]) -> None:
        _, name = named_metadata(value)
        self.values[name] = whole_number(value.get("value"), "value", least=-(2**31))
        if value.get("globalDefault"):
            self.default = self.values[name]

    def priority(self, spec: Mapping[str, Any]) -> int:
        if spec.get("priority") is not None:
            return whole_number(spec["priority"], "spec.priority", least=-(2**31))
        name = string(spec.get("priorityClassName"), "spec.priorityClassName")
        if not name:
            return self.default
        if name not in self.values:
            raise RequestError(
                f'spec.priorityClassName is "{name}"{did_you_mean(name, self.values)}; '
                f"add the PriorityClass to the file or write spec.priority"
            )
        return self.values[name]
