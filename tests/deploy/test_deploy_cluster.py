"""The manifests on a real API server: it takes them, and their service account can do its work and nothing more."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.kube.api.errors import ApiError
from foresail.lab import Lab
from foresail.lab.ports import free_ports
from foresail.traces.snapshot import read_snapshot

pytestmark = pytest.mark.cluster

APPLY = "application/apply-patch+yaml"
MANAGER = "fieldManager=foresail-tests"
NAMESPACED = {
    *(
        "ConfigMap",
        "Deployment",
        "Job",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "StatefulSet",
    ),
    "ServiceAccount",
}
PLURALS = {"NetworkPolicy": "networkpolicies"}
ACCESS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


class Account:
    """Asks as a service account."""

    def __init__(self, lab: Lab, token: str) -> None:
        self.url = lab.url
        self.context = ssl.create_default_context(cafile=str(lab.ca))
        self.token = token

    def ask(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, dict]:
        """Status and answer of one call."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=sent, headers=headers)  # noqa: S310 - our own https
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:  # noqa: S310 - see above
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def kubeconfig(self, lab: Lab) -> dict:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "account"}}],
            "clusters": [{"name": "lab", "cluster": {"server": self.url, "certificate-authority": str(lab.ca)}}],
            "users": [{"name": "account", "user": {"token": self.token}}],
        }

    def status(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> int:
        return self.ask(method, path, body, content_type)[0]

    def may(self, verb: str, resource: str, *, name: str = "", namespace: str = "") -> bool:
        """What the API server says when it is asked whether this would be allowed."""
        resource, _, group = resource.partition(".")
        resource, _, subresource = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, "name": name, "namespace": namespace}},
        }
        status, answer = self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert status == 201, answer
        return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab("deploy", fake_nodes=1, base=Path(folder)) as lab:
        with lab.api() as api:
            api.create("/api/v1/namespaces", {"metadata": {"name": "foresail"}})
        yield lab


def path_of(manifest: dict) -> str:
    """Where the API server keeps an object."""
    group, kind = manifest["apiVersion"], manifest["kind"]
    namespace = f"/namespaces/{manifest['metadata']['namespace']}" if kind in NAMESPACED else ""
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    return f"/{'apis' if '/' in group else 'api'}/{group}{namespace}/{plural}/{manifest['metadata']['name']}"


def apply(api, manifest: dict, *, dry_run: bool) -> dict:
    # fieldValidation=Strict: a misspelt field is an error instead of being dropped.
    query = f"?{MANAGER}&fieldValidation=Strict&force=true{'&dryRun=All' if dry_run else ''}"
    return api.patch(path_of(manifest) + query, manifest, APPLY)


@pytest.fixture(scope="module")
def accounts(lab, manifests) -> dict[str, Account]:
    """The service accounts as the manifests make them."""
    found = {}
    with lab.api() as api:
        for file in ("scheduler", "extender"):
            for manifest in manifests[f"{file}.yaml"]:
                if manifest["kind"] in ACCESS:
                    apply(api, manifest, dry_run=False)
            asked = api.create(
                f"/api/v1/namespaces/foresail/serviceaccounts/foresail-{file}/token",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            )
            found[file] = Account(lab, asked["status"]["token"])
    return found


@pytest.mark.parametrize("file", ["scheduler.yaml", "extender.yaml", "control.yaml"])
def test_the_api_server_takes_every_manifest(lab, manifests, file):
    with lab.api() as api:
        taken = [apply(api, manifest, dry_run=True) for manifest in manifests[file]]
    assert [(one["kind"], one["metadata"]["name"]) for one in taken] == [
        (one["kind"], one["metadata"]["name"]) for one in manifests[file]
    ]


def test_a_misspelt_field_would_be_refused(lab, manifests):
    deployment = next(one for one in manifests["scheduler.yaml"] if one["kind"] == "Deployment")
    wrong = yaml.safe_load(yaml.safe_dump(deployment))
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with lab.api() as api, pytest.raises(ApiError, match="readynessProbe"):
        apply(api, wrong, dry_run=True)


