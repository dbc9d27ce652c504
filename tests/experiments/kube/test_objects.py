"""What is submitted to a cluster: trainers by their owner, with as many steps as their work is."""

import pytest

from foresail.errors import OptionError
from foresail.experiments.kube.objects import Submitting, submissions
from foresail.testing import make_workload
from foresail.traces.training.settings import TrainingSettings
from foresail.traces.training.world import make_world

VOLUME = (("hostPath", {"path": "/srv/x", "type": "Directory"}),)


def submitted(owners, **more):
    workload = make_world(TrainingSettings("7", owners=owners, work_spread=0.0, limit_milli=500, cores=0.5), 1).workload
    steps = tuple((training.name, 2.0) for training in workload.trainings)
    submitting = Submitting(image="trainer:1", volume=VOLUME, step_cpu_s=steps, **more)
    return workload, list(submissions(workload, submitting, "ns", "ours"))


def test_a_trainer_is_a_job_a_deployment_or_a_pod():
    _, found = submitted(("Job", "Deployment", "Pod"))
    assert [one.path for one in found[:3]] == [
        "/apis/batch/v1/namespaces/ns/jobs",
        "/apis/apps/v1/namespaces/ns/deployments",
        "/api/v1/namespaces/ns/pods",
    ]
    job, deployment, pod = (one.body for one in found[:3])
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert deployment["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert deployment["spec"]["selector"]["matchLabels"] == {"foresail.dev/job": "job-2"}
    assert pod["spec"]["restartPolicy"] == "Never"
    for name, template in (
        ("job-1", job["spec"]["template"]),
        ("job-2", deployment["spec"]["template"]),
        ("job-3", pod),
    ):
        assert template["metadata"]["labels"] == {"foresail.dev/job": name, "foresail.dev/trace-pod": name}
        # Else nobody would move it: the path is a node's own, for all that Kubernetes knows.
        assert template["metadata"]["annotations"] == {"foresail.dev/shared-volumes": "shared"}
        assert template["spec"]["schedulerName"] == "ours"
        assert template["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m"}


def test_steps_are_the_work_by_what_a_step_takes():
    workload, found = submitted(("Pod",))
    for index, one in enumerate(found):
        command = one.body["spec"]["containers"][0]["command"]
        assert int(command[command.index("--steps") + 1]) == round(workload.work_cpu_s[index] / 2)


def test_pods_that_do_not_train_are_pods():
    workload = make_workload({"a": {"cpu_milli": 100}})
    (one,) = submissions(workload, Submitting(), "ns", "ours")
    assert (one.path, one.body["metadata"]["labels"]) == ("/api/v1/namespaces/ns/pods", {"foresail.dev/trace-pod": "a"})


def test_what_trainers_need_is_said():
    workload = make_world(TrainingSettings("7"), 1).workload
    with pytest.raises(OptionError, match=r"an image \(--image\) and a volume .* \(--shared-folder\)"):
        next(submissions(workload, Submitting(), "ns", "ours"))
