"""What controllers weighed is told with what became of it, and nonsense is refused as in answers."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.core.test_control_loop import POD, Every, Obedient, World

from foresail.core.control import Candidate, Considering, Move, Resize
from foresail.core.journal import Considered, Weighed
from foresail.errors import ControllerError
from foresail.testing import make_pod


@dataclass
class Weighs(Every):
    """Tells of these candidates after each turn."""

    candidates: Any = ()
    asked: list[int] = field(default_factory=list)

    def considered(self) -> Any:
        self.asked.append(len(self.turns_s))
        return self.candidates() if callable(self.candidates) else self.candidates


def told(world: World) -> list[Considered]:
    heard: list[Considered] = []
    world.journal.listen_to_candidates(heard.append)
    world.run()
    return heard


def test_each_candidate_is_told_with_what_became_of_it():
    answer = [Move(POD["a"], "crowded", "node-1"), Move(POD["c"], "crowded", "node-0"), Resize(POD["b"], 500, "small")]
    candidates = [
        Candidate(POD["a"], "node-1", "crowded", 12.5, 4, "s"),
        Candidate(POD["a"], "node-0", "not quieter", 1.0, 4.0),
        Candidate(POD["b"], "", "nothing better"),
        Candidate(POD["c"], "node-0", "crowded", 3.0, 2.0, "GPU-s"),
    ]
    world = World(mine=Weighs(10.0, answer, candidates=candidates), steered=Obedient(c="its volume cannot follow"))
    world.running["a"] = world.running["a"]._replace(stable_id="ns/train")
    heard = told(world)
    nan = pytest.approx(math.nan, nan_ok=True)
    assert heard == [
        (0.0, "mine", "a", "ns/train", "node-0", "node-1", 12.5, 4.0, "s", Weighed.CHOSEN, "crowded"),
        (0.0, "mine", "a", "ns/train", "node-0", "node-0", 1.0, 4.0, "s", Weighed.KEPT, "not quieter"),
        (0.0, "mine", "b", "b", "node-0", "", nan, nan, "s", Weighed.KEPT, "nothing better"),
        (0.0, "mine", "c", "c", "node-1", "node-0", 3.0, 2.0, "GPU-s", Weighed.DECLINED, "crowded"),
    ]


def test_a_dry_run_tells_what_would_be_chosen():
    answer = [Move(POD["a"], "crowded", "node-1"), Move(POD["b"], "crowded", "node-0")]
    candidates = [Candidate(POD["a"], "node-1", "crowded"), Candidate(POD["b"], "node-0", "crowded")]
    world = World(dry_run=True, mine=Weighs(10.0, answer, candidates=candidates))
    assert [one.outcome for one in told(world)] == [Weighed.CHOSEN, Weighed.DECLINED]
    assert world.steered.done == []


def test_one_is_asked_once_after_each_turn_and_only_if_somebody_listens():
    weighs = Weighs(10.0)
    world = World(mine=weighs, other=Every())
    world.run()
    assert weighs.asked == []
    world.journal.listen_to_candidates(lambda _: None)
    world.run_until(20.0)
    assert weighs.asked == [2, 3]
    assert isinstance(weighs, Considering)
    assert not isinstance(Every(), Considering)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (None, ": considered() is None; it is a list of Candidate"),
        (["a"], ": considered() has 'a'; it is a list of Candidate"),
        ([Candidate("a", "", "why")], ": Candidate of 'a': pod is a str, not a Pod"),
        (
            [Candidate(make_pod("d"), "", "why")],
            ": Candidate of d: it is not running; weigh moves of the pods in view.running",
        ),
        (
            [Candidate(POD["a"], "node-9", "why")],
            ": Candidate of a: there is no node 'node-9'; the nodes are those in view.table.names",
        ),
        ([Candidate(POD["a"], "", " ")], ": Candidate of a: why is ' '; say in words why"),
        (
            [Candidate(POD["a"], "", "why", math.inf)],
            ": Candidate of a: gain is inf; it is a finite number, or NaN where nobody reckons",
        ),
        (
            [Candidate(POD["a"], "", "why", 1.0, None)],
            ": Candidate of a: cost is None; it is a finite number, or NaN where nobody reckons",
        ),
        (lambda: 1 / 0, ": considered() raised ZeroDivisionError: division by zero at 0 s"),
    ],
)
def test_nonsense_is_an_error_and_nothing_of_the_turn_is_done(candidates, said):
    world = World(mine=Weighs(10.0, [Move(POD["a"], "why", "node-1")], candidates=candidates))
    with pytest.raises(ControllerError) as error:
        told(world)
    assert str(error.value) == f'controller "mine"{said}'
    assert (world.steered.done, world.records) == ([], [])
