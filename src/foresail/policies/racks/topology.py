"""Where nodes stand: racks from the label `rack`, servers from the label `server`."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Ints
from foresail.core.table import NodeTable


def racks(table: NodeTable) -> Ints:
    """A rack number for every node of the table; a node without the label stands alone."""
    return _alone_where_missing(table.label("rack"))


def servers(table: NodeTable) -> Ints:
    """A server number for every node of the table; equal server labels in two racks are two servers."""
    server = table.label("server")
    names = int(server.max(initial=-1)) + 1
    return _alone_where_missing(np.where(server >= 0, racks(table) * max(names, 1) + server, -1))


def _alone_where_missing(codes: Ints) -> Ints:
    first_unused = int(codes.max(initial=-1)) + 1
    return np.where(codes >= 0, codes, first_unused + np.arange(len(codes)))


def sums_over(groups: Ints, amounts: Ints) -> Ints:
    """For every node, the amounts of all nodes of its group together."""
    _, group_of = np.unique(groups, return_inverse=True)
    sums = np.bincount(group_of, weights=amounts)
    return sums[group_of].astype(np.int64)
