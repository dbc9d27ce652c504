from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from foresail import __version__
from foresail.cli.main import app
from foresail.kube.api.kinds import KINDS
from foresail.lab import components
from foresail.policies.profiles.load import load_profile

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart"
needs_helm = pytest.mark.skipif(
    components.find("helm") is None, reason="there is no helm; get it with: foresail lab build --helm"
)

# Each tuple is one thing that may be done: (API group, resource, verb). Nothing else may.
READ = {
    (group, resource, verb)
    for group, resource in (
        ("", "namespaces"),
        ("", "nodes"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("", "services"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "podgroups"),
        ("scheduling.x-k8s.io", "podgroups"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
    )
    for verb in ("get", "list", "watch")
}
WRITE = {
    ("", "pods", "delete"),
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
}
BIND_VOLUMES = {
    ("", "persistentvolumeclaims", "patch"),
    ("", "persistentvolumes", "patch"),
}
PORTS = {"scheduler": 10359, "extender": 10360}
PROBES = {
    "scheduler": tuple(
        {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}} for path in ("/healthz", "/readyz")
    ),
    # It answers nobody without a client certificate, and kubelets have none.
    "extender": ({"tcpSocket": {"port": "https"}}, {"tcpSocket": {"port": "https"}}),
}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([components.need("helm"), *arguments], capture_output=True, text=True, check=False)


def render(*values: str) -> list[dict]:
    sets = [word for value in values for word in ("--set", value)]
    ran = helm("template", "foresail", str(CHART), "--namespace", "foresail", *sets)
    assert ran.returncode == 0, ran.stderr
    return [one for one in yaml.safe_load_all(ran.stdout) if one]


def of_kind(objects: list[dict], kind: str) -> list[dict]:
    return [one for one in objects if one["kind"] == kind]


def one_of(objects: list[dict], kind: str) -> dict:
    (found,) = of_kind(objects, kind)
    return found


def allowed(role: dict) -> set[tuple[str, ...]]:
    """What a role allows, with the names it is limited to."""
    return {
        (group, resource, verb, *rule.get("resourceNames", []))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(objects: list[dict], account: str) -> set[tuple[str, ...]]:
    """What the bindings give a service account in the whole cluster."""
    roles = {role["metadata"]["name"]: role for role in of_kind(objects, "ClusterRole")}
    found: set[tuple[str, ...]] = set()
    for binding in of_kind(objects, "ClusterRoleBinding"):
        if {"kind": "ServiceAccount", "name": account, "namespace": "foresail"} in binding["subjects"]:
            found |= allowed(roles[binding["roleRef"]["name"]])
    return found


def names(objects: list[dict]) -> list[str]:
    return sorted(f"{one['kind']}/{one['metadata']['name']}" for one in objects)


@needs_helm
def test_the_manifests_are_what_the_chart_renders():
    ran = subprocess.run([sys.executable, DEPLOY / "render.py", "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@needs_helm
def test_manifests_that_differ_are_named_and_written_anew(tmp_path):
    command = [sys.executable, DEPLOY / "render.py", "--out", tmp_path]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "extender.yaml").write_text("kind: Other\n")
    ran = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert written == "scheduler.yaml, extender.yaml: written\n"
    assert (ran.returncode, ran.stdout) == (1, "extender.yaml: not as the chart says; run: make manifests\n")


def test_chart_program_and_image_have_one_version(manifests):
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    (container,) = one_of(manifests["scheduler.yaml"], "Deployment")["spec"]["template"]["spec"]["containers"]
    assert (chart["version"], chart["appVersion"], container["image"]) == (
        __version__,
        __version__,
        f"foresail:{__version__}",
    )


def test_the_scheduler_comes_with_all_it_needs_and_nothing_else(manifests):
    assert names(manifests["scheduler.yaml"]) == [
        "ClusterRole/foresail-read",
        "ClusterRole/foresail-scheduler",
        "ClusterRoleBinding/foresail-scheduler",
        "ClusterRoleBinding/foresail-scheduler-read",
        "ConfigMap/foresail-profile",
        "Deployment/foresail-scheduler",
        "Namespace/foresail",
        "NetworkPolicy/foresail-scheduler",
        "PodDisruptionBudget/foresail-scheduler",
        "Role/foresail-lease",
        "RoleBinding/foresail-lease",
        "Service/foresail-scheduler",
        "ServiceAccount/foresail-scheduler",
    ]
    assert names(manifests["extender.yaml"]) == [
        "ClusterRole/foresail-read",
        "ClusterRoleBinding/foresail-extender-read",
        "ConfigMap/foresail-profile",
        "Deployment/foresail-extender",
        "Namespace/foresail",
        "NetworkPolicy/foresail-extender",
        "PodDisruptionBudget/foresail-extender",
        "Service/foresail-extender",
        "ServiceAccount/foresail-extender",
    ]


def test_the_scheduler_may_do_exactly_what_it_needs(manifests):
    objects = manifests["scheduler.yaml"]
    assert granted(objects, "foresail-scheduler") == READ | WRITE | BIND_VOLUMES
    assert allowed(one_of(objects, "Role")) == {
        ("coordination.k8s.io", "leases", "create"),
        ("coordination.k8s.io", "leases", "get", "foresail"),
        ("coordination.k8s.io", "leases", "update", "foresail"),
    }
    (binding,) = of_kind(objects, "RoleBinding")
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("foresail", "foresail-lease")


def test_the_extender_only_reads(manifests):
    assert granted(manifests["extender.yaml"], "foresail-extender") == READ


@needs_helm
def test_an_extender_that_binds_may_bind_and_call_binds_off_and_nothing_more():
    objects = render("scheduler.enabled=false", "extender.enabled=true", "extender.bind=true")
    assert granted(objects, "foresail-extender") == READ | {
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
    }
    assert started(objects)[0][-1] == "--bind"


@needs_helm
def test_without_volume_binding_volumes_are_only_read():
    assert granted(render("volumeBinding=false"), "foresail-scheduler") == READ | WRITE


@needs_helm
def test_only_with_controllers_pods_may_be_resized_and_evicted_and_only_when_asked_kubelets_read():
    objects = render("scheduler.controllers={equal-shares:every_s=30}")
    steers = {
        ("", "pods/resize", "patch"),
        ("", "pods/eviction", "create"),
        ("", "pods", "create"),
        ("apps", "deployments", "get"),
        ("batch", "jobs", "get"),
    }
    assert granted(objects, "foresail-scheduler") == READ | WRITE | BIND_VOLUMES | steers
    assert started(objects)[0][-1] == "--controller=equal-shares:every_s=30"
    records = {("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "update")}
    assert {one for one in allowed(one_of(objects, "Role")) if one[1] == "configmaps"} == records
    objects = render("scheduler.controllers={equal-shares}", "scheduler.measureCpu=true")
    assert granted(objects, "foresail-scheduler") == READ | WRITE | BIND_VOLUMES | steers | {("", "nodes/proxy", "get")}
    assert started(objects)[0][-2:] == ["--controller=equal-shares", "--measure-cpu"]


@pytest.mark.parametrize("component", ["scheduler", "extender"])
def test_a_pod_is_locked_in(manifests, component):
    deployment = one_of(manifests[f"{component}.yaml"], "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    # A scheduler that is not there yet cannot place its own pods.
    assert pod["schedulerName"] == "default-scheduler"
    # Written to are only folders that vanish with the pod and cannot fill the node's disk.
    writable = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert (
        {name for name in writable if "sizeLimit" in volumes[name].get("emptyDir", {})} == writable == {"cache", "tmp"}
    )
    environment = {one["name"]: one["value"] for one in container["env"]}
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert Path(environment["NUMBA_CACHE_DIR"]).is_relative_to(places["cache"])
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert set(container["resources"]) == {"requests", "limits"}
    assert set(container["resources"]["limits"]) == {"memory"}
    alive, ready = PROBES[component]
    probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [{key: probe[key] for key in alive} for probe in probes] == [alive, alive, ready]
    assert container["ports"] == [{"name": "https", "containerPort": PORTS[component], "protocol": "TCP"}]


def test_two_replicas_stand_apart_and_one_stays(manifests):
    objects = manifests["scheduler.yaml"]
    deployment, budget = one_of(objects, "Deployment"), one_of(objects, "PodDisruptionBudget")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert (deployment["spec"]["replicas"], budget["spec"]["minAvailable"]) == (2, 1)
    assert selector.items() <= labels.items()
    pod = deployment["spec"]["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
    selectors = [
        budget["spec"]["selector"],
        apart["labelSelector"],
        pod["topologySpreadConstraints"][0]["labelSelector"],
        one_of(objects, "NetworkPolicy")["spec"]["podSelector"],
        {"matchLabels": one_of(objects, "Service")["spec"]["selector"]},
    ]
    assert selectors == [{"matchLabels": selector}] * len(selectors)


def test_traffic_is_limited_to_metrics_name_servers_and_the_api_server(manifests):
    spec = one_of(manifests["scheduler.yaml"], "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": "https", "protocol": "TCP"}]}]
    assert [(port["port"], port["protocol"]) for rule in spec["egress"] for port in rule["ports"]] == [
        (53, "UDP"),
        (53, "TCP"),
        (443, "TCP"),
        (6443, "TCP"),
    ]


def started(objects: list[dict]) -> tuple[list[str], set[str]]:
    """A pod's arguments and the files that are mounted for it to read."""
    pod = one_of(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    files = set()
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        if "configMap" in volume:
            names = one_of(objects, "ConfigMap")["data"]
        elif "secret" in volume:
            # Of type kubernetes.io/tls, unless single keys are taken.
            names = [item["path"] for item in volume["secret"].get("items", [])] or ["tls.crt", "tls.key"]
        else:
            continue
        files |= {f"{mount['mountPath']}/{name}" for name in names}
    return container["args"], files


def test_the_scheduler_is_started_with_what_is_mounted(manifests):
    arguments, files = started(manifests["scheduler.yaml"])
    assert arguments == [
        "run",
        "--policy=/etc/foresail/profile.toml",
        "--address=0.0.0.0:10359",
        "--tls-cert=/run/secrets/foresail/tls/tls.crt",
        "--tls-key=/run/secrets/foresail/tls/tls.key",
        "--scheduler-name=foresail",
        "--leader-elect",
        "--lease-namespace=foresail",
        "--token-file=/run/secrets/foresail/token/token",
    ]
    assert {value for word in arguments if (value := word.partition("=")[2]).startswith("/")} == files


def test_the_extender_is_started_with_what_is_mounted(manifests):
    arguments, files = started(manifests["extender.yaml"])
    assert arguments == [
        "extender",
        "--policy=/etc/foresail/profile.toml",
        "--address=0.0.0.0:10360",
        "--tls-cert=/run/secrets/foresail/tls/tls.crt",
        "--tls-key=/run/secrets/foresail/tls/tls.key",
        "--client-ca=/run/secrets/foresail/client-ca/ca.crt",
    ]
    assert {value for word in arguments if (value := word.partition("=")[2]).startswith("/")} == files


@pytest.mark.parametrize("component", ["scheduler", "extender"])
def test_the_command_knows_the_arguments(manifests, component):
    (verb, *rest), _files = started(manifests[f"{component}.yaml"])
    verbs = typer.main.get_command(app).commands
    verbs[verb].make_context(verb, rest)  # raises on unknown options and on missing ones


def test_every_kind_that_is_watched_may_be_read():
    """What the scheduler watches is what it may read, no more and no less."""
    watched = set()
    for kind in KINDS.values():
        api, *group, resource = kind.path.strip("/").split("/")
        watched.add((group[0] if api == "apis" else "", resource))
    assert watched == {(group, resource) for group, resource, _verb in READ}


def test_the_default_profile_decides_like_kube_scheduler(manifests, tmp_path):
    path = tmp_path / "profile.toml"
    path.write_text(one_of(manifests["scheduler.yaml"], "ConfigMap")["data"]["profile.toml"])
    assert load_profile(path).description == load_profile("kubernetes").description


@needs_helm
def test_another_profile_makes_other_pods():
    hashes = {
        one_of(render(*values), "Deployment")["spec"]["template"]["metadata"]["annotations"][
            "foresail.dev/profile-sha256"
        ]
        for values in ((), ('profile=name = "other"',), ('profile=name = "third"',))
    }
    assert len(hashes) == 3


@needs_helm
def test_certificates_image_and_names_can_be_chosen():
    digest = "sha256:" + "0" * 64
    objects = render(
        *("tls.secretName=certificate", "token.key=word", f"image.digest={digest}", "image.repository=here/foresail"),
        *(
            "scheduler.name=second",
            "fullnameOverride=other",
            "scheduler.replicas=1",
            "scheduler.extraArgs={--log-level=debug}",
        ),
        *("networkPolicy.apiServerCidrs={10.0.0.0/8}", "priorityClassName="),
    )
    pod = one_of(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"here/foresail@{digest}"
    assert container["args"][-2:] == ["--token-file=/run/secrets/foresail/token/token", "--log-level=debug"]
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert (secrets["tls"]["secretName"], secrets["token"]["items"]) == (
        "certificate",
        [{"key": "word", "path": "token"}],
    )
    assert ("coordination.k8s.io", "leases", "update", "second") in allowed(one_of(objects, "Role"))
    assert "priorityClassName" not in pod
    # One replica that must stay would make a node that cannot be drained.
    assert "PodDisruptionBudget" not in {one["kind"] for one in objects}
    assert all(one["metadata"]["name"].startswith("other-") for one in objects)
    assert one_of(objects, "NetworkPolicy")["spec"]["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}}]


@needs_helm
def test_a_service_monitor_is_made_when_asked_for_and_brings_the_token():
    assert of_kind(render(), "ServiceMonitor") == []
    monitor = one_of(
        render("serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"), "ServiceMonitor"
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = one_of(render(), "Service")["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert endpoint["authorization"]["credentials"] == {"name": "foresail-token", "key": "token"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= one_of(render(), "Service")["metadata"]["labels"].items()
    )
