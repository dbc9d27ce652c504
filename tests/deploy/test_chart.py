from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from tests.deploy.charts import CHART, DEPLOY, allowed, granted, needs_helm, of_kind, one_of, render

from foresail import __version__
from foresail.cli.main import app
from foresail.kube.api.kinds import KINDS
from foresail.policies.profiles.load import load_profile

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
        ("scheduling.k8s.io", "workloads"),
        ("scheduling.volcano.sh", "podgroups"),
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
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("scheduling.volcano.sh", "podgroups/status", "patch"),
    ("scheduling.x-k8s.io", "podgroups/status", "patch"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
}
BIND_VOLUMES = {
    ("", "persistentvolumeclaims", "patch"),
    ("", "persistentvolumes", "patch"),
}
WATCHED = {right for right in READ if right[2] != "get"}
CONTROL = {
    *((*where, "get") for where in (("", "pods"), ("", "persistentvolumes"), ("", "persistentvolumeclaims"))),
    ("", "pods", "create"),
    ("", "pods", "delete"),
    ("", "pods/resize", "patch"),
    ("", "pods/eviction", "create"),
    ("", "pods/status", "patch"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
}
METRICS_API = ("metrics.k8s.io", "pods", "list")
KUBELET = ("", "nodes/proxy", "get")
LOGS = ("", "pods/log", "get")
TOKENS = ("authentication.k8s.io", "tokenreviews", "create")
RECORDS = {("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "update")}
PORTS = {"scheduler": 10359, "extender": 10360, "control": 10360}
PROBES = {
    "scheduler": tuple(
        {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}} for path in ("/healthz", "/readyz")
    ),
    "control": tuple(
        {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}} for path in ("/healthz", "/readyz")
    ),
    # It answers nobody without a client certificate, and kubelets have none.
    "extender": ({"tcpSocket": {"port": "https"}}, {"tcpSocket": {"port": "https"}}),
}


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
    assert written == "scheduler.yaml, extender.yaml, control.yaml: written\n"
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
    assert names(manifests["control.yaml"]) == [
        "ClusterRole/foresail-control",
        "ClusterRoleBinding/foresail-control",
        "Deployment/foresail-control",
        "Namespace/foresail",
        "NetworkPolicy/foresail-control",
        "PodDisruptionBudget/foresail-control",
        "Role/foresail-control",
        "RoleBinding/foresail-control",
        "Service/foresail-control",
        "ServiceAccount/foresail-control",
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
def test_only_with_controllers_pods_may_be_resized_and_evicted_and_telemetry_brings_its_rights():
    objects = render("scheduler.controllers={equal-shares:every_s=30}")
    steers = {
        ("", "pods/resize", "patch"),
        ("", "pods/eviction", "create"),
        ("", "pods", "create"),
        ("", "pods", "patch"),
        ("apps", "deployments", "get"),
        ("apps", "deployments", "patch"),
        ("batch", "jobs", "get"),
    }
    telemetry = {METRICS_API, TOKENS}
    assert granted(objects, "foresail-scheduler") == READ | WRITE | BIND_VOLUMES | steers | telemetry
    assert started(objects)[0][-3:] == [
        "--controller=equal-shares:every_s=30",
        "--cpu-source=metrics-api",
        "--progress-address=0.0.0.0:10361",
    ]
    assert {one for one in allowed(one_of(objects, "Role")) if one[1] == "configmaps"} == RECORDS
    assert ports_in(objects) == ["https", "progress"]
    # Without controllers nobody reads any of it.
    objects = render("telemetry.cpu.sources={kubelet}", "telemetry.progress.logs=true")
    assert granted(objects, "foresail-scheduler") == READ | WRITE | BIND_VOLUMES
    assert ports_in(objects) == ["https"]


def test_controllers_alone_may_do_exactly_what_they_need(manifests):
    objects = manifests["control.yaml"]
    assert granted(objects, "foresail-control") == WATCHED | CONTROL | {METRICS_API, TOKENS}
    assert allowed(one_of(objects, "Role")) == RECORDS | {
        ("coordination.k8s.io", "leases", "create"),
        ("coordination.k8s.io", "leases", "get", "foresail-control"),
        ("coordination.k8s.io", "leases", "update", "foresail-control"),
    }
    (binding,) = of_kind(objects, "RoleBinding")
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("foresail", "foresail-control")


@needs_helm
@pytest.mark.parametrize(
    ("values", "rights"),
    [
        (["telemetry.cpu.sources={kubelet}"], {KUBELET}),
        (["telemetry.cpu.sources={metrics-api,kubelet}"], {METRICS_API, KUBELET}),
        (["telemetry.cpu.sources={prometheus}", "telemetry.cpu.prometheus.url=http://prometheus:9090"], set()),
        (["telemetry.cpu.sources=null", "telemetry.progress.logs=true"], {LOGS}),
        (["telemetry.cpu.sources=null", "telemetry.progress.claims[0].claimName=training"], set()),
        (["telemetry.cpu.sources=null", "telemetry.progress.tensorboardClaims[0].claimName=runs"], set()),
        (["telemetry.cpu.sources=null", "telemetry.progress.http.enabled=true"], {TOKENS}),
        (
            [
                "telemetry.cpu.sources=null",
                "telemetry.progress.http.enabled=true",
                "telemetry.progress.http.tokenSecret.name=tokens",
            ],
            set(),
        ),
    ],
)
def test_each_source_brings_its_own_rights_and_no_others(values, rights):
    given = ["control.enabled=true", "scheduler.enabled=false", "telemetry.progress.http.enabled=false", *values]
    assert granted(render(*given), "foresail-control") == WATCHED | CONTROL | rights
    # What only says what it would do changes nothing, and holds no Lease.
    objects = render(*given, "control.dryRun=true")
    assert granted(objects, "foresail-control") == WATCHED | rights
    assert of_kind(objects, "Role") == of_kind(objects, "RoleBinding") == []


@needs_helm
def test_sources_are_mounted_where_the_arguments_say_and_let_through_the_network():
    objects = render(
        *("control.enabled=true", "scheduler.enabled=false", "control.controllers={focus:every_s=20,balance}"),
        *("telemetry.cpu.sources={prometheus}", "telemetry.cpu.prometheus.url=http://prometheus:9091"),
        *("telemetry.cpu.prometheus.port=9091", "telemetry.cpu.prometheus.tokenSecret.name=for-prometheus"),
        *("telemetry.progress.claims[0].claimName=training", "telemetry.progress.claims[1].claimName=other"),
        *("telemetry.progress.claims[1].namespace=team", "telemetry.progress.claims[1].subPath=progress"),
        *("telemetry.progress.tensorboardClaims[0].claimName=runs", "telemetry.progress.logs=true"),
        *("telemetry.progress.http.tokenSecret.name=reporters", "telemetry.supplementalGroups={1000}"),
        *("networkPolicy.progressFrom[0].podSelector.matchLabels.train=yes", "control.extraArgs={--log-level=debug}"),
    )
    arguments, files = started(objects)
    assert arguments[:3] == ["control", "focus:every_s=20", "balance"]
    assert arguments[-10:] == [
        "--cpu-source=prometheus",
        "--prometheus=http://prometheus:9091",
        "--prometheus-token-file=/run/secrets/foresail/prometheus/token",
        "--progress-dir=/shared/progress-0",
        "--progress-dir=team=/shared/progress-1",
        "--tensorboard-dir=/shared/tensorboard-0",
        "--progress-logs",
        "--progress-address=0.0.0.0:10361",
        "--progress-token-file=/run/secrets/foresail/progress/tokens",
        "--log-level=debug",
    ]
    assert {"/run/secrets/foresail/prometheus/token", "/run/secrets/foresail/progress/tokens"} <= files
    pod = one_of(objects, "Deployment")["spec"]["template"]["spec"]
    claims = {one["name"]: one["persistentVolumeClaim"] for one in pod["volumes"] if "persistentVolumeClaim" in one}
    mounts = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] in claims]
    assert [
        (one["mountPath"], claims[one["name"]]["claimName"], one.get("subPath"), one["readOnly"]) for one in mounts
    ] == [
        ("/shared/progress-0", "training", None, False),
        ("/shared/progress-1", "other", "progress", False),
        ("/shared/tensorboard-0", "runs", None, True),
    ]
    assert pod["securityContext"]["supplementalGroups"] == [1000]
    network = one_of(objects, "NetworkPolicy")["spec"]
    assert network["ingress"][1] == {
        "ports": [{"port": "progress", "protocol": "TCP"}],
        "from": [{"podSelector": {"matchLabels": {"train": "yes"}}}],
    }
    assert network["egress"][-1] == {"ports": [{"port": 9091, "protocol": "TCP"}]}
    verb, *rest = arguments
    typer.main.get_command(app).commands[verb].make_context(verb, rest)


