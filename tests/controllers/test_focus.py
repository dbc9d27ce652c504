"""Shares by what jobs have left and by when they are due, and moves that even out the ends."""

from __future__ import annotations

import pytest
from tests.controllers.test_balance_and_gain import crowd, said

from foresail.controllers.focus import Focus
from foresail.core.control import CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL, Move, Resize, View
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import check_controller, make_workload
from foresail.testing.builders import Readings
from foresail.traces.trace import Trace


def resizes(view: View, **options) -> dict[str, int]:
    actions = Focus(moves_a_round=0, **options).act(view)
    assert all(isinstance(action, Resize) for action in actions)
    return {action.pod.name: action.cpu_milli for action in actions}


def test_what_jobs_request_together_stays_what_it_was():
    view = crowd(6, 0, left=lambda at: 50.0 * (at + 1))
    found = resizes(view, dead_band=0.0)
    assert list(found) == [f"job-{at}" for at in range(6)]
    assert found["job-0"] == max(found.values())
    assert 3000 - 6 <= sum(found.values()) <= 3000
    assert min(found.values()) >= 0.02 * 500 - 1


def later(view: View, by_s: float, *, without: tuple[str, ...] = (), resized: dict[str, int] | None = None) -> View:
    """The same some time after, in which nobody has got on: some have left, and requests have changed."""
    running = {
        uid: one._replace(cpu_milli=(resized or {}).get(one.pod.name, one.cpu_milli))
        for uid, one in view.running.items()
        if one.pod.name not in without
    }
    return View(view.now_s + by_s, view.table, running, view.telemetry)


def test_what_favoured_jobs_had_when_they_ended_goes_to_those_that_are_left():
    view = crowd(6, 0, left=lambda at: 50.0 * (at + 1))
    controller = Focus(moves_a_round=0, dead_band=0.0)
    given = {action.pod.name: action.cpu_milli for action in controller.act(view)}
    gone = sorted(given, key=given.__getitem__)[-2:]
    view.table.free[0, 0] += sum(given[name] for name in gone)
    view.table.free[0, 0] += 3000 - sum(given.values())
    after = {name: milli for name, milli in given.items() if name not in gone}
    assert sum(after.values()) < 500
    resized = controller.act(later(view, 5.0, without=tuple(gone), resized=given))
    after |= {action.pod.name: action.cpu_milli for action in resized}
    assert 2000 - 4 <= sum(after.values()) <= 2000


def test_no_more_is_handed_out_than_the_node_has():
    view = crowd(6, 0, left=lambda at: 50.0 * (at + 1))
    controller = Focus(moves_a_round=0, dead_band=0.0)
    given = {action.pod.name: action.cpu_milli for action in controller.act(view)}
    view.table.free[0, 0] = 300  # somebody else has taken what they had
    after = controller.act(later(view, 5.0, resized=dict.fromkeys(given, 100)))
    assert 900 - 6 <= sum(action.cpu_milli for action in after) <= 900


def test_a_job_that_has_waited_its_time_is_given_cpu_before_shorter_ones():
    # Without a controller each of the six on the first node has 2/3 CPU; the last of them, 150 CPU-seconds, came just
    # now, would be done after 150 s and is due after 187 s. The others have been there for long, and have more time.
    view = crowd(6, 1, left=lambda at: 150.0 if at == 5 else 1000.0 if at == 6 else 75.0)
    late = next(uid for uid, one in view.running.items() if one.pod.name == "job-5")
    running = {**view.running, late: view.running[late]._replace(since_s=view.now_s)}
    view = View(view.now_s, view.table, running, view.telemetry)

    def shares(after_s: float, **options) -> dict[str, int]:
        controller = Focus(moves_a_round=0, dead_band=0.0, margin=0.0, **options)
        first = {action.pod.name: action.cpu_milli for action in controller.act(view)}
        assert first["job-5"] == min(first.values())
        return {action.pod.name: action.cpu_milli for action in controller.act(later(view, after_s))}

    # Nobody gets on. It needs 75 s at its limit: after 100 s it can wait for a while, after 120 s no longer.
    assert shares(100.0)["job-5"] < 100
    assert shares(120.0)["job-5"] > 1400
    assert shares(120.0, patience=2.0)["job-5"] < 100
    assert 300 < shares(120.0, urgent=0.25)["job-5"] < 800


