"""The published strategies once more, in plain Python and scipy: what ours are judged by, and measured beside."""

import numpy as np
from scipy.interpolate import RectBivariateSpline

LEAST, STEP, TOTAL, MOST = 1000, 100, 24000, 8500


class Plain:
    """Rules as they are written down, one call of a spline for every second that is looked up."""

    def __init__(self, tasks, workloads, shares, seconds):
        self.splines = [RectBivariateSpline(workloads, shares, seconds[at], kx=3, ky=3, s=0) for at in range(tasks)]
        self.tasks, self.ends = tasks, (workloads[0], workloads[-1], shares[0], shares[-1])
        self.increments = (TOTAL * tasks // 8 - tasks * LEAST) // STEP

    def seconds(self, task, workload, share):
        low, high, least, most = self.ends
        return float(self.splines[task].ev(min(max(workload, low), high), min(max(share, least), most)))

    def step_seconds(self, workloads, split):
        return [self.seconds(task, workloads[task], split[task]) for task in range(self.tasks)]

    def configure(self, forecast, start, length):
        """The split for some supersteps; `forecast` is tasks × horizon."""
        split = [LEAST] * self.tasks
        for _ in range(self.increments):
            gains = {}
            for ahead in range(length):
                workloads = forecast[:, start + ahead]
                times = self.step_seconds(workloads, split)
                slowest = times.index(max(times))
                after = self.seconds(slowest, workloads[slowest], split[slowest] + STEP)
                gains[slowest] = gains.get(slowest, 0.0) + 0.95**ahead * (times[slowest] - after)
            best = max(sorted(gains), key=gains.get)
            split[best] += STEP
        return split

    def cost(self, forecast, split, start, length):
        return sum(max(self.step_seconds(forecast[:, at], split)) for at in range(start, start + length))

    def windows(self, forecast, current, left, window, penalty_s=15.0, punishment=1.02):
        """What dynamic-mpc says before a superstep: keep or not, and the first window's split and length."""
        cheapest, first = {}, None
        for start in reversed(range(min(window, left))):
            choices = []
            for length in range(1, min(window - start, left, 15) + 1):
                split = self.configure(forecast, start, length)
                cost = punishment**length * self.cost(forecast, split, start, length)
                if start + length < window:
                    cost += cheapest.get(start + length, 0.0) + penalty_s
                choices.append((cost, length, split))
            cheapest[start], length, split = min(choices)
            first = (split, length)
        if current is None:
            return False, *first
        kept = []
        for length in range(1, min(window, left) + 1):
            cost = punishment**length * self.cost(forecast, current, 0, length)
            if length < window:
                cost += cheapest.get(length, 0.0) + penalty_s
            kept.append(cost)
        return min(kept) < cheapest[0] + penalty_s, *first


def made_up(tasks, seed, workloads=6, shares=7):
    """A noisy profile: workloads, shares, seconds (tasks × workloads × shares)."""
    rng = np.random.default_rng(seed)
    work, milli = 10.0 + 8.0 * np.arange(workloads), 1000.0 + 1000.0 * np.arange(shares)
    speed = rng.uniform(0.4, 1.0, (tasks, 1, 1))
    seconds = 5 + rng.uniform(2, 6, (tasks, 1, 1)) * work[:, None] / (milli / 1000) ** speed
    return work, milli, seconds * rng.normal(1.0, 0.03, seconds.shape)