def rights_in(text: str, verbs: str = "") -> set[tuple[str, str, str]]:
    """The rights that a cell of a table names: verbs, then resources with their groups."""
    found = set()
    for said, resource, group in re.findall(r"(?:\b(create|get|list) )?`([a-z/]+)`(?: \(`([a-z0-9.-]+)`\))?", text):
        found |= {(group, resource, verb) for verb in (said or verbs).split(", ")}
    return found


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The first table with this heading, without it."""
    lines = (DEPLOY.parent / "docs" / "guides" / page).read_text(encoding="utf-8").splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(heading)) + 2
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in itertools.takewhile(bool, lines[at:])]


def test_the_guides_name_the_rights_that_the_chart_gives():
    options = {
        row[0].split()[0].strip("`"): rights_in(row[2].partition(", or")[0])
        for row in rows_of("training-jobs.md", "| option | reads |")
    }
    assert {option: rights for option, rights in options.items() if rights} == {
        "--progress-address": {TOKENS},
        "--progress-logs": {LOGS},
        "--measure-cpu": {METRICS_API, KUBELET},
    }
    values = [rights_in(row[2]) for row in rows_of("deploy.md", "| value | source |")]
    assert [one for one in values if one] == [{METRICS_API}, {KUBELET}, {TOKENS}, {LOGS}]
    rows = rows_of("deploy.md", "| verbs | resources |")
    assert set().union(*(rights_in(resources, verbs) for verbs, resources in rows)) == WATCHED | CONTROL
    assert rights_in(rows[0][1], rows[0][0]) == WATCHED


def ports_in(objects: list[dict]) -> list[str]:
    """Ports of the pod, which its Service and its NetworkPolicy let through as well."""
    (container,) = one_of(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    found = [port["name"] for port in container["ports"]]
    assert [port["targetPort"] for port in one_of(objects, "Service")["spec"]["ports"]] == found
    rules = one_of(objects, "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for rule in rules for port in rule["ports"]] == found
    return found


@pytest.mark.parametrize("component", ["scheduler", "extender", "control"])
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
    assert container["ports"][0] == {"name": "https", "containerPort": PORTS[component], "protocol": "TCP"}
    assert [port["name"] for port in container["ports"][1:]] == (["progress"] if component == "control" else [])


@pytest.mark.parametrize("component", ["scheduler", "control"])
def test_two_replicas_stand_apart_and_one_stays(manifests, component):
    objects = manifests[f"{component}.yaml"]
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


def test_controllers_are_started_with_what_is_mounted(manifests):
    arguments, files = started(manifests["control.yaml"])
    assert arguments == [
        "control",
        "focus",
        "--address=0.0.0.0:10360",
        "--tls-cert=/run/secrets/foresail/tls/tls.crt",
        "--tls-key=/run/secrets/foresail/tls/tls.key",
        "--scheduler-name=default-scheduler",
        "--lease-name=foresail-control",
        "--lease-namespace=foresail",
        "--token-file=/run/secrets/foresail/token/token",
        "--cpu-source=metrics-api",
        "--progress-address=0.0.0.0:10361",
    ]
    assert {value for word in arguments if (value := word.partition("=")[2]).startswith("/")} == files


@pytest.mark.parametrize("component", ["scheduler", "extender", "control"])
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
