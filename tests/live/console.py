"""The console command as a process of its own, and accounts for it that may do less than everything."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Object
from foresail.lab import Lab

COMMAND = [sys.executable, "-c", "from foresail.cli.main import main; main()"]
MANIFEST = Path(__file__).parents[2] / "deploy" / "manifests" / "scheduler.yaml"
ANY_PORT = ("--address", "127.0.0.1:0")


def until(condition: Callable[[], Any], *, within_s: float = 60.0, what: Callable[[], object] = str) -> Any:
    """What the condition returns, once it is something."""
    deadline_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {what()}"
        time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def ended(*arguments: object, within_s: float = 60.0) -> Said:
    """Run a command that ends by itself; whatever happens, it must not break with a traceback."""
    ran = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=within_s
    )
    assert "Traceback" not in ran.stderr + ran.stdout, ran.stderr
    return Said(ran.returncode, ran.stdout, ran.stderr)


def refused(*arguments: object) -> str:
    """The one line with which a command refuses to go on."""
    said = ended(*arguments)
    assert said.code == 2, said
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, said.err
    assert said.err.rstrip("\n").endswith(errors[0]), said.err
    return errors[0].removeprefix("error: ")


@dataclass
class Serving:
    """A command that goes on until it is told to stop."""

    process: subprocess.Popen[str]
    out_path: Path
    err_path: Path

    @property
    def out(self) -> str:
        return self.out_path.read_text()

    @property
    def err(self) -> str:
        return self.err_path.read_text()

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def until_said(self, words: str, within_s: float = 60.0) -> None:
        until(lambda: words in self.err or not self.lives, within_s=within_s, what=lambda: self.err)
        assert words in self.err, self.err

    def url(self) -> str:
        found = until(lambda: re.search(r"https?://127\.0\.0\.1:\d+", self._served()), what=lambda: self.err)
        return str(found.group())

    def _served(self) -> str:
        lines = [line for line in self.err.splitlines() if line.startswith(("health and metrics", "listening on"))]
        return lines[0] if lines else ""

    def readyz(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.url()}/readyz", timeout=10) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def until_unready(self, *words: str, within_s: float = 60.0) -> str:
        """The 503 that says all of these."""

        def text() -> str:
            status, body = self.readyz()
            return body if status == 503 and all(word in body for word in words) else ""

        return str(until(text, within_s=within_s, what=self.readyz))

    def until_ready(self, within_s: float = 60.0) -> None:
        until(lambda: self.readyz()[0] == 200, within_s=within_s, what=self.readyz)

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def serving(folder: Path, *arguments: object) -> Iterator[Serving]:
    """A command in the background; at the end it is stopped in order, without ever having broken."""
    out_path, err_path = folder / "stdout", folder / "stderr"
    with out_path.open("w") as out, err_path.open("w") as err:
        process = subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=out, stderr=err, text=True)
    found = Serving(process, out_path, err_path)
    try:
        yield found
    finally:
        if found.lives:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert "Traceback" not in found.err, found.err
    assert process.returncode == 0, found.err


# --- accounts ------------------------------------------------------------------------------------------------------


def rules_of_the_manifest() -> list[Object]:
    """All that our manifest gives the scheduler, cluster-wide."""
    found: list[Object] = []
    for value in yaml.safe_load_all(MANIFEST.read_text()):
        if value and value["kind"] in {"ClusterRole", "Role"}:
            found += [{name: it for name, it in rule.items() if name != "resourceNames"} for rule in value["rules"]]
    return found


def without(rules: list[Object], resource: str, *verbs: str) -> list[Object]:
    """The rules less some verbs on a resource."""
    left: list[Object] = []
    for rule in rules:
        others = [name for name in rule.get("resources", []) if name != resource]
        if others == rule.get("resources", []):
            left.append(rule)
            continue
        if others:
            left.append({**rule, "resources": others})
        kept = [verb for verb in rule["verbs"] if verb not in verbs]
        if kept:
            left.append({**rule, "resources": [resource], "verbs": kept})
    return left


@dataclass
class Account:
    """A service account whose token stands in a file that its kubeconfig names."""

    api: BlockingClient
    name: str
    kubeconfig: Path
    token_file: Path
    token: str = field(repr=False)

    def grant(self, rules: list[Object]) -> None:
        """These rights and no others, from now on."""
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        self.api.patch(f"{path}/{self.name}", {"rules": rules}, "application/merge-patch+json")


def make_account(lab: Lab, api: BlockingClient, name: str, folder: Path, rules: list[Object]) -> Account:
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    roles = "/apis/rbac.authorization.k8s.io/v1"
    api.create(f"{roles}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    api.create(
        f"{roles}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        },
    )
    asked = api.create(
        f"/api/v1/namespaces/default/serviceaccounts/{name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}},
    )
    token = asked["status"]["token"]
    token_file = folder / "token"
    token_file.write_text(token)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "account",
                "clusters": [
                    {"name": "lab", "cluster": {"server": lab.url, "certificate-authority": str(lab.ca)}},
                    {"name": "closed", "cluster": {"server": "https://127.0.0.1:1"}},
                    {"name": "unnamed", "cluster": {"server": "https://no-such-host.invalid:6443"}},
                ],
                "users": [
                    {"name": "account", "user": {"tokenFile": str(token_file)}},
                    {"name": "stranger", "user": {"token": "not-a-token"}},
                ],
                "contexts": [
                    {"name": "account", "context": {"cluster": "lab", "user": "account"}},
                    {"name": "stranger", "context": {"cluster": "lab", "user": "stranger"}},
                    {"name": "closed", "context": {"cluster": "closed", "user": "account"}},
                    {"name": "unnamed", "context": {"cluster": "unnamed", "user": "account"}},
                ],
            }
        )
    )
    return Account(api, name, kubeconfig, token_file, token)
