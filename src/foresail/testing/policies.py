"""Does a policy or a filter keep the contract?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.model import Nodes, Pod
from foresail.core.policy import Filter, Indifferent, Learning, Normalizing, ReasonedFilter, Seeded, is_row_wise
from foresail.core.spec import Gang, PodSpec
from foresail.testing.random_clusters import RandomCluster, columns_of, expect, feasible


def check_policy(policy: Any, *, clusters: int = 20, seed: int = 0) -> None:
    """Try a score or a filter on random small clusters; AssertionError where it breaks the contract.

    It must answer with one number a node and never NaN, leave the nodes as they are, give every node its own answer
    however the nodes are ordered, and the same answer to the same question. If it declares `row_wise = True`, no answer
    may depend on other nodes. A policy that draws random numbers (it has `seed`) may depend on the order of the nodes.
    """
    random = np.random.default_rng(seed)
    for _ in range(clusters):
        cluster = RandomCluster(random)
        for pod_spec, gang in cluster.pods:
            _check_one(policy, cluster, pod_spec, gang, random)


def _check_one(
    policy: Any, cluster: RandomCluster, spec: PodSpec, gang: Gang | None, random: np.random.Generator
) -> None:
    name = type(policy).__name__
    table = cluster.table(np.arange(cluster.count))
    pod = Pod("checked", table.shape(spec), gang=gang)
    rows = feasible(pod, table)
    if not len(rows):
        return
    before = columns_of(table)
    answers = _ask(policy, pod, Nodes(table, rows), cluster)
    changed = [column for column, values in columns_of(table).items() if not np.array_equal(values, before[column])]
    expect(not changed, f"{name} changed the nodes it was asked about: {', '.join(changed)}")
    again = _ask(policy, pod, Nodes(table, rows), cluster)
    expect(np.array_equal(answers, again), f"{name} answered the same question with {answers} and then {again}")
    _check_normalize(policy, pod, Nodes(table, rows), answers)
    _check_same_for_all(policy, pod, Nodes(table, rows), answers)
    if isinstance(policy, Seeded):
        return

    order = random.permutation(cluster.count)
    shuffled = cluster.table(order)
    asked = np.flatnonzero(np.isin(order, rows))
    moved = _ask(policy, Pod("checked", shuffled.shape(spec), gang=gang), Nodes(shuffled, asked), cluster)
    expected = answers[np.searchsorted(rows, order[asked])]
    expect(
        np.allclose(moved, expected, rtol=1e-12, atol=1e-12),
        f"{name} does not follow its nodes: shuffled, they get {moved} instead of {expected}",
    )
    if is_row_wise(policy):
        part = np.sort(random.choice(len(rows), size=(len(rows) + 1) // 2, replace=False))
        fewer = _ask(policy, pod, Nodes(table, rows[part]), cluster)
        expect(
            np.array_equal(fewer, answers[part]),
            f"{name} declares row_wise = True, but gives a node another answer when fewer nodes are asked about",
        )
        emptied = cluster.table(np.arange(cluster.count), only_pods_on=set(rows[part].tolist()))
        alone = _ask(policy, Pod("checked", emptied.shape(spec), gang=gang), Nodes(emptied, rows[part]), cluster)
        expect(
            np.array_equal(alone, answers[part]),
            f"{name} declares row_wise = True, but gives a node another answer when pods leave other nodes",
        )


def _ask(policy: Any, pod: Pod, nodes: Nodes, cluster: RandomCluster) -> npt.NDArray[Any]:
    if isinstance(policy, Learning):
        policy.learn(cluster.workload, nodes.table.all)
    if isinstance(policy, Seeded):
        policy.seed(1)
    answer: Any
    if isinstance(policy, ReasonedFilter):
        answer = policy.refuses(pod, nodes)
    elif isinstance(policy, Filter):
        answer = policy.passes(pod, nodes)
    else:
        answer = policy.score(pod, nodes)
    return _checked(type(policy).__name__, answer, len(nodes))


def _checked(name: str, answer: Any, count: int) -> npt.NDArray[Any]:
    answers = np.asarray(answer)
    expect(answers.shape == (count,), f"{name} answered with shape {answers.shape} for {count} nodes")
    expect(answers.dtype.kind in "biuf", f"{name} answered with {answers.dtype}, not with numbers")
    expect(not np.isnan(answers.astype(np.float64)).any(), f"{name} answered with NaN: {answers}")
    return answers


def _check_normalize(policy: Any, pod: Pod, nodes: Nodes, raw: npt.NDArray[Any]) -> None:
    if not isinstance(policy, Normalizing):
        return
    name = type(policy).__name__
    scaled = _checked(f"{name}.normalize", policy.normalize(pod, nodes, raw.copy()), len(nodes))
    if policy.keeps_best:
        expect(
            np.array_equal(raw == raw.max(), scaled == scaled.max()),
            f"{name} declares keeps_best = True, but normalize made {scaled} of {raw}",
        )


def _check_same_for_all(policy: Any, pod: Pod, nodes: Nodes, raw: npt.NDArray[Any]) -> None:
    same = policy.same_for_all(pod, nodes.table.all) if isinstance(policy, Indifferent) else None
    if same is None:
        return
    scaled = policy.normalize(pod, nodes, raw.copy()) if isinstance(policy, Normalizing) else raw
    expect(
        (np.asarray(scaled) == same).all(),
        f"{type(policy).__name__} says that all nodes get {same}, but scores them {scaled}",
    )
