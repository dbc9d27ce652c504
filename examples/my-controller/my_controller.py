"""Trim pods that run long, so that new ones find room."""

from foresail.core.control import Action, Resize, View


class TrimLongRuns:
    """Give pods that run long no more than a core.

    Every pod that requests more than `cpu_milli` and has been on its node for `after_s` is resized to `cpu_milli`.
    """

    every_s = 60.0

    def __init__(self, *, after_s: float = 600.0, cpu_milli: int = 1000) -> None:
        self.after_s, self.cpu_milli = after_s, cpu_milli

    def act(self, view: View) -> list[Action]:
        return [
            Resize(one.pod, self.cpu_milli, why=f"has run for {view.now_s - one.since_s:.0f} s")
            for one in view.running.values()
            if one.cpu_milli > self.cpu_milli and view.now_s - one.since_s >= self.after_s
        ]
