"""`TrainingProgress` as callbacks of training libraries: LightningProgress, KerasProgress, HuggingFaceProgress.

Each is made when it is asked for, so that only the library in use has to be installed. Like `TrainingProgress` they
answer requests for checkpoints, and leave with 143 after SIGTERM, if they know how to save.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

from foresail.workloads import report as reports
from foresail.workloads.progress import TrainingProgress

_EVERY_S = 1.0


class _Lightning:
    """`save(trainer)` puts a checkpoint on disk; without it nothing is saved, and SIGTERM is Lightning's own."""

    def __init__(
        self, save: Callable[[Any], object] | None = None, *, accuracy: str = "val_acc", every_s: float = _EVERY_S
    ) -> None:
        """`accuracy` is the name under which the module logs it; rows are at least `every_s` seconds apart."""
        super().__init__()
        self._save, self._accuracy, self._every_s = save, accuracy, every_s
        self._progress: TrainingProgress | None = None

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        if not trainer.is_global_zero:
            return
        total, save = trainer.estimated_stepping_batches, self._save
        self._progress = TrainingProgress(
            int(total) if math.isfinite(total) and total > 0 else None,
            None if save is None else lambda _step: save(trainer),
            start=trainer.global_step,
            every_s=self._every_s,
        )

    def on_train_batch_end(self, trainer: Any, _module: Any, outputs: Any, _batch: Any, _index: int) -> None:
        if self._progress is not None:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self._progress.step(trainer.global_step, loss, trainer.callback_metrics.get(self._accuracy))

    def on_train_end(self, trainer: Any, _module: Any) -> None:
        if self._progress is not None:
            self._progress.done(trainer.global_step)


class _Keras:
    """`save(model)` puts a checkpoint on disk. Steps go on from those that the model's optimiser has made."""

    model: Any
    params: dict[str, Any]

    def __init__(
        self, save: Callable[[Any], object] | None = None, *, accuracy: str = "accuracy", every_s: float = _EVERY_S
    ) -> None:
        """`accuracy` is the name of the metric; rows are at least `every_s` seconds apart."""
        super().__init__()
        self._save, self._accuracy, self._every_s = save, accuracy, every_s

    def on_train_begin(self, _logs: Any = None) -> None:
        save = self._save
        self._step = int(self.model.optimizer.iterations)
        self._progress = TrainingProgress(
            self.params["epochs"] * self.params["steps"] if self.params.get("steps") else None,
            # The model as Keras hands it out then, with its weights brought up to date.
            None if save is None else lambda _step: save(self.model),
            start=self._step,
            every_s=self._every_s,
        )

    def on_train_batch_end(self, _batch: int, logs: Any = None) -> None:
        self._step += 1
        told = logs or {}
        self._progress.step(self._step, told.get("loss"), told.get(self._accuracy))

    def on_train_end(self, _logs: Any = None) -> None:
        self._progress.done(self._step)


class _HuggingFace:
    """Rows are the Trainer's own logs; checkpoints are saved by the Trainer, where and how it is told to."""

    def __init__(self, *, accuracy: str = "eval_accuracy") -> None:
        """`accuracy` is the name of the metric in evaluations."""
        super().__init__()
        self._accuracy = accuracy

    def _tell(self, state: Any, **values: Any) -> None:
        if state.is_world_process_zero:
            reports.report(state.global_step, state.max_steps, **values)

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
        reports.catch_sigterm()
        if state.global_step:
            self._tell(state, note="resume")

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_rest: Any) -> None:
        if reports.checkpoint_wanted():
            control.should_save = True

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_rest: Any) -> None:
        if "loss" in (logs or {}):
            self._tell(state, loss=logs["loss"])

    def on_evaluate(self, _args: Any, state: Any, _control: Any, metrics: Any = None, **_rest: Any) -> None:
        if self._accuracy in (metrics or {}):
            self._tell(state, accuracy=metrics[self._accuracy])

    def on_save(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
        if state.is_world_process_zero:
            reports.checkpointed(state.global_step)
        if reports.stopping() and state.global_step < state.max_steps:
            reports.flush()
            raise SystemExit(reports.EXIT_INTERRUPTED)

    def on_train_end(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
        self._tell(state, note="done")


_CALLBACKS: dict[str, tuple[type, str, tuple[str, ...]]] = {
    "LightningProgress": (_Lightning, "Callback", ("lightning.pytorch", "pytorch_lightning")),
    "KerasProgress": (_Keras, "Callback", ("keras.callbacks",)),
    "HuggingFaceProgress": (_HuggingFace, "TrainerCallback", ("transformers",)),
}
"""What is ours, and the library's own class that it goes with, under all names of the library."""


def __getattr__(name: str) -> Any:
    """Make the callback that is asked for."""
    if name not in _CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    ours, base, libraries = _CALLBACKS[name]
    for library in libraries:
        try:
            theirs = getattr(importlib.import_module(library), base)
        except ModuleNotFoundError as error:
            if error.name not in {library, library.partition(".")[0]}:
                raise
            continue
        made = type(name, (ours, theirs), {"__doc__": ours.__doc__, "__module__": __name__})
        globals()[name] = made
        return made
    raise ImportError(f"{name} needs {' or '.join(one.partition('.')[0] for one in libraries)}, which is not installed")
