"""`foresail control check`: which objects are looked at, and how they are named."""

from __future__ import annotations

import pytest

from foresail.errors import InputError
from foresail.live.moves.checking import parse_object


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("job/train", ("job", "train")),
        ("jobs/train", ("job", "train")),
        ("Job.batch/train", ("job", "train")),
        ("deploy/web", ("deployment", "web")),
        ("deployments.apps/web", ("deployment", "web")),
        ("sts/db", ("statefulset", "db")),
        ("statefulset/db", ("statefulset", "db")),
        ("po/solo", ("pod", "solo")),
    ],
)
def test_objects_are_named_as_with_kubectl(text, parsed):
    assert parse_object(text) == parsed


@pytest.mark.parametrize("text", ["train", "job/", "/train", "job/a/b", "rs/web", "daemonset/x"])
def test_what_names_no_object_that_can_be_checked_is_an_error_with_the_remedy(text):
    with pytest.raises(InputError, match=f'"{text}".*(as in job/train|statefulset, pod can be checked)'):
        parse_object(text)
