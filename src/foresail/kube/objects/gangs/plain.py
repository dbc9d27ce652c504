"""Foresail's own form: a label names the gang, and its members say the rest in annotations. It needs no object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.core.spec import parse_topology
from foresail.kube.objects.gangs.form import GangName, Limits, one_name
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import (
    GANG,
    GANG_MIN,
    GANG_TIMEOUT_S,
    GANG_TOPOLOGY,
    seconds_of,
    string,
    whole_number,
)

PLAIN = ""


class PlainGangs:
    """`foresail.dev/gang`."""

    title = PLAIN

    def named(
        self, _spec: Mapping[str, Any], labels: Mapping[str, Any], _annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        name = one_name(labels.get(GANG), f"metadata.labels.{GANG}")
        return GangName(PLAIN, namespace, name) if name else None

    def groups(self, _value: Mapping[str, Any], _namespace: str, _name: str) -> list[tuple[GangName, Limits]]:
        return []


def annotated_limits(annotations: Mapping[str, str]) -> Limits:
    """What a pod itself says of its gang."""
    least = timeout_s = None
    if GANG_MIN in annotations:
        least = whole_number(annotations[GANG_MIN], f"metadata.annotations.{GANG_MIN}", least=1)
    if GANG_TIMEOUT_S in annotations:
        timeout_s = seconds_of(annotations[GANG_TIMEOUT_S], f"metadata.annotations.{GANG_TIMEOUT_S}")
    topology = string(annotations.get(GANG_TOPOLOGY), f"metadata.annotations.{GANG_TOPOLOGY}")
    try:
        parse_topology(topology)
    except ValueError as error:
        raise RequestError(f"metadata.annotations.{GANG_TOPOLOGY}: {error}") from None
    return Limits(least, timeout_s, topology)