def test_a_job_that_may_not_be_moved_gets_its_share_all_the_same():
    view = crowd(6, 0, left=lambda at: 60.0 + 100.0 * at)
    refused = {uid: one._replace(annotations={"foresail.dev/no-move": "true"}) for uid, one in view.running.items()}
    actions = Focus(move_cost_s=1.0).act(View(view.now_s, view.table, refused, view.telemetry))
    assert actions
    assert all(isinstance(action, Resize) for action in actions)
    assert any(isinstance(action, Move) for action in Focus(move_cost_s=1.0).act(view))


def test_every_job_that_was_weighed_is_told_with_what_its_best_move_gains():
    controller = Focus(move_cost_s=5.0, moves_a_round=1)
    actions = controller.act(crowd(6, 0, left=lambda at: 4.0 if at == 0 else 100.0 * at))
    (move,) = [action for action in actions if isinstance(action, Move)]
    told = controller.considered()
    assert {one.pod.name for one in told} == {f"job-{at}" for at in range(1, 6)}  # the first is nearly done
    assert [one.gain for one in told] == sorted((one.gain for one in told), reverse=True)
    assert (told[0].pod, told[0].node, told[0].why, told[0].cost) == (move.pod, "node-1", move.why, 5.0)


def test_small_changes_are_not_made_and_limits_hold():
    view = crowd(2, left=lambda at: 100.0, limit=1000)  # both have all that they can use: equal shares, as they are
    assert resizes(view) == {}
    tight = crowd(3, left=lambda at: 10.0 * (at + 1), cpu=500, limit=600)
    assert all(milli <= 600 for milli in resizes(tight, dead_band=0.0).values())


def test_a_job_that_has_said_nothing_keeps_its_share():
    view = crowd(3, left=lambda at: 30.0 * (at + 1))
    silent = next(iter(view.running))
    told = {key: value for key, value in view.telemetry._readings.items() if key[0] != silent}
    view = View(view.now_s, view.table, view.running, type(view.telemetry)(told))
    assert "job-0" not in resizes(view, dead_band=0.0)


def test_a_crowded_node_gives_jobs_to_an_empty_one_but_not_those_that_are_nearly_done():
    actions = Focus(move_cost_s=5.0).act(crowd(6, 0, left=lambda at: 4.0 if at == 0 else 300.0))
    moves = [action for action in actions if isinstance(action, Move)]
    assert {node for _, node in said(moves)} == {"node-1"}
    assert "job-0" not in dict(said(moves))
    assert not {move.pod.uid for move in moves} & {one.pod.uid for one in actions if isinstance(one, Resize)}


def test_with_a_margin_a_long_job_that_could_just_wait_does_not():
    # Done at 100 s at the earliest: the long one at its limit of two of four CPUs, the two others beside it.
    view = crowd(3, left=lambda at: 190.0 if at == 2 else 100.0)  # 97.5 s for all, of which the long one needs 95
    patient = {"every_s": 1.0, "dead_band": 0.0, "patience": 100.0}
    assert resizes(view, margin=0.0, **patient)["job-2"] < 100
    assert resizes(view, margin=0.04, **patient)["job-2"] > 300


