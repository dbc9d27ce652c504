"""Resizes as a watch sees them: what counts as asked for, and what as done."""

from foresail.experiments.kube.resizes import ResizeWatch, resize_columns


class Watching:
    def __init__(self):
        self.time_s = 0.0
        self.watch = ResizeWatch(lambda: self.time_s)

    def sees(self, time_s, wanted, has, uid="u", condition=None, kind="MODIFIED"):
        self.time_s = time_s
        conditions = [{"type": condition, "status": "True"}] if condition else []
        given = {} if has is None else {"resources": {"requests": {"cpu": f"{has}m"}}}
        self.watch.apply(
            kind,
            {
                "metadata": {"uid": uid, "name": f"p-{uid}", "namespace": "ns"},
                "spec": {
                    "nodeName": "n",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{wanted}m"}}}],
                },
                "status": {"containerStatuses": [{"name": "c", **given}], "conditions": conditions},
            },
        )

    @property
    def done(self):
        return [(one.time_s, one.before_milli, one.cpu_milli, one.took_s) for one in self.watch.done]


def test_a_resize_takes_from_the_spec_that_asks_to_the_status_that_has():
    seen = Watching()
    seen.sees(0, 40, None)
    seen.sees(1, 40, 40)
    seen.sees(10, 80, 40)
    seen.sees(11, 80, 40, condition="PodResizeInProgress")
    seen.sees(12, 80, 80, condition="PodResizeInProgress")
    seen.sees(13, 80, 80)
    seen.sees(14, 80, 80)
    assert seen.done == [(10, 40, 80, 3)]
    columns = resize_columns(seen.watch.done, 4.0, {"ns/p-u": "job-1"}.__getitem__)
    assert (columns["time_s"].tolist(), columns["job"], columns["took_s"].tolist()) == ([6.0], ["job-1"], [3.0])


def test_one_that_is_changed_again_before_it_was_done_counts_once():
    seen = Watching()
    seen.sees(0, 40, 40)
    seen.sees(1, 80, 40)
    seen.sees(2, 60, 80)
    seen.sees(4, 60, 60)
    assert seen.done == [(1, 40, 60, 3)]


def test_pods_are_followed_by_uid_and_forgotten_when_they_go():
    seen = Watching()
    seen.sees(0, 40, 40)
    seen.sees(1, 80, 40)
    seen.sees(2, 80, 40, kind="DELETED")
    seen.sees(3, 80, 80)
    seen.sees(3, 40, 40, uid="v")
    assert seen.done == []
