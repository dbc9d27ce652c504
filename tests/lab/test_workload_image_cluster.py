"""The workload image as a pod has it, on a real kubelet."""

from __future__ import annotations

import os

import pytest

from foresail.lab import Lab, workload_image
from foresail.lab.workload_image import WORKLOAD_IMAGE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root"),
]
PODS = "/api/v1/namespaces/default/pods"
SCRIPT = """set -e
python3 -c 'import numpy; print("numpy", numpy.linalg.norm([3, 4]))'
python3 -c 'import foresail.workloads.supersteps.zookeeper; print("kazoo", "there")'
python3 -m foresail.workloads.supersteps.task --help
stress-ng --cpu 1 -t 2 2>&1
iperf3 --version
iperf3 -s -1 -D -p 5201
until iperf3 -c 127.0.0.1 -p 5201 -t 1 >/tmp/measured; do sleep 0.2; done
grep receiver /tmp/measured
"""


def test_a_pod_computes_stresses_and_measures_and_the_image_outlives_the_lab(labs, nothing_left):
    with Lab("workload", kubelets=1, node_cpu="1", workload_image=True, base=labs) as lab, lab.api() as api:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "works"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": WORKLOAD_IMAGE,
                        "imagePullPolicy": "Never",
                        "command": ["sh", "-c", SCRIPT],
                        "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}},
                    }
                ],
            },
        }
        api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
        api.create(PODS, pod)
        ended = api.wait(
            f"{PODS}/works", lambda found: found["status"]["phase"] in {"Succeeded", "Failed"}, within_s=120
        )
        said = api.text(f"{PODS}/works/log")
        assert ended["status"]["phase"] == "Succeeded", said
        for word in ("numpy 5.0", "kazoo there", "--board", "successful run completed", "iperf 3", "receiver"):
            assert word in said
        # Up again: the node has the image already.
        lab.up()
    assert not lab.folder.exists()
    assert workload_image.archive().is_file()
