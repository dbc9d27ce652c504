"""One record an event, told to everybody who listens, in the order in which it happened."""

from foresail.core.clock import SimClock
from foresail.core.journal import Journal, Record, What


def test_everybody_hears_everything_from_when_he_listens_with_the_time_of_the_world():
    clock, first, second = SimClock(), [], []
    journal = Journal(clock, first.append)
    journal.note(What.ARRIVE, pod="a")
    clock.advance_to(3.0)
    journal.listen(second.append)
    journal.note(What.MOVE, pod="a", node="n", detail="why", by="mover")
    move = Record(3.0, What.MOVE, "a", "n", "why", "mover")
    assert (first, second) == ([Record(0.0, What.ARRIVE, "a"), move], [move])


def test_one_that_nobody_reads_costs_nothing():
    class NoClock:
        def now(self) -> float:
            raise AssertionError

    journal = Journal(NoClock())
    journal.note(What.END, pod="a")
    assert not journal.is_read
    journal.listen(print)
    assert journal.is_read


def test_every_event_has_a_word_of_its_own():
    assert len({what.value for what in What}) == len(What)
    assert all(what.value == what.name.lower() for what in What)
