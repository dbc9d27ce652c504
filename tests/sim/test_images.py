"""Images that nodes pull as pods start there."""

from dataclasses import replace

from foresail.core.kubernetes import KubernetesNode, KubernetesPod
from foresail.core.spec import NodeSpec
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import make_workload
from foresail.traces.trace import Trace

RED, BLUE = KubernetesPod(images=("red:1",)), KubernetesPod(images=("blue:1",))
SMALL = {"cpu_milli": 10, "duration_s": 5.0}


def where(pods, settings, nodes=None, policy="kube-image-locality"):
    trace = Trace("t", nodes or [NodeSpec(name, 4000, 2**30) for name in "abc"], make_workload(pods))
    result = run_clock(trace, load_profile(policy), settings=settings)
    return dict(zip(result.placements["pod"], result.placements["node"], strict=True)), result


def pods():
    # The first of each kind stand where nothing draws them: the first red one is pushed off node a by a full one.
    return {
        "full": {"cpu_milli": 4000, "duration_s": 2.0},
        "red": {**SMALL, "arrival_s": 1.0, "kubernetes": RED},
        "blue": {**SMALL, "arrival_s": 3.0, "kubernetes": BLUE},
        "red again": {**SMALL, "arrival_s": 4.0, "kubernetes": RED},
        "red late": {**SMALL, "arrival_s": 60.0, "kubernetes": RED},
    }


def test_a_node_has_an_image_once_a_pod_with_it_has_started_there():
    placed, _ = where(pods(), ClockSettings(pulled_image_mib=1200))
    assert placed == {"full": "a", "red": "b", "blue": "a", "red again": "b", "red late": "b"}


def test_without_the_setting_nodes_pull_nothing():
    placed, _ = where(pods(), ClockSettings())
    assert placed == {"full": "a", "red": "b", "blue": "a", "red again": "a", "red late": "a"}


def test_an_image_that_is_there_keeps_its_size():
    nodes = [
        NodeSpec("a", 4000, 2**30),
        NodeSpec("b", 4000, 2**30, kubernetes=KubernetesNode(images=(("red:1", 600 * 2**20),))),
        NodeSpec("c", 4000, 2**30),
    ]
    only_red = {name: pod for name, pod in pods().items() if name.startswith("red")}
    placed, _ = where(only_red, ClockSettings(pulled_image_mib=1), nodes)
    assert set(placed.values()) == {"b"}


def test_what_is_measured_does_not_depend_on_images():
    """A node that changes makes the table count its touches anew, which the meter must not miss."""
    _, pulling = where(pods(), ClockSettings(pulled_image_mib=1200), policy="least-allocated")
    _, plain = where(pods(), ClockSettings(), policy="least-allocated")
    assert pulling.placements["node"] == plain.placements["node"]
    assert pulling.timeline["used_cpu_milli"].tolist() == plain.timeline["used_cpu_milli"].tolist()
    assert replace(pulling, profile={}).summary == replace(plain, profile={}).summary
