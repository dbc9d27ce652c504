"""The table of paths, read back by the rules with which an API server takes a path apart."""

import pytest

from foresail.kube.api.errors import Access
from foresail.kube.api.kinds import CLAIM, EVENT, KINDS, LEASE, NODE, POD, PRIORITY_CLASS, RUNTIME_CLASS

ALL = [*KINDS.values(), EVENT, LEASE, PRIORITY_CLASS, RUNTIME_CLASS]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.kind}-{kind.api_version}")
def test_every_path_names_its_group_resource_and_namespace(kind):
    namespace = "team-a" if kind.namespaced else ""
    assert Access.of("GET", kind.path) == Access("list", kind.group, kind.plural, "")
    assert Access.of("POST", kind.within("team-a")) == Access("create", kind.group, kind.plural, namespace)
    assert Access.of("GET", kind.named("x", "team-a")) == Access("get", kind.group, kind.plural, namespace)
    status = kind.named("x", "team-a", part="status")
    assert Access.of("PATCH", status) == Access("patch", kind.group, f"{kind.plural}/status", namespace)


def test_paths_are_those_of_the_kubernetes_api():
    assert NODE.named("n") == "/api/v1/nodes/n"
    assert POD.named("p", "team-a", part="binding") == "/api/v1/namespaces/team-a/pods/p/binding"
    assert (CLAIM.path, CLAIM.within("team-a")) == (
        "/api/v1/persistentvolumeclaims",
        "/api/v1/namespaces/team-a/persistentvolumeclaims",
    )
    assert LEASE.named("l", "kube-system") == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"
