"""Bad input and trouble, met by the console command on a real API server: one line with a remedy, never a traceback."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.console import (
    ANY_PORT,
    Account,
    Serving,
    ended,
    make_account,
    refused,
    rules_of_the_manifest,
    serving,
    until,
    without,
)
from tests.live.running import PODS, clear, pod

from foresail.kube.api.blocking import BlockingClient
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
VERBS: dict[str, tuple[str, ...]] = {
    "run": ("run", *ANY_PORT),
    "shadow": ("run", "--shadow"),
    "extender": ("extender", "--policy", "best-fit", *ANY_PORT),
    "snapshot": ("trace", "snapshot", "--out", "never.yaml"),
    "explain": ("explain", "--live", "p"),
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fake_nodes=2, fake_cpu="4", scheduler=False) as lab:
        yield lab


@pytest.fixture
def api(lab: Lab) -> Iterator[BlockingClient]:
    with lab.api() as api:
        yield api


@pytest.fixture(scope="module")
def full(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Account:
    """An account with exactly the rights of our manifest."""
    with lab.api() as api:
        return make_account(lab, api, "full", tmp_path_factory.mktemp("full"), rules_of_the_manifest())


@pytest.fixture
def limited(lab: Lab, api: BlockingClient, tmp_path: Path) -> Iterator[Callable[..., Account]]:
    """An account that lacks some verbs on a resource; its pods are gone afterwards."""
    made: list[str] = []

    def make(resource: str, *verbs: str) -> Account:
        made.append(f"limited-{time.monotonic_ns()}")
        rules = without(rules_of_the_manifest(), resource, *verbs)
        return make_account(lab, api, made[-1], tmp_path, rules)

    yield make
    clear(api)


def node_of(api: BlockingClient, name: str) -> str:
    return str(api.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


# --- at the start --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_that_is_not_there_is_named_with_what_to_check(full: Account, verb: str):
    at = ("--kubeconfig", full.kubeconfig, "--context")
    said = refused(*VERBS[verb], *at, "closed")
    assert "https://127.0.0.1:1" in said
    assert "Connection refused" in said
    assert "does the API server run, and is this its port?" in said
    said = refused(*VERBS[verb], *at, "unnamed")
    assert "https://no-such-host.invalid:6443" in said
    assert "check the server's name in the kubeconfig and your DNS" in said


@pytest.mark.parametrize("verb", VERBS)
def test_a_token_that_is_not_valid_ends_it_with_the_remedy(full: Account, verb: str):
    said = refused(*VERBS[verb], "--kubeconfig", full.kubeconfig, "--context", "stranger")
    assert "401 Unauthorized" in said
    assert "log in to the cluster again" in said


@pytest.mark.parametrize("verb", VERBS)
def test_a_list_that_is_forbidden_ends_it_with_the_rule_to_paste(limited: Callable[..., Account], verb: str):
    account = limited("persistentvolumes", "list")
    said = refused(*VERBS[verb], "--kubeconfig", account.kubeconfig)
    assert "403 Forbidden" in said
    assert (
        'our ClusterRole lacks the rule: - {apiGroups: [""], resources: ["persistentvolumes"], verbs: ["list"]}' in said
    )


@pytest.mark.parametrize("verb", VERBS)
def test_contexts_and_kubeconfigs_that_cannot_be_used(full: Account, tmp_path: Path, verb: str):
    said = refused(*VERBS[verb], "--kubeconfig", full.kubeconfig, "--context", "acount")
    assert f'{full.kubeconfig}: no context "acount"; did you mean "account"?' in said
    assert "(there are: account, closed, stranger, unnamed)" in said
    broken = tmp_path / "broken"
    broken.write_text("clusters: [\n")
    assert f"{broken}:2: the kubeconfig is no YAML" in refused(*VERBS[verb], "--kubeconfig", broken)
    missing = tmp_path / "missing"
    assert f"{missing}: the kubeconfig cannot be read" in refused(*VERBS[verb], "--kubeconfig", missing)


@pytest.mark.parametrize("verb", ["run", "shadow", "extender", "explain"])
def test_profiles_and_policies_that_do_not_exist(full: Account, tmp_path: Path, verb: str):
    command = [*VERBS[verb], "--kubeconfig", full.kubeconfig, "--policy"]
    said = refused(*command, "best-fitt")
    assert 'no policy "best-fitt"; did you mean "best-fit"?' in said
    profile = tmp_path / "profile.toml"
    profile.write_text('[[scores]]\npolicy = "best-fit"\nwieght = 3\n')
    said = refused(*command, profile)
    assert str(profile) in said
    assert "wieght" in said
    profile.write_text('[[scores]]\npolicy = "best-fit"\nweight = "many"\n')
    said = refused(*command, profile)
    assert str(profile) in said
    assert "weight" in said
    assert "many" in said
    assert "no-such.toml" in refused(*command, tmp_path / "no-such.toml")


@pytest.mark.parametrize("verb", ["run", "shadow", "extender"])
def test_options_that_cannot_be_used(full: Account, tmp_path: Path, verb: str):
    command = [*VERBS[verb], "--kubeconfig", full.kubeconfig]
    said = refused(*command, "--log-level", "warn")
    assert said == 'no log level "warn"; did you mean "warning"? (--log-level may be debug, info, warning, error)'
    missing = tmp_path / "pods.csv"
    assert f"{missing}: no such file; check the path" in refused(*command, "--expect", missing)


@pytest.mark.parametrize("verb", ["run", "extender"])
def test_addresses_that_cannot_be_used(full: Account, verb: str):
    command = [*VERBS[verb], "--kubeconfig", full.kubeconfig, "--address"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(*command, at)
        assert f"cannot listen on {at}: Address already in use; give another --address" in said
    said = refused(*command, "0.0.0.0:0")
    assert "--address is 0.0.0.0:0, which other machines can reach" in said
    assert "--tls-cert, --tls-key" in said
    assert '--address is "localhost"; write host and port' in refused(*command, "localhost")


def test_options_that_belong_to_the_shadow_are_not_ignored(full: Account, tmp_path: Path):
    command = ["run", "--kubeconfig", full.kubeconfig]
    assert refused(*command, "--out", tmp_path / "choices.jsonl").startswith("--out needs --shadow")
    assert refused(*command, "--pods", "3").startswith("--pods needs --shadow")
    assert refused(*command, "--shadow", "--lease-name", "x").startswith("--lease-name does not go with --shadow")
    (tmp_path / "file").write_text("")
    said = refused(*command, "--shadow", "--out", tmp_path / "file" / "choices.jsonl")
    assert "cannot be written" in said
    assert "give --out another file" in said


def test_pods_and_namespaces_that_do_not_exist(lab: Lab, api: BlockingClient, tmp_path: Path):
    api.create(PODS, pod("train"))
    try:
        at = ("--kubeconfig", lab.kubeconfig)
        assert refused("explain", "--live", "tran", *at) == 'no pod "default/tran"; did you mean "default/train"?'
        said = refused("trace", "snapshot", *at, "--out", tmp_path / "s.yaml", "--namespace", "defualt")
        assert 'no namespace "defualt"' in said
        assert 'did you mean "default"?' in said
        (tmp_path / "file").write_text("")
        said = refused("trace", "snapshot", *at, "--out", tmp_path / "file" / "s.yaml")
        assert "s.yaml" in said
        assert ended("trace", "snapshot", *at, "--out", tmp_path / "s.yaml").code == 0
    finally:
        clear(api)


# --- while running -------------------------------------------------------------------------------------------------


def running(folder: Path, account: Account, *more: str) -> Serving:
    return serving(folder, "run", *ANY_PORT, "--kubeconfig", account.kubeconfig, "--lease-name", account.name, *more)


def test_a_token_that_expires_is_told_and_a_new_one_goes_on(
    limited: Callable[..., Account], api: BlockingClient, tmp_path: Path
):
    account = limited("nothing")
    with running(tmp_path, account) as found:
        found.until_said("places pods now")
        found.until_ready()
        account.token_file.write_text("expired")
        said = found.until_unready("401 Unauthorized", "leader: ")
        assert "log in to the cluster again" in said
        found.until_said("places no pods any more")
        account.token_file.write_text("")
        found.until_unready(f"{account.token_file}: the token file is empty")
        account.token_file.unlink()
        found.until_unready(f"{account.token_file}: the token cannot be read: No such file or directory")
        api.create(PODS, pod("p", requests={"cpu": "1"}))
        account.token_file.write_text(account.token)
        until(lambda: node_of(api, "p"), what=lambda: found.err)
        found.until_ready()
        assert found.lives
        assert '"event": "lease_failed"' in found.err


def test_a_token_that_expires_without_leader_election(
    limited: Callable[..., Account], api: BlockingClient, tmp_path: Path
):
    account = limited("nothing")
    with running(tmp_path, account, "--no-leader-elect") as found:
        found.until_said("places pods now")
        account.token_file.write_text("expired")
        api.create(PODS, pod("fits", requests={"cpu": "1"}))
        api.create(PODS, pod("huge", requests={"cpu": "64"}))
        found.until_unready("[-] binds: ", "[-] conditions: ", "[-] events: ", "401 Unauthorized")
        account.token_file.write_text(account.token)
        until(lambda: node_of(api, "fits"), what=lambda: found.err)
        found.until_ready()
        conditions = api.get(f"{PODS}/huge")["status"]["conditions"]
        assert [one["reason"] for one in conditions if one["type"] == "PodScheduled"] == ["Unschedulable"]


@pytest.mark.parametrize(
    ("resource", "verb", "check", "rule"),
    [
        ("pods/binding", "create", "binds", '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}'),
        ("pods/status", "patch", "conditions", '{apiGroups: [""], resources: ["pods/status"], verbs: ["patch"]}'),
        ("events", "create", "events", '{apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create"]}'),
    ],
)
def test_a_write_that_is_forbidden_is_told_with_its_rule_until_it_is_granted(
    limited: Callable[..., Account],
    api: BlockingClient,
    tmp_path: Path,
    resource: str,
    verb: str,
    check: str,
    rule: str,
):
    account = limited(resource, verb)
    with running(tmp_path, account) as found:
        found.until_said("places pods now")
        found.until_ready()
        api.create(PODS, pod("fits", requests={"cpu": "1"}))
        api.create(PODS, pod("huge", requests={"cpu": "64"}))
        said = found.until_unready(f"[-] {check}: ", rule)
        assert "our ClusterRole (or a Role in namespace default) lacks the rule: - " in said
        found.until_said(rule.replace('"', '\\"'))  # in the log, which is JSON here
        if check == "binds":
            # Other tests had a pod of that name, whose events are still there.
            until(lambda: any(rule in one["note"] for one in api.items(EVENTS)), what=lambda: found.err)
        else:
            until(lambda: node_of(api, "fits"), what=lambda: found.err)
        assert found.lives
        account.grant(rules_of_the_manifest())
        until(lambda: node_of(api, "fits"), what=lambda: found.err)
        # Something to write, for events are not written later that were refused.
        api.create(PODS, pod("later", requests={"cpu": "1"}))
        until(lambda: node_of(api, "later"), what=lambda: found.err)
        found.until_ready()


def test_a_lease_that_is_forbidden_is_told_with_its_rule(limited: Callable[..., Account], tmp_path: Path):
    account = limited("leases", "create")
    rule = '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}'
    with running(tmp_path, account) as found:
        said = found.until_unready("[-] leader: ", rule)
        assert "in namespace kube-system" in said
        found.until_said(rule.replace('"', '\\"'))
        assert "places pods now" not in found.err
        account.grant(rules_of_the_manifest())
        found.until_said("places pods now")
        found.until_ready()


def test_a_failed_bind_is_forgotten_when_its_pod_goes(
    limited: Callable[..., Account], api: BlockingClient, tmp_path: Path
):
    account = limited("pods/binding", "create")
    with running(tmp_path, account) as found:
        found.until_said("places pods now")
        api.create(PODS, pod("fits", requests={"cpu": "1"}))
        found.until_unready("[-] binds: ")
        clear(api)
        found.until_ready()
