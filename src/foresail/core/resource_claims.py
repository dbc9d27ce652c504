"""Claims of dynamic resource allocation, which somebody must allocate before a pod can run."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Codes, Nodes, Pod


class ResourceClaims:
    """Refuse every node to a pod that names resource claims: bound without them allocated, it would never start.

    No profile can leave this out. It says nothing of pods that are on a node already, which others have placed.
    """

    row_wise = True
    resolvable = False
    only_worsens = True

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        return np.full(len(nodes), 1 if named_claims(pod) else 0, dtype=np.uint8)

    def why(self, pod: Pod, _code: int) -> tuple[str, ...]:
        names = named_claims(pod)
        claims = ", ".join(f'"{name}"' for name in names)
        return (f"waiting for resourceclaim{'s' if len(names) > 1 else ''} {claims}, and Foresail allocates none",)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not named_claims(pod)


def named_claims(pod: Pod) -> tuple[str, ...]:
    """The resource claims that a pod names."""
    own = pod.spec.kubernetes
    return () if own is None else own.resource_claims
