"""Does a controller keep the contract?"""

from __future__ import annotations

import copy

import numpy as np

from foresail.core.control import Controller, RunningPod, View
from foresail.core.control_loop import checked
from foresail.errors import ControllerError
from foresail.testing.builders import Readings
from foresail.testing.random_clusters import RandomCluster, columns_of, expect


def check_controller(controller: Controller, *, clusters: int = 20, seed: int = 0) -> None:
    """Give a controller turns on random small clusters; AssertionError where it breaks the contract.

    Every answer must be one that the loop takes, two equal controllers must answer alike, and the view must stay as it
    is. Every cluster is shown to a controller as it was given, with nothing to remember.
    """
    random = np.random.default_rng(seed)
    name = type(controller).__name__
    for _ in range(clusters):
        cluster = RandomCluster(random)
        table = cluster.table(np.arange(cluster.count))
        running = {
            uid: RunningPod(held.pod, table.names[held.row], 0.0, held.pod.spec.cpu_milli)
            for uid, held in table.placed.items()
        }
        for now_s in (0.0, float(random.integers(1, 100_000))):
            view = View(now_s, table, running, Readings({}))
            before, seen = columns_of(table), dict(running)
            answers = [copy.deepcopy(controller).act(view) for _ in range(2)]
            expect(answers[0] == answers[1], f"{name} answered the same view with {answers[0]} and then {answers[1]}")
            changed = [
                column for column, values in columns_of(table).items() if not np.array_equal(values, before[column])
            ]
            expect(not changed and running == seen, f"{name} changed what it was shown: {', '.join(changed)}")
            try:
                checked(name, answers[0], view)
            except ControllerError as error:
                raise AssertionError(str(error)) from error
