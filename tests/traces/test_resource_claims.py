"""Pods of a trace that name resource claims: read, written back, and refused in a simulation."""

import json

from tests.traces.object_files import write_pods

from foresail.core.journal import What
from foresail.core.resource_claims import named_claims
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.traces.kubernetes import read_nodes, read_pods
from foresail.traces.trace import Trace

NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
CLAIMS = [{"name": "nic", "resourceClaimTemplateName": "nics"}, {"name": "gpu", "resourceClaimName": "shared"}]


def make(name, **spec):
    resources = {"requests": {"cpu": "1"}}
    annotations = {"foresail.dev/duration-s": "5"}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"resources": resources}], **spec},
    }


def test_claims_are_kept_and_such_a_pod_never_starts(tmp_path):
    path, again = tmp_path / "cluster.json", tmp_path / "again.yaml"
    path.write_text(json.dumps([NODE, make("p", resourceClaims=CLAIMS), make("q")]))
    nodes, _ = read_nodes(path)
    workload, _ = read_pods(path)
    assert named_claims(NodeTable(nodes).pod("p", workload.spec(0))) == ("nic", "shared")
    write_pods(again, workload)
    assert read_pods(again)[0].specs == workload.specs
    log: list[tuple[float, str, str]] = []

    def note(record):
        if record.what is not What.ARRIVE:
            log.append((record.time_s, record.what, record.pod))

    run_clock(Trace("test", nodes, workload), load_profile("best-fit"), listeners=[note])
    assert log == [(0, "give_up", "p"), (0, "start", "q"), (5, "end", "q")]
