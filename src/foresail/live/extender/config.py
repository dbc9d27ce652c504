"""The KubeSchedulerConfiguration that goes with an extender: written for a user, or a user's own checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from foresail.errors import InputError
from foresail.live.extender.extender import OTHER_SCORES_MOST, SCORE_STEP
from foresail.live.extender.protocol import BEST
from foresail.live.serving.server import ServerSettings
from foresail.policies.kubernetes import PLUGIN_OF_SCORE, SCORES
from foresail.policies.profiles.scheduler_configuration import API_VERSION, KIND, read_configuration

TIMEOUT_S = 5.0
"""What kube-scheduler waits for an extender where httpTimeout is not given."""
_LEAST_TIMEOUT_S = 1.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the configuration must say of this extender."""

    server: ServerSettings
    binds: bool = False
    prefix: str = ""
    weight: int | None = None
    """Weight of the scores beside kube-scheduler's own; None if the extender chooses the node and nobody scores."""
    sampled: bool = False
    """Whether kube-scheduler may look at a part of the nodes only, as it does of itself from 100 nodes on."""

    @property
    def verbs(self) -> dict[str, str]:
        """Fields of the configuration that say what is asked, and where; others are left out."""
        asked = (
            {"filterVerb": "choose"}
            if self.weight is None
            else {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
        )
        return {**asked, "preemptVerb": "preempt", **({"bindVerb": "bind"} if self.binds else {})}

    @property
    def url_prefix(self) -> str:
        return f"{self.server.url}{self.prefix}"


@dataclass(frozen=True, slots=True)
class ConfigurationFinding:
    """One thing in a configuration that makes kube-scheduler use the extender wrongly."""

    field: str
    value: Any
    why: str
    remedy: str

    def __str__(self) -> str:
        shown = (
            "not given"
            if self.value is None
            else f"is {self.value!r}".replace("True", "true").replace("False", "false")
        )
        return f"{self.field} {shown}: {self.why}; {self.remedy}"


def configuration(wanted: Wanted) -> dict[str, Any]:
    """A whole KubeSchedulerConfiguration, as plain data."""
    extender: dict[str, Any] = {
        "urlPrefix": wanted.url_prefix,
        **wanted.verbs,
        **({} if wanted.weight is None else {"weight": wanted.weight}),
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": f"{TIMEOUT_S:g}s",
        "enableHTTPS": wanted.server.is_tls,
    }
    if wanted.server.is_tls:
        extender["tlsConfig"] = {
            "caFile": "/etc/kubernetes/foresail/ca.crt",
            "certFile": "/etc/kubernetes/foresail/client.crt",
            "keyFile": "/etc/kubernetes/foresail/client.key",
        }
    all_nodes = {} if wanted.sampled else {"percentageOfNodesToScore": 100}
    return {"apiVersion": API_VERSION, "kind": KIND, **all_nodes, "extenders": [extender]}


def configuration_text(wanted: Wanted) -> str:
    """The same as YAML."""
    text: str = yaml.safe_dump(configuration(wanted), sort_keys=False, default_flow_style=False)
    return text


def check_file(path: Path, wanted: Wanted) -> list[ConfigurationFinding]:
    """All that is wrong for this extender in a user's KubeSchedulerConfiguration."""
    return check(read_configuration(path), wanted, path)


def check(stated: Mapping[str, Any], wanted: Wanted, path: Path | None = None) -> list[ConfigurationFinding]:
    extenders = stated.get("extenders") or []
    if not isinstance(extenders, list) or not all(isinstance(one, Mapping) for one in extenders):
        raise InputError("extenders is no list of mappings; foresail extender --print-config shows one", path=path)
    found = [] if wanted.sampled else _percentages(stated)
    ours = [at for at, one in enumerate(extenders) if str(one.get("urlPrefix", "")).rstrip("/") == wanted.url_prefix]
    if len(ours) != 1:
        there = [one.get("urlPrefix") for one in extenders] or None
        return [
            *found,
            ConfigurationFinding(
                "extenders[].urlPrefix",
                there,
                f"{'none' if not ours else 'more than one'} of them is {wanted.url_prefix}",
                "add what foresail extender --print-config prints, or give the extender that --address",
            ),
        ]
    found += _of_ours(f"extenders[{ours[0]}]", extenders[ours[0]], wanted)
    for at, other in enumerate(extenders):
        if at > ours[0] and other.get("filterVerb") and wanted.weight is None:
            found.append(
                ConfigurationFinding(
                    f"extenders[{at}].filterVerb",
                    other["filterVerb"],
                    "that extender is asked after this one, and may refuse the only node that is left",
                    "name this extender last, or start it with --weight",
                )
            )
        if at != ours[0] and other.get("ignorable") and (other.get("filterVerb") or other.get("prioritizeVerb")):
            found.append(
                ConfigurationFinding(
                    f"extenders[{at}].ignorable",
                    other["ignorable"],
                    "when that extender is away, pods are placed without it, and the same pod may go elsewhere",
                    "set it to false",
                )
            )
    return found


def other_scores_most(stated: Mapping[str, Any], wanted: Wanted) -> int:
    """The most that all other scores of a configuration give a node: plug-ins of any profile, and other extenders."""
    most = OTHER_SCORES_MOST
    for profile in stated.get("profiles") or [{}]:
        weights = {PLUGIN_OF_SCORE[name]: weight for name, weight in SCORES.items()}
        weights["what feature gates add"] = OTHER_SCORES_MOST // 100 - sum(SCORES.values())
        plugins = profile.get("plugins") or {}
        for point in ("multiPoint", "score"):
            for plugin in (plugins.get(point) or {}).get("enabled") or []:
                weights[plugin.get("name", "")] = plugin.get("weight") or weights.get(plugin.get("name", ""), 1)
        most = max(most, 100 * sum(weights.values()))
    others = [one for one in stated.get("extenders") or [] if one.get("urlPrefix", "").rstrip("/") != wanted.url_prefix]
    return most + sum(BEST * SCORE_STEP * (one.get("weight") or 0) for one in others if one.get("prioritizeVerb"))


def _percentages(stated: Mapping[str, Any]) -> list[ConfigurationFinding]:
    places = [("percentageOfNodesToScore", stated.get("percentageOfNodesToScore"))]
    for at, profile in enumerate(stated.get("profiles") or []):
        if isinstance(profile, Mapping) and "percentageOfNodesToScore" in profile:
            places.append((f"profiles[{at}].percentageOfNodesToScore", profile["percentageOfNodesToScore"]))
    return [
        ConfigurationFinding(
            place,
            value,
            "from 100 nodes on only a sample of them is looked at and sent",
            "set it to 100, or start the extender with --sample if the best of a sample will do",
        )
        for place, value in places
        if value != 100
    ]


def _of_ours(place: str, ours: Mapping[str, Any], wanted: Wanted) -> list[ConfigurationFinding]:
    found = []

    def need(field: str, good: bool, why: str, remedy: str) -> None:  # noqa: FBT001 - one line a rule
        if not good:
            found.append(ConfigurationFinding(f"{place}.{field}", ours.get(field), why, remedy))

    need(
        "nodeCacheCapable",
        ours.get("nodeCacheCapable") is True,
        "whole nodes are sent, and kube-scheduler 1.33 and later scores them as if they were empty",
        "set it to true",
    )
    need(
        "filterVerb",
        ours.get("filterVerb") == wanted.verbs["filterVerb"],
        "the policy is not asked which node to take" if wanted.weight is None else "the profile is not asked to filter",
        f'set it to "{wanted.verbs["filterVerb"]}"',
    )
    if wanted.weight is None:
        need(
            "prioritizeVerb",
            not ours.get("prioritizeVerb"),
            "scores are asked for, but --weight is not given",
            "leave it out, or start the extender with --weight and set filterVerb to filter",
        )
    else:
        found += _scoring(place, ours, wanted.weight)
    need(
        "preemptVerb",
        ours.get("preemptVerb") in {None, "", "preempt"},
        "nothing is served there",
        'set it to "preempt" or leave it out',
    )
    if wanted.binds:
        need(
            "bindVerb",
            ours.get("bindVerb") == "bind",
            "--bind is given, but binding is not asked for",
            'set it to "bind"',
        )
    else:
        need(
            "bindVerb", not ours.get("bindVerb"), "this extender does not bind", "leave it out, or start it with --bind"
        )
    need(
        "ignorable",
        not ours.get("ignorable"),
        "when the extender is away, pods are placed without it",
        "set it to false",
    )
    timeout_s = _seconds(ours.get("httpTimeout"))
    need(
        "httpTimeout",
        timeout_s is not None and timeout_s >= _LEAST_TIMEOUT_S,
        "answers about nodes that have just come take up to half a second, and one that is late counts as an error",
        f'set it to "{TIMEOUT_S:g}s"',
    )
    https = bool(ours.get("enableHTTPS"))
    need(
        "enableHTTPS",
        https == wanted.server.is_tls,
        f"the extender speaks {'HTTPS' if wanted.server.is_tls else 'plain HTTP'}",
        f"set it to {str(wanted.server.is_tls).lower()}",
    )
    if wanted.server.client_ca is not None:
        shown = ours.get("tlsConfig") or {}
        need(
            "tlsConfig",
            bool((shown.get("certFile") or shown.get("certData")) and (shown.get("keyFile") or shown.get("keyData"))),
            "the extender lets in only those who show a client certificate",
            "give certFile and keyFile",
        )
    return found


def _scoring(place: str, ours: Mapping[str, Any], weight: int) -> list[ConfigurationFinding]:
    """What is wrong where the extender scores beside kube-scheduler's own plug-ins."""
    found, stated = [], ours.get("weight")
    if ours.get("prioritizeVerb") != "prioritize":
        found.append(
            ConfigurationFinding(
                f"{place}.prioritizeVerb",
                ours.get("prioritizeVerb"),
                "the profile is not asked to prioritize",
                'set it to "prioritize"',
            )
        )
    if not isinstance(stated, int) or stated <= 0:
        why, remedy = "the scores do not count", f"set it to {weight}, as --weight says"
        found.append(ConfigurationFinding(f"{place}.weight", stated, why, remedy))
    elif stated != weight:
        why = f"the extender is started with --weight {weight} and relies on it"
        found.append(ConfigurationFinding(f"{place}.weight", stated, why, "let both say the same"))
    return found


def _seconds(value: Any) -> float | None:
    """Seconds of a Go duration such as "5s" or "1m30s"; None if it is none."""
    if value in {None, "", 0, "0", "0s"}:
        return TIMEOUT_S
    if not isinstance(value, str) or not re.fullmatch(f"({_DURATION.pattern})+", value):
        return None
    return sum(float(amount) * _UNIT_S[unit] for amount, unit in _DURATION.findall(value))
