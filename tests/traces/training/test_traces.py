"""Pods of a trace that train a model, as tables and as Kubernetes objects."""

import pytest

from foresail.errors import InputError
from foresail.traces.trace import check, load_workload
from foresail.traces.training.models import shipped_models

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,duration_s,work_cpu_s,training\n"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, annotations: {foresail.dev/training: TRAINING}}
spec: {containers: [{name: a, resources: {requests: {cpu: 500m}}}]}
"""


def test_a_pod_that_states_neither_work_nor_duration_has_its_models_work(tmp_path):
    path = tmp_path / "pods.csv"
    path.write_text(HEADER + "a,1,1,0,0,,,rnn\nb,1,1,0,0,,5,rnn\nc,1,1,0,0,8,,rnn\nd,1,1,0,0,,,\n")
    workload, _ = load_workload(path)
    lstm = shipped_models().find("lstm")
    assert workload.trainings == [lstm.training]
    assert workload.training_of.tolist() == [0, 0, 0, -1]
    assert workload.work_cpu_s.tolist()[:2] == [lstm.cpu_s, 5.0]
    assert [str(work) for work in workload.work_cpu_s.tolist()[2:]] == ["nan", "nan"]


def test_a_pod_object_names_its_model(tmp_path):
    path = tmp_path / "pods.yaml"
    path.write_text(POD.replace("TRAINING", "birnn"))
    workload, _ = load_workload(path)
    birnn = shipped_models().find("birnn")
    assert (workload.trainings, workload.work_cpu_s.tolist()) == ([birnn.training], [birnn.cpu_s])


def test_an_unknown_model_is_told_with_its_place(tmp_path):
    table, objects = tmp_path / "pods.csv", tmp_path / "pods.yaml"
    table.write_text(HEADER + "a,1,1,0,0,,,vae\nb,1,1,0,0,,,vea\n")
    objects.write_text(POD.replace("TRAINING", "vea"))
    with pytest.raises(InputError, match=r'pods.csv:3: training is "vea", which is no model; did you mean "vae"\?'):
        load_workload(table)
    assert [(one.code, one.line) for one in check(None, table)] == [("FS215", 3)]
    with pytest.raises(InputError, match=r'foresail.dev/training: training is "vea", which is no model; did you mean'):
        load_workload(objects)
