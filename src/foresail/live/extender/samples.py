"""Notices a kube-scheduler that sends only a sample of its feasible nodes."""

from __future__ import annotations

from foresail.logs import get_logger

_LEAST_SAMPLE = 100
"""kube-scheduler looks at all nodes of smaller clusters, and never for fewer feasible ones than this."""
_TIMES = 3


class SampleWatch:
    """Says once that `percentageOfNodesToScore` is not 100.

    A sample cannot be told from a feasible set by one request. Requests that follow each other with as many nodes as a
    percentage makes of all, fewer than pass our own filters, are taken for samples.
    """

    def __init__(self) -> None:
        self._size = 0
        self._seen = 0
        self.warned = False

    def look(self, asked: int, passing: int, count: int) -> None:
        """Look at one request: nodes asked about, nodes that pass our filters, nodes there are."""
        if self.warned or count <= _LEAST_SAMPLE or asked >= min(passing, count) or not _is_sample(asked, count):
            return
        self._seen = self._seen + 1 if asked == self._size else 1
        self._size = asked
        if self._seen >= _TIMES:
            self.warned = True
            get_logger().warning(
                "kube_scheduler_sends_a_sample",
                nodes_sent=asked,
                nodes=count,
                remedy="set percentageOfNodesToScore: 100, or the best node may never be asked about; or give --sample",
            )


def _is_sample(asked: int, count: int) -> bool:
    return any(asked == max(_LEAST_SAMPLE, count * percent // 100) for percent in range(1, 100))
