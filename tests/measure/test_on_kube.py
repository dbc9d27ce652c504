"""What a trainer prints in its pod, as it is read from the pod's log."""

import pytest

from foresail.errors import ForesailError
from foresail.measure.on_kube import result_in, share_done


def test_the_last_line_of_its_kind_counts():
    log = '10/60\n20/60\n{"steps": 60}\nsomething/else\n'
    assert share_done(log) == pytest.approx(1 / 3)
    assert share_done("") == 0
    assert result_in(log, "lstm") == {"steps": 60}


def test_a_pod_that_told_nothing_is_an_error():
    with pytest.raises(ForesailError, match="trainer lstm ended in its pod and told nothing"):
        result_in("60/60\n", "lstm")
