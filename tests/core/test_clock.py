import pytest

from foresail.core.clock import SimClock, WallClock


def test_virtual_time_stands_still_until_it_is_moved():
    clock = SimClock()
    seen = [clock.now(), clock.now()]
    clock.advance_to(2.5)
    clock.advance_to(2.5)
    assert [*seen, clock.now()] == [0.0, 0.0, 2.5]


def test_virtual_time_never_goes_back():
    clock = SimClock(start_s=5.0)
    with pytest.raises(ValueError, match=r"stands at 5\.0 s and cannot go back to 4\.0 s"):
        clock.advance_to(4.0)
    assert clock.now() == 5.0


def test_wall_time_counts_from_its_own_start_and_never_runs_backwards():
    clock = WallClock()
    times_s = [clock.now() for _ in range(100)]
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0
