"""`python -m foresail.workloads.trainers.measuring NAME`: train a model and print what it took, as JSON.

CPU time is that of the process, whatever else runs on the machine; a step counts by the median, which the first ones
and those that were disturbed do not move.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

POINTS = 41
"""Of a curve: at equal distances of the work, the first before it begins, the last at its end."""


def curve(values: list[float], points: int = POINTS) -> list[float]:
    """A value at equal distances of the work, each the mean over the steps nearest it; first, the first step's."""
    found = [values[0]]
    width = len(values) / (points - 1)
    for at in range(1, points):
        first = min(len(values) - 1, round((at - 0.5) * width))
        near = values[first : max(first + 1, round((at + 0.5) * width))]
        found.append(sum(near) / len(near))
    return [float(f"{value:.5g}") for value in found]


def measure(model: str, steps: int | None, scale: float, seed: int, part: float = 1.0) -> dict[str, Any]:
    """Train once and tell what it took; so many steps, or a part of the model's own."""
    import numpy as np  # noqa: PLC0415 - see main

    from foresail.workloads.checkpoint import CheckpointFolder  # noqa: PLC0415 - see main
    from foresail.workloads.trainers.training import Recipe, TrainingRun  # noqa: PLC0415 - see main

    # With all that was loaded before: a trainer needs it too, whenever it starts.
    begun_s = time.process_time()
    run = TrainingRun(Recipe(model, scale=scale, seed=seed))
    steps = steps or max(2, round(part * run.model.steps))
    cpu_s: list[float] = []
    losses: list[float] = []
    accuracies: list[float] = []
    for step in range(1, steps + 1):
        before_s = time.process_time()
        learnt = run.step(step)
        cpu_s.append(time.process_time() - before_s)
        losses.append(learnt.loss)
        if learnt.accuracy is not None:
            accuracies.append(learnt.accuracy)
        if step % 10 == 0 or step == steps:
            sys.stderr.write(f"{step}/{steps}\n")
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = CheckpointFolder(Path(folder))
        marks_s = [time.process_time()]
        path = checkpoints.save(steps, run.write)
        marks_s.append(time.process_time())
        checkpoints.newest(run.read)
        marks_s.append(time.process_time())
        checkpoint_bytes = path.stat().st_size
    step_cpu_s = statistics.median(cpu_s)
    return {
        "steps": steps,
        "scale": scale,
        "seed": seed,
        "start_cpu_s": begun_s,
        "step_cpu_s": step_cpu_s,
        "step_cpu_s_quartiles": statistics.quantiles(cpu_s, n=4)[::2] if len(cpu_s) > 1 else [step_cpu_s] * 2,
        "cpu_s": steps * step_cpu_s,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "checkpoint_bytes": checkpoint_bytes,
        "save_cpu_s": marks_s[1] - marks_s[0],
        "load_cpu_s": marks_s[2] - marks_s[1],
        "loss": curve(losses),
        "accuracy": curve(accuracies) if accuracies else [],
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m foresail.workloads.trainers.measuring", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Before numpy is loaded, as the trainers have it.
    for library in ("OPENBLAS", "OMP", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    print(json.dumps(measure(given.model, given.steps, given.scale, given.seed, given.part)))


if __name__ == "__main__":
    main(sys.argv[1:])
