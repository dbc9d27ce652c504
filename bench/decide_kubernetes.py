"""Microseconds a decision of the profile `kubernetes` takes: `python bench/decide_kubernetes.py [--nodes N] [CASE...]`.

Pods are decided and assumed one after another; told are the median and the mean of the
time for both.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from foresail.core.decide import decide
from foresail.core.kubernetes import KubernetesPod, PodTerm, Requirement, Selector, SpreadConstraint, Weighted
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 10


def pod_spec(app: str, owner: str = "", **special: object) -> PodSpec:
    """A pod of 100m and 128 MiB with one label."""
    return PodSpec(
        cpu_milli=100,
        memory_bytes=128 << 20,
        labels=(("app", app),),
        owner=owner,
        kubernetes=KubernetesPod(images=("registry.k8s.io/pause:3.10",), **special),  # type: ignore[arg-type]
    )


def selecting(app: str) -> Selector:
    return Selector((Requirement("app", "In", (app,)),))


def term(app: str, key: str = HOST) -> PodTerm:
    return PodTerm(key, selecting(app), ("default",))


def spread(app: str, skew: int, key: str = ZONE, *, hard: bool) -> SpreadConstraint:
    return SpreadConstraint(skew, key, selecting(app), hard=hard)


def plain(_at: int) -> PodSpec:
    return pod_spec("web")


def hard_spread(at: int) -> PodSpec:
    app = f"spread-{at % 5}"
    return pod_spec(app, spread=(spread(app, 1 + at % 5, hard=True),))


def apart_in_300(at: int) -> PodSpec:
    app = f"apart-{at % 300}"
    return pod_spec(app, anti_affinity=(term(app),))


def apart_in_one(_at: int) -> PodSpec:
    return pod_spec("apart", anti_affinity=(term("apart"),))


def soft(at: int) -> PodSpec:
    app = f"soft-{at % 10}"
    return pod_spec(
        app,
        spread=(spread(app, 1, hard=False), spread(app, 1, HOST, hard=False)),
        preferred_affinity=(Weighted(10, term(app, ZONE)),),
        preferred_anti_affinity=(Weighted(5, term(app)),),
    )


def of_a_service(at: int) -> PodSpec:
    return pod_spec(f"svc-{at % 20}", owner=f"ReplicaSet/svc-{at % 20}")


def all_different(at: int) -> PodSpec:
    app = f"one-{at}"
    kinds: tuple[dict[str, object], ...] = (
        {},
        {"spread": (spread(app, 1, hard=True),)},
        {"anti_affinity": (term(app),)},
        {"spread": (spread(app, 1, hard=False),), "preferred_affinity": (Weighted(10, term(app, ZONE)),)},
    )
    return pod_spec(app, **kinds[at % 4])


def plain_among_others(at: int) -> PodSpec:
    return apart_in_300(at) if at % 2 else plain(at)


CASES: dict[str, tuple[Callable[[int], PodSpec], int]] = {
    "plain": (plain, 3000),
    "hard-spread": (hard_spread, 3000),
    "anti-affinity-300x10": (apart_in_300, 3000),
    "anti-affinity-1x900": (apart_in_one, 900),
    "soft": (soft, 3000),
    "service": (of_a_service, 3000),
    "all-different": (all_different, 3000),
    "plain-among-others": (plain_among_others, 3000),
}


def make_table(nodes: int, there: int) -> NodeTable:
    """Nodes in ten zones with pods of 200 kinds on them."""
    specs = [
        NodeSpec(
            f"node-{row:05}",
            32_000,
            64 << 30,
            max_pods=250,
            labels=((HOST, f"node-{row:05}"), (ZONE, f"z{row % ZONES}")),
        )
        for row in range(nodes)
    ]
    table = NodeTable(specs)
    for at in range(there):
        row = at * 7919 % nodes
        table.assume(table.pod(f"there-{at}", pod_spec(f"there-{at % 200}")), Placement(row, table.names[row]))
    for at in range(20):
        table.objects.services["default", f"svc-{at}"] = {"app": f"svc-{at}"}
        table.objects.controllers["ReplicaSet", "default", f"svc-{at}"] = selecting(f"svc-{at}")
    return table


class Took(NamedTuple):
    """Time of a decision with its assume, and how many pods found no node."""

    median_us: float
    mean_us: float
    refused: int

    def __str__(self) -> str:
        return f"{self.median_us:.0f} / {self.mean_us:.0f} µs" + (f", {self.refused} refused" if self.refused else "")


def measure(name: str, nodes: int, there: int, most: int) -> Took:
    kind, count = CASES[name]
    table, profile = make_table(nodes, there), load_profile("kubernetes")
    decide(table.pod("warm-up", PodSpec()), table, profile)
    waiting = [table.pod(f"pod-{at}", kind(at)) for at in range(min(count, most))]
    took_us, refused = [], 0
    gc.collect()
    gc.freeze()  # what modules have made stays: a process that runs for long need not look through it again and again
    for pod in waiting:
        start_s = time.perf_counter()
        outcome = decide(pod, table, profile)
        if isinstance(outcome, Placement):
            table.assume(pod, outcome)
        else:
            refused += 1
        took_us.append((time.perf_counter() - start_s) * 1e6)
    return Took(statistics.median(took_us), statistics.fmean(took_us), refused)


def lines_of_table(names: list[str], nodes: int, pods_there: list[int], most: int) -> Iterator[str]:
    yield "".join([f"{f'{nodes} nodes':<24}", *(f"{f'{there} there':<24}" for there in pods_there)])
    for name in names:
        yield f"{name:<24}" + "".join(f"{measure(name, nodes, there, most)!s:<24}" for there in pods_there)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all of them")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--there", type=int, nargs="+", default=[0, 3000, 30_000], help="pods on the nodes before")
    parser.add_argument("--pods", type=int, default=3000, help="most pods to decide about in each case")
    asked = parser.parse_args()
    for line in lines_of_table(asked.cases or list(CASES), asked.nodes, asked.there, asked.pods):
        print(line, flush=True)


if __name__ == "__main__":
    main()
