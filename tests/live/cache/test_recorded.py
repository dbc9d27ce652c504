"""What a real API server told, recorded once (see record.py), through the cache."""

import json
from pathlib import Path

from tests.live.cluster import make_cache
from tests.live.differences import differences

STREAM = Path(__file__).parents[1] / "streams" / "busy.jsonl"
LINES = [json.loads(line) for line in STREAM.read_text(encoding="utf-8").splitlines()]
TRUTH = {line["watch"]: line["truth"] for line in LINES if "truth" in line}


def play(cache, lines):
    for line in lines:
        handler = cache.handler(line["watch"])
        if "list" in line:
            handler.replace(line["list"])
        elif "event" in line:
            handler.apply(line["event"], line["object"])


def told(cache, heard):
    """What was said of pods that are still there."""
    return [(cache.pods[what[1]].name, what[0]) for what in heard.log if len(what) > 1 and what[1] in cache.pods]


def test_the_cache_ends_as_the_cluster_did():
    cache, heard = make_cache()
    play(cache, LINES)
    assert differences(cache, TRUTH["Node"], TRUTH["Pod"]) == []
    assert cache.unreadable == {}
    # The PodGroup is told after the pods here, and by then its first member has been bound by somebody.
    assert told(cache, heard) == [("train-0", "waits for")]
    assert cache.placed_members("default/train") == 1
    assert len(cache.table.objects.budgets) == 1


def test_the_order_between_kinds_and_repetition_make_no_difference():
    one, _ = make_cache()
    play(one, LINES)
    other, heard = make_cache()
    for watch in sorted({line["watch"] for line in LINES}, reverse=True):
        of_watch = [line for line in LINES if line["watch"] == watch]
        play(other, [twice for line in of_watch for twice in (line, line)])
    assert other.pods == one.pods
    assert other.table.objects == one.table.objects
    assert differences(other, TRUTH["Node"], TRUTH["Pod"]) == []
    assert told(other, heard) == [("train-0", "waits"), ("train-0", "bound"), ("train-0", "gone")]
    heard.told()
    play(other, [{"watch": watch, "list": values} for watch, values in TRUTH.items()])
    assert heard.told() == []