def test_its_pods_are_let_into_a_namespace_of_the_strictest_kind(lab, manifests):
    """As the manifests' own namespace is; a pod that asks for more is refused there."""
    with lab.api() as api:
        for file in ("scheduler.yaml", "extender.yaml", "control.yaml"):
            namespace, *_rest = manifests[file]
            apply(api, namespace, dry_run=False)
            deployment = next(one for one in manifests[file] if one["kind"] == "Deployment")
            pod = {**deployment["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
            pod["metadata"] = {**pod["metadata"], "name": "tried"}
            # The account is applied by other tests; which one it is makes no difference here.
            pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
            api.wait("/api/v1/namespaces/foresail/serviceaccounts/default", lambda _found: True)
            taken = api.create("/api/v1/namespaces/foresail/pods?dryRun=All&fieldValidation=Strict", pod)
            assert taken["spec"]["priority"] == 2_000_000_000
            pod["spec"]["hostNetwork"] = True
            with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
                api.create("/api/v1/namespaces/foresail/pods?dryRun=All", pod)


def test_the_scheduler_may_do_what_it_must(accounts):
    account = accounts["scheduler"]
    kinds = [
        *("namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers"),
        *("services", "replicasets.apps", "statefulsets.apps", "poddisruptionbudgets.policy"),
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io"),
        *("storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io"),
        *("podgroups.scheduling.k8s.io", "podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh"),
        "workloads.scheduling.k8s.io",
    ]
    wanted = [(verb, kind) for kind in kinds for verb in ("get", "list", "watch")]
    wanted += [("create", "pods/binding"), ("patch", "pods/status"), ("delete", "pods")]
    wanted += [("patch", f"podgroups/status.{group}") for group in ("scheduling.k8s.io", "scheduling.x-k8s.io")]
    wanted += [("patch", "podgroups/status.scheduling.volcano.sh")]
    wanted += [("create", "events.events.k8s.io"), ("patch", "events.events.k8s.io")]
    wanted += [("patch", kind) for kind in ("persistentvolumes", "persistentvolumeclaims")]
    assert [one for one in wanted if not account.may(*one, namespace="default")] == []
    leases = [("create", ""), ("get", "foresail"), ("update", "foresail")]
    assert all(
        account.may(verb, "leases.coordination.k8s.io", name=name, namespace="foresail") for verb, name in leases
    )


def test_the_scheduler_may_do_nothing_else(accounts):
    account = accounts["scheduler"]
    unwanted = [
        *(("get", "secrets"), ("list", "secrets"), ("get", "configmaps"), ("create", "serviceaccounts/token")),
        *(("patch", "nodes"), ("update", "nodes"), ("delete", "nodes"), ("patch", "nodes/status")),
        *(("create", "pods"), ("patch", "pods"), ("update", "pods"), ("deletecollection", "pods")),
        *(("create", "pods/exec"), ("create", "pods/eviction"), ("patch", "pods/resize"), ("update", "pods/status")),
        *(
            ("get", "pods/log"),
            ("delete", "persistentvolumes"),
            ("update", "persistentvolumes"),
            ("create", "persistentvolumeclaims"),
        ),
        *(("delete", "events.events.k8s.io"), ("create", "events"), ("impersonate", "users")),
        *(
            ("create", "deployments.apps"),
            ("patch", "replicasets.apps"),
            ("bind", "clusterroles.rbac.authorization.k8s.io"),
        ),
        *(("get", "podgroups/status.scheduling.k8s.io"), ("patch", "podgroups.scheduling.k8s.io")),
    ]
    assert [one for one in unwanted if account.may(*one, namespace="default")] == []
    leases = "leases.coordination.k8s.io"
    for verb, name, namespace in (
        ("create", "", "default"),
        ("get", "foresail", "kube-system"),
        ("get", "other", "foresail"),
        ("update", "other", "foresail"),
        ("delete", "foresail", "foresail"),
        ("list", "", "foresail"),
    ):
        assert not account.may(verb, leases, name=name, namespace=namespace), (verb, name, namespace)


def test_the_extender_reads_and_cannot_write(accounts):
    account = accounts["extender"]
    assert all(account.may("watch", kind, namespace="default") for kind in ("pods", "nodes", "persistentvolumes"))
    writes = (
        ("create", "pods/binding"),
        ("delete", "pods"),
        ("patch", "pods/status"),
        ("create", "events.events.k8s.io"),
    )
    assert not any(account.may(*one, namespace="default") for one in writes)
    assert not account.may("create", "leases.coordination.k8s.io", namespace="foresail")


def test_the_calls_themselves_are_let_through_or_refused(lab, accounts):
    account = accounts["scheduler"]
    pods = "/api/v1/namespaces/default/pods"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits"},
        "spec": {"schedulerName": "foresail", "containers": [{"name": "main", "image": "none"}]},
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "fake-00000"},
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    merge = "application/strategic-merge-patch+json"
    event = {
        "metadata": {"generateName": "waits-"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "foresail",
        "reportingInstance": "foresail-1",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "waits"},
    }
    lease = {"metadata": {"name": "foresail"}, "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/foresail/leases"
    with lab.api() as api:
        api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
        assert account.status("POST", pods, pod) == 403
        api.create(pods, pod)
        history = [
            account.status("GET", "/api/v1/nodes"),
            account.status("GET", "/api/v1/pods"),
            account.status("PATCH", f"{pods}/waits/status", {"status": {"conditions": [condition]}}, merge),
            account.status("POST", f"{pods}/waits/binding", binding),
            account.status("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event),
            account.status("POST", leases, lease),
            (held := account.ask("GET", f"{leases}/foresail"))[0],
            account.status("PUT", f"{leases}/foresail", held[1]),
            account.status("DELETE", f"{pods}/waits?gracePeriodSeconds=0"),
        ]
        assert history == [200, 200, 200, 201, 201, 201, 200, 200, 200]
        refused = [
            account.status("GET", "/api/v1/secrets"),
            account.status("GET", "/api/v1/namespaces/foresail/secrets/foresail-token"),
            account.status("PATCH", "/api/v1/nodes/fake-00000", {"metadata": {"labels": {"a": "b"}}}, merge),
            account.status("DELETE", "/api/v1/nodes/fake-00000"),
            account.status("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}),
            account.status("DELETE", f"{leases}/foresail"),
            account.status("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", lease),
        ]
        assert refused == [403] * len(refused)


@pytest.mark.parametrize("file", ["scheduler", "extender"])
def test_a_snapshot_needs_no_more_than_the_charts_rights(lab, accounts, tmp_path, file):
    kubeconfig, out = tmp_path / "account.kubeconfig", tmp_path / "cluster.yaml"
    kubeconfig.write_text(json.dumps(accounts[file].kubeconfig(lab)))
    done = CliRunner().invoke(app, ["trace", "snapshot", "--out", str(out), "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout.startswith("1 Node, ")
    assert done.stderr == (
        f"note: no PriorityClass in {out}, for we may not list them: our ClusterRole lacks the rule: "
        '- {apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: ["list"]}\n'
    )
    assert {found.kind for found in read_snapshot(out)} >= {"Node", "Namespace"}
    # With that rule the classes are in it, and nothing is left to say.
    rule = yaml.safe_load(done.stderr.partition("lacks the rule: ")[2])
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "more"}}
    bound = {**role, "kind": "ClusterRoleBinding", "roleRef": {"kind": "ClusterRole", "name": "more"}}
    subject = {"kind": "ServiceAccount", "name": f"foresail-{file}", "namespace": "foresail"}
    with lab.api() as api:
        made = ({**role, "rules": rule}, {**bound, "subjects": [subject]})
        for one in made:
            apply(api, one, dry_run=False)
        try:
            done = CliRunner().invoke(app, ["trace", "snapshot", "--out", str(out), "--kubeconfig", str(kubeconfig)])
        finally:
            for one in made:
                api.delete(path_of(one))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "2 PriorityClass" in done.stdout


def test_the_scheduler_works_as_it_is_deployed(lab, manifests, accounts, tmp_path):
    """Its own command line, profile and service account; only the files' places and the port are others."""
    objects = {one["kind"]: one for one in manifests["scheduler.yaml"]}
    (port,) = free_ports(1)
    places = {
        "/etc/foresail": tmp_path,
        "/run/secrets/foresail/tls": tmp_path,
        "/run/secrets/foresail/token": tmp_path,
        "0.0.0.0:10359": f"0.0.0.0:{port}",
    }
    arguments = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    for there, here in places.items():
        arguments = [word.replace(there, str(here)) for word in arguments]
    (tmp_path / "profile.toml").write_text(objects["ConfigMap"]["data"]["profile.toml"])
    (tmp_path / "token").write_text("word\n")
    host = "foresail-scheduler.foresail.svc"
    make_certificate(tmp_path, host)
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(json.dumps(accounts["scheduler"].kubeconfig(lab)))
    pods = "/api/v1/namespaces/default/pods"
    command = [sys.executable, "-c", "from foresail.cli.main import main; main()", *arguments]
    with (
        lab.api() as api,
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([*command, f"--kubeconfig={kubeconfig}"], stderr=log) as running,
    ):
        try:
            api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
            for name, cpu in (("fits", "1"), ("never", "999")):
                api.create(pods, waiting_pod(name, cpu))
            bound = api.wait(f"{pods}/fits", lambda pod: "nodeName" in pod["spec"])
            told = api.wait(f"{pods}/never", lambda pod: pod["status"].get("conditions"))
            context = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
            answers = [
                served(port, context, host, path, token)
                for path, token in (("/healthz", ""), ("/readyz", ""), ("/metrics", ""), ("/metrics", "word"))
            ]
            leader = api.get("/apis/coordination.k8s.io/v1/namespaces/foresail/leases/foresail")["spec"][
                "holderIdentity"
            ]
        finally:
            running.terminate()
            running.wait(30)
    said = (tmp_path / "log").read_text()
    assert (bound["spec"]["nodeName"], told["status"]["conditions"][0]["reason"]) == ("fake-00000", "Unschedulable"), (
        said
    )
    assert (answers, bool(leader), running.returncode) == ([200, 200, 401, 200], True, 0), said
    assert "Forbidden" not in said


def test_the_examples_are_taken_and_lack_nothing_that_a_move_needs(lab):
    examples = Path(__file__).resolve().parents[2] / "examples/training-job"
    made = [
        one
        for name in ("nfs.yaml", "job.yaml", "http.yaml")
        for one in yaml.safe_load_all((examples / name).read_text(encoding="utf-8"))
    ]
    with lab.api() as api:
        api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
        for one in made:
            if one["kind"] != "PersistentVolume":
                one["metadata"].setdefault("namespace", "default")
            apply(api, one, dry_run=False)
        # Jobs of the same names.
        api.create("/api/v1/namespaces", {"metadata": {"name": "lab"}})
        api.wait("/api/v1/namespaces/lab/serviceaccounts/default", lambda _found: True)
        for one in yaml.safe_load_all((examples / "lab.yaml").read_text(encoding="utf-8")):
            one["metadata"]["namespace"] = "lab"
            apply(api, one, dry_run=False)
    for namespace, count in (("default", 2), ("lab", 3)):
        words = ["control", "check", "--all", "-n", namespace, "--json", "--kubeconfig", str(lab.kubeconfig)]
        done = CliRunner().invoke(app, words)
        found = json.loads(done.stdout)
        assert (done.exit_code, [one["lacks"] for one in found]) == (0, [[]] * count), done.output


def waiting_pod(name: str, cpu: str) -> dict:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "foresail", "containers": [container]},
    }


def make_certificate(folder: Path, host: str) -> None:
    subject = ["-subj", "/CN=foresail", "-addext", f"subjectAltName=DNS:{host}"]
    files = ["-keyout", folder / "tls.key", "-out", folder / "tls.crt"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *files, *subject]
    subprocess.run(made, check=True, capture_output=True)


def served(port: int, context: ssl.SSLContext, host: str, path: str, token: str) -> int:
    """Status of an answer of the scheduler's own server, whose certificate names its Service."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        connection = http.client.HTTPSConnection(host, port, context=context)
        connection.sock = context.wrap_socket(plain, server_hostname=host)
        connection.request("GET", path, headers=headers)
        status = connection.getresponse().status
        connection.close()
    return status
