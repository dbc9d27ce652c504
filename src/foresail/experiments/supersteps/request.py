"""What can be asked for: one job under one strategy. Settings alone, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.errors import OptionError, did_you_mean

STRATEGIES = {
    "even": "equal parts for the whole job",
    "exppo": "one split for the whole job, by the slowest task at workload 30",
    "static": "a new split every WINDOW supersteps",
    "dynamic-mpc": "every superstep the cheapest windows, of keeping the split and of changing it",
    "dynamic-window": "the same windows without keeping, each held to its end",
    "scenario": "the cheapest way over many ways in which the work may go on",
    "dqn": "keeping or one of some windows, by a network (--model)",
    "learned": "as scenario, with a network that has a say in when to change (--model)",
}
"""The strategies, each with what it does."""
WINDOWS = {"static": 3, "dynamic-mpc": 10, "dynamic-window": 2, "scenario": 6}
"""How far strategies look ahead unless told."""
KNOWN_WINDOW = 12
"""How far scenario looks ahead where forecasts are perfect: nothing becomes less sure with distance."""
MODEL_STRATEGIES = ("dqn", "learned")
"""Those that a trained model decides; how far they look ahead stands in it."""
PUBLISHED, PERFECT = "published", "perfect"
MODELS = ("spline", "monotone")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Everything that decides what a simulated job takes. Two equal requests over equal files give equal figures."""

    strategy: str = "scenario"
    window: int | None = None
    """How many supersteps are looked ahead, or held; None for the strategy's own."""
    forecast: str = "ensemble"
    """published, perfect, or a forecaster."""
    start: int = 0
    """The row of the data that is the first superstep."""
    length: int = 400
    """How many supersteps."""
    penalty_s: float = 15.0
    """What a change of the split takes."""
    grid_milli: int | None = None
    """CPU is given out in steps of so much; None for a tenth of what every task has, 100 as published."""
    cap_milli: int | None = None
    """The most that a task may have; None for no cap, as published."""
    punishment: float = 1.02
    """dynamic-mpc and dynamic-window: a window of n supersteps counts this to the power of n times its seconds."""
    scenarios: int = 64
    """scenario and learned: how many ways in which the work may go on are looked at."""
    tasks: int | None = None
    """How many tasks the job has; None for as many as the data has. Each brings 3000 milli."""
    runtime: str = "spline"
    """How seconds are told between measured points: spline or monotone."""
    seed: int = 1
    model: str | None = None
    """dqn and learned: the file of a trained model."""

    def __post_init__(self) -> None:
        _check_word(self.strategy, STRATEGIES, "strategy", "strategies")
        _check_word(self.runtime, MODELS, "runtime model", "runtime models")
        for option, value, least in (
            ("--window", self.window, 1),
            ("--start", self.start, 0),
            ("--length", self.length, 1),
            ("--grid", self.grid_milli, 1),
            ("--scenarios", self.scenarios, 2),
            ("--tasks", self.tasks, 1),
            ("--seed", self.seed, 0),
        ):
            if value is not None and value < least:
                raise OptionError(f"{option} is {value}; it is {least} or more")
        if self.strategy in MODEL_STRATEGIES and self.model is None:
            raise OptionError(
                f"--strategy {self.strategy} needs a trained model: --model FILE (foresail train makes one)"
            )
        if self.scenarios % 2:
            raise OptionError(f"--scenarios is {self.scenarios}; it is even, since half of them are mirror images")
        if not 0 <= self.penalty_s < 1e9:
            raise OptionError(f"--penalty is {self.penalty_s:g}; it is a number of seconds, 0 or more")
        if not 0 < self.punishment < 100:
            raise OptionError(f"--punishment is {self.punishment:g}; it is a factor above 0, and 1 for none")

    @property
    def looks_ahead(self) -> int | None:
        """The window that holds; None for a strategy that has none."""
        if self.window is None and self.strategy == "scenario" and self.forecast == PERFECT:
            return KNOWN_WINDOW
        return self.window if self.window is not None else WINDOWS.get(self.strategy)


def _check_word(word: str, known: object, kind: str, kinds: str) -> None:
    names = list(known)  # type: ignore[call-overload]
    if word not in names:
        hint = did_you_mean(word, names) or ";"
        raise OptionError(f'no {kind} "{word}"{hint} {kinds} are {", ".join(names)}')