def test_a_change_within_the_dead_band_is_not_made():
    view = crowd(6, 0, left=lambda at: 50.0 * (at + 1))
    given = resizes(view, dead_band=0.0)
    nearly = {name: milli * 10 // 9 for name, milli in given.items()}
    assert resizes(later(view, 0.0, resized=nearly), dead_band=0.0)
    assert resizes(later(view, 0.0, resized=nearly), dead_band=0.25) == {}


def moves_of(view: View, controller: Focus | None = None, **options) -> list[tuple[str, str]]:
    actions = (controller or Focus(**options)).act(view)
    return said([action for action in actions if isinstance(action, Move)])


def test_nobody_leaves_a_node_on_which_all_have_what_they_can_use():
    # Two jobs at their limits of two CPUs each, next to an idle node: a move could gain nothing, not even for nothing.
    assert moves_of(crowd(2, 0, left=lambda at: 500.0), move_cost_s=0.0, least_gain_s=-1000.0) == []
    assert moves_of(crowd(3, 0, left=lambda at: 500.0), move_cost_s=0.0, least_gain_s=-1000.0)


def test_nobody_goes_to_a_node_that_is_done_later():
    # The short jobs of the first node would gain from the second, whose one long job leaves it half idle; but that is
    # where the last end is, and a newcomer could make it later.
    view = crowd(6, 1, left=lambda at: 3000.0 if at == 6 else 100.0)
    assert moves_of(view, move_cost_s=1.0) == []
    assert moves_of(crowd(6, 1, left=lambda at: 100.0), move_cost_s=1.0)


def test_a_round_of_moves_comes_when_it_is_due_and_a_moved_job_rests():
    view = crowd(8, 0, left=lambda at: 300.0)
    controller = Focus(move_cost_s=1.0, moves_a_round=1, move_every_s=20.0, rest_s=60.0)
    first = moves_of(view, controller)
    assert len(first) == 1
    assert moves_of(later(view, 19.0), controller) == []
    moved = [moves_of(later(view, 20.0 * turn), controller)[0] for turn in (1, 2)]
    assert len({*first, *moved}) == 3
    assert moves_of(later(view, 60.0), controller) == first  # it stands where it stood, and has rested


def test_no_more_is_moved_than_there_is_room_for_and_than_a_round_has():
    view = crowd(8, 0, left=lambda at: 300.0, cpu=450)
    assert len(moves_of(view, move_cost_s=1.0, moves_a_round=3)) == 3
    view.table.free[1, 0] = 1000  # room for two
    assert len(moves_of(view, move_cost_s=1.0)) == 2
    view.table.free[1, 0] = 100
    assert moves_of(view, move_cost_s=1.0) == []
    view.table.free[1, 0] = 4000
    view.table.unschedulable[1] = True
    assert moves_of(view, move_cost_s=1.0) == []


def test_a_move_that_gains_too_little_is_not_made_and_the_last_end_counts():
    view = crowd(6, 0, left=lambda at: 100.0)
    assert moves_of(view, move_cost_s=1.0, least_gain_s=1e6) == []
    # All ends fall by the same with and without the weight; with it a move is worth so much more.
    gains = []
    for weight in (0.0, 10.0):
        controller = Focus(move_cost_s=1.0, makespan_weight=weight, moves_a_round=1)
        controller.act(view)
        gains.append(controller.considered()[0].gain)
    assert gains[1] - gains[0] == pytest.approx(10 * (150.0 - 125.0))  # 600 CPU-seconds on four CPUs, or 500


def test_the_longer_a_move_takes_the_less_it_gains():
    view = crowd(6, 0, left=lambda at: 100.0)
    gains = []
    for cost_s in (0.0, 10.0):
        controller = Focus(move_cost_s=cost_s, moves_a_round=1)
        controller.act(view)
        gains.append(controller.considered()[0].gain)
    assert gains[0] - gains[1] == pytest.approx(10.0)


def test_under_light_load_nobody_is_touched():
    assert Focus().act(crowd(2, 2, 1, left=lambda at: 100.0 + at)) == []


def learners(*parts: float, counts: tuple[int, ...] = (), losses: dict[int, float] | None = None) -> View:
    """Jobs of 400 CPU-seconds that have done these parts of their work, all on the first node unless said otherwise."""
    view = crowd(*(counts or (len(parts), 0)))
    readings = {}
    for at, uid in enumerate(view.running):
        readings[uid, CPU_USED_S] = 400.0 * parts[at]
        readings[uid, STEPS_DONE], readings[uid, STEPS_TOTAL] = 1000.0 * parts[at], 1000.0
        if losses is not None:
            readings[uid, LOSS] = losses[at]
    return View(view.now_s, view.table, view.running, Readings(readings))


def accuracy_shares(*views: View, **options) -> list[str]:
    """Names of the jobs by what they are given after these turns, most first."""
    controller = Focus(aim="accuracy", moves_a_round=0, dead_band=0.0, **options)
    given: dict[str, int] = {}
    for view in views:
        given |= {action.pod.name: action.cpu_milli for action in controller.act(view)}
    return sorted(given, key=lambda name: (-given[name], name))


def test_those_that_learn_come_first_with_the_least_to_do_until_they_have():
    # Four CPUs, two for each: the second and third learn, and the third has less to do. The first is nearly done.
    assert accuracy_shares(learners(0.9, 0.05, 0.2, 0.5))[:2] == ["job-1", "job-2"]
    assert accuracy_shares(learners(0.1, 0.05, 0.2, 0.15))[:2] == ["job-2", "job-3"]
    assert accuracy_shares(learners(0.9, 0.05, 0.2, 0.5), learning=0.1)[:2] == ["job-1", "job-0"]
    assert accuracy_shares(learners(0.9, 0.05, 0.2, 0.5), learning=0.0)[0] == "job-0"


def test_one_that_learns_on_comes_before_those_that_do_not():
    turns = [
        learners(*(0.3 + 0.05 * turn for _ in range(4)), losses={0: 1.0, 1: 2.0 - 0.2 * turn, 2: 1.0, 3: 1.0})
        for turn in range(4)
    ]
    assert accuracy_shares(*turns)[0] == "job-1"
    # Before there is anything to compare, and as soon as it has grown little, it is one of the others.
    assert accuracy_shares(turns[0])[0] != "job-1"
    little = learners(0.5, 0.5, 0.5, 0.4, losses={0: 1.0, 1: 1.39, 2: 1.0, 3: 1.0})
    assert accuracy_shares(*turns, little)[0] != "job-1"


def test_those_that_learn_are_moved_where_learning_ends_sooner():
    # Four that learn for 100 CPU-seconds share four CPUs; elsewhere is nobody. The two others are in nobody's way.
    view = learners(0.0025, 0.0025, 0.0025, 0.0025, 0.5, 0.6)
    moves = [one for one in Focus(aim="accuracy", move_cost_s=5.0).act(view) if isinstance(one, Move)]
    assert len([move for move in moves if move.pod.name in {"job-0", "job-1", "job-2", "job-3"}]) == 2
    # With 30 s to stand still it would be over sooner where they are: only those move that learn no more.
    moves = [one for one in Focus(aim="accuracy", move_cost_s=30.0).act(view) if isinstance(one, Move)]
    assert {move.pod.name for move in moves} <= {"job-4", "job-5"}


@pytest.mark.parametrize("aim", ["completion", "accuracy"])
def test_the_contract(aim):
    check_controller(Focus(aim=aim))


@pytest.mark.parametrize(
    "options",
    [
        {"every_s": 0.0},
        {"move_every_s": -1.0},
        {"floor": 1.0},
        {"dead_band": -0.1},
        {"aim": "glory"},
        {"margin": 1.0},
        {"patience": 0.9},
        {"urgent": 1.1},
        {"learning": 1.0},
        {"moves_a_round": -1},
        {"rest_s": -1.0},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Focus(**options)


def test_jobs_end_sooner_in_the_mean_and_no_later_in_all():
    fine = Training("fine", steps=1000, report_every=10)
    pods = make_workload(
        {
            f"job-{at}": {
                "cpu_milli": 500,
                "work_cpu_s": 100.0 + 150 * (at % 4),
                "cpu_limit_milli": 4000,
                "arrival_s": 5.0 * at,
                "training": fine,
            }
            for at in range(12)
        }
    )
    trace = Trace("twelve", [NodeSpec(f"n{at}", 8000, 1 << 30) for at in range(2)], pods, {})
    settings = ClockSettings(work="shared-cpu", restart_time_s=10.0)
    alone = run_clock(trace, load_profile("least-allocated"), settings=settings).summary
    focused = run_clock(
        trace, load_profile("least-allocated"), settings=settings, controllers={"focus": Focus(move_cost_s=10.0)}
    ).summary
    assert focused["completion_s"]["mean"] < 0.9 * alone["completion_s"]["mean"]
    assert focused["makespan_s"] <= 1.02 * alone["makespan_s"]
