from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.errors import InputError
from foresail.traces.openb.write import node_table, pod_table


def test_a_pod_without_end_has_no_deletion_time():
    table = pod_table(Workload(["a", "b"], [PodSpec()], np.zeros(2, dtype=np.int64), duration_s=np.array([5, np.inf])))
    assert table["deletion_time"].to_list() == [5, None]
    assert table["pod_phase"].to_list() == ["Succeeded", "Running"]
    assert table.schema["deletion_time"] == pl.Int64


def test_what_no_openb_column_holds_is_refused():
    with pytest.raises(InputError, match=r"a has memory in parts of a MiB or fields that no openb column holds"):
        node_table([NodeSpec("a", 1, 5)])
    with pytest.raises(InputError, match=r"spec 0 has .*; write \.yaml instead"):
        pod_table(Workload(["a"], [PodSpec(labels=(("a", "b"),))], np.array([0])))
