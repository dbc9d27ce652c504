"""Made-up training jobs: the published schedules to the second, the same jobs for every start, and where they start."""

import json
from collections import Counter

import numpy as np
import pytest

from foresail.errors import InputError, OptionError
from foresail.traces.training.models import SHIPPED, shipped_models
from foresail.traces.training.settings import TrainingSettings
from foresail.traces.training.world import make_world


def jobs(world):
    workload = world.workload
    return [
        (workload.trainings[at].name, time_s)
        for at, time_s in zip(workload.training_of.tolist(), workload.arrival_s.tolist(), strict=True)
    ]


def test_seven_jobs_come_as_published():
    times_s = [time_s for _, time_s in jobs(make_world(TrainingSettings("7"), 1))]
    assert times_s == [25, 43, 50, 65, 86, 142, 192]


def test_twenty_five_jobs_come_as_published():
    found = jobs(make_world(TrainingSettings("25"), 1))
    times_s = "75,359,2,273,23,300,134,447,281,432,36,23,248,28,279,31,314,324,427,354,435,118,296,264,224"
    models = (
        "drnn,lenet,drnn,birnn,drnn,rnn,drnn,rnn,rnn,lenet,drnn,vae,vae,lenet,birnn,vae,birnn,drnn,birnn,rnn,vae,drnn,"
        "vae,drnn,drnn"
    )
    assert [time_s for _, time_s in found] == [float(text) for text in times_s.split(",")]
    assert [name for name, _ in found] == models.replace("rnn,", "rnn,").replace(",rnn", ",lstm").split(",")


def test_twenty_jobs_come_every_thirty_seconds():
    assert [time_s for _, time_s in jobs(make_world(TrainingSettings("20"), 1))] == [30.0 * n for n in range(1, 21)]


def test_a_random_schedule_draws_models_and_whole_seconds_uniformly():
    found = jobs(make_world(TrainingSettings("random", jobs=6000, over_s=99), 3))
    counts = Counter(name for name, _ in found)
    assert set(counts) == {model.name for model in shipped_models().all}
    assert all(abs(count - 1000) < 150 for count in counts.values())
    seconds = Counter(time_s for _, time_s in found)
    assert set(seconds) == {float(second) for second in range(100)}


def test_a_seed_is_one_world_and_another_seed_another():
    one, again, other = (make_world(TrainingSettings("50"), seed) for seed in (5, 5, 6))
    assert jobs(one) == jobs(again)
    assert one.workload.work_cpu_s.tolist() == again.workload.work_cpu_s.tolist()
    assert jobs(one) != jobs(other)
    assert len(one.workload) == 50


def test_jobs_are_the_same_for_every_start_cluster_and_limit():
    worlds = [
        make_world(TrainingSettings("50", start=start, cores=cores, limit_milli=limit), 5)
        for start, cores, limit in (("balanced", 16, 4000), ("cold-images", 8, 2000), ("released", 16, 4000))
    ]
    assert jobs(worlds[0]) == jobs(worlds[1]) == jobs(worlds[2])
    assert worlds[0].workload.work_cpu_s.tolist() == worlds[1].workload.work_cpu_s.tolist()


def test_work_is_scaled_to_its_mean_over_models_and_spread():
    plain = TrainingSettings("random", jobs=20_000, work_spread=0.0, mean_work_cpu_s=100.0)
    assert make_world(plain, 1).workload.work_cpu_s.mean() == pytest.approx(100.0, rel=0.02)
    measured = make_world(TrainingSettings("7", work_spread=0.0, mean_work_cpu_s=0.0), 1).workload
    assert measured.work_cpu_s[0] == shipped_models().find("birnn").cpu_s
    spread = make_world(TrainingSettings("7", work_spread=0.3, mean_work_cpu_s=0.0), 1).workload
    assert not np.allclose(spread.work_cpu_s, measured.work_cpu_s)


def test_nodes_have_all_images_unless_they_are_cold():
    images = {model.image for model in shipped_models().all}
    warm = make_world(TrainingSettings("7", image_mib=2), 1).nodes
    assert [node.name for node in warm] == ["node-1", "node-2", "node-3", "node-4"]
    assert all(dict(node.kubernetes.images) == dict.fromkeys(images, 2 * 2**20) for node in warm)
    assert all(node.kubernetes is None for node in make_world(TrainingSettings("7", start="cold-images"), 1).nodes)


def test_the_released_start_is_that_of_the_log():
    world = make_world(TrainingSettings("50", start="released"), 7)
    assert Counter(world.first_node.values()) == {"node-1": 12, "node-2": 6, "node-3": 3, "node-4": 5}
    by_time = np.argsort(world.workload.arrival_s, kind="stable")
    number = {world.workload.names[index]: place for place, index in enumerate(by_time.tolist(), start=1)}
    on_third = sorted(number[name] for name, node in world.first_node.items() if node == "node-3")
    assert on_third == [10, 12, 17]
    assert {22, 26}.isdisjoint(number[name] for name in world.first_node)


def test_a_random_start_uses_every_node():
    first = make_world(TrainingSettings("random", jobs=4000, start="random"), 1).first_node
    assert all(abs(count - 1000) < 120 for count in Counter(first.values()).values())
    assert len(first) == 4000


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"schedule": "24"}, 'no schedule "24"; there are 7, 20, 25, 50, random'),
        ({"schedule": "random"}, "jobs is not given but schedule is random"),
        ({"schedule": "7", "jobs": 7}, "jobs is 7 but schedule is 7"),
        ({"schedule": "25", "over_s": 9.0}, "over_s is 9 but schedule 25 has its own times"),
        ({"schedule": "7", "start": "cold"}, 'no start "cold"'),
        ({"schedule": "7", "cores": 0.0}, "cores is 0; write CPUs of a node"),
        ({"schedule": "7", "nodes": 0}, "nodes is 0; write 1 or more"),
        ({"schedule": "7", "request_milli": 5000}, "request_milli is 5000; it is at most limit_milli, 4000"),
        ({"schedule": "7", "work_spread": -1.0}, "work_spread is -1; write a number, 0 or more"),
        ({"schedule": "7", "start": "released", "nodes": 3}, 'start "released" is over four nodes, and nodes is 3'),
    ],
)
def test_what_makes_no_sense_is_told(settings, told):
    with pytest.raises(OptionError) as error:
        TrainingSettings(**settings)
    assert str(error.value).startswith(told)


def test_jobs_belong_to_their_owners_in_turn_and_to_jobs_unless_told():
    owners = [spec.owner for spec in make_world(TrainingSettings("7"), 1).workload.specs]
    assert owners == [f"Job/job-{number}" for number in range(1, 8)]
    workload = make_world(TrainingSettings("7", owners=("Pod", "Deployment", "Job")), 1).workload
    found = [workload.spec(index).owner for index in range(7)]
    assert found == ["", "ReplicaSet/job-2", "Job/job-3", "", "ReplicaSet/job-5", "Job/job-6", ""]
    with pytest.raises(OptionError, match=r'no owner "Jobs"; did you mean "Job"\? there are Job, Deployment, Pod'):
        TrainingSettings("7", owners=("Jobs",))


def test_models_come_from_the_file_that_is_named(tmp_path):
    path = tmp_path / "models.json"
    data = json.loads(SHIPPED.read_text())
    data["models"]["birnn"] |= {"cpu_s": 7.5, "start_cpu_s": 0.75}
    path.write_text(json.dumps(data))
    settings = TrainingSettings("7", work_spread=0.0, mean_work_cpu_s=0.0, models=str(path))
    workload = make_world(settings, 1).workload
    assert workload.work_cpu_s[0] == workload.work_cpu_s[6] == 7.5
    assert [training.start_cpu_s for training in workload.trainings] == [0.75, 0, 0, 0, 0, 0]
    data["models"]["birnn"]["start_cpu_s"] = -1
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="model birnn: start_cpu_s is -1; it is a number of CPU-seconds, 0 or more"):
        make_world(settings, 1)
