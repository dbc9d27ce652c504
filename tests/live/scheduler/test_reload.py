"""A profile file that is edited: the new one is used, or the old one kept and the reason told."""

import asyncio

import pytest
from tests.live.cluster import make_node, make_pod

from foresail.errors import PolicyError
from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.kube.objects.values import GPU_COUNT, GPU_MILLI
from foresail.live.scheduler.metrics import Metrics
from foresail.live.scheduler.reload import Reloader
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.policies.profiles.load import load_profile

LEAST = '[[scores]]\npolicy = "least-allocated"\n'
MOST = '[[scores]]\npolicy = "most-allocated"\n'


class Story:
    """A file, and the scores of the profiles that were taken from it."""

    def __init__(self, folder):
        self.path = folder / "profile.toml"
        self.path.write_text(LEAST)
        self.used = []
        self.fails = ""
        self.bug = False
        self.metrics = Metrics("test")
        self.reloader = Reloader(self.path, lambda: load_profile(self.path), self.use, self.metrics)

    def use(self, profile):
        if self.bug:
            raise ZeroDivisionError("of somebody else's")
        if self.fails:
            raise PolicyError(self.fails)
        self.used.append([score.name for score in profile.scores])

    def look(self, text=None):
        if text is not None:
            self.path.write_text(text)
        self.reloader.look()
        return self.reloader.problem

    def count(self, result):
        return self.metrics.registry.get_sample_value("foresail_profile_reloads_total", {"result": result}) or 0


@pytest.fixture
def story(tmp_path):
    return Story(tmp_path)


def test_only_another_content_is_loaded(story):
    assert (story.look(), story.used) == ("", [])
    assert (story.look(LEAST), story.used) == ("", [])
    assert (story.look(MOST), story.used) == ("", [["most-allocated"]])
    assert (story.look(MOST), story.look(LEAST), story.used) == ("", "", [["most-allocated"], ["least-allocated"]])
    assert (story.count("loaded"), story.count("refused")) == (2, 0)


def test_a_wrong_file_is_told_once_and_mended_by_the_next(story):
    said = story.look('[[scores]]\npolicy = "most-alocated"\n')
    assert said.startswith("the profile before is still used: ")
    assert f"{story.path}" in said
    assert 'did you mean "most-allocated"?' in said
    assert story.look() == said
    assert (story.used, story.count("refused")) == ([], 1)
    assert story.look(LEAST) == ""
    assert story.used == [["least-allocated"]]


def test_a_file_that_goes_and_comes_back(story):
    story.path.unlink()
    assert "there is no such profile" in story.look()
    assert (story.look(LEAST), story.used) == ("", [["least-allocated"]])


def test_a_profile_that_cannot_be_used_is_refused_like_a_wrong_file(story):
    story.fails = "a policy cannot learn"
    assert story.look(MOST) == "the profile before is still used: a policy cannot learn"
    assert (story.used, story.count("refused"), story.count("loaded")) == ([], 1, 0)
    story.fails = ""
    assert (story.look(LEAST), story.used) == ("", [["least-allocated"]])
    story.bug = True
    assert story.look(MOST) == "the profile before is still used: ZeroDivisionError: of somebody else's"


def test_the_device_rule_of_the_new_profile_guesses_from_then_on(tmp_path):
    path = tmp_path / "profile.toml"
    path.write_text(f'devices = "least-sufficient"\n{LEAST}')
    process = SchedulerProgram(RunSettings(policy=str(path)), Client(Connection("http://127.0.0.1")), announce=print)
    cache, reloader = process.live.cache, process.reloader
    share = {GPU_COUNT: "1", GPU_MILLI: "300"}
    cache.handler("Node").replace([make_node("a", gpus=2)])
    cache.handler("Pod").replace([make_pod(name, "100m", "a", annotations=share) for name in "xy"])

    def guessed():
        return sorted(held.devices for held in cache.table.placed.values())

    assert (reloader.problem, guessed()) == ("", [(0,), (0,)])
    path.write_text(f'devices = "no-such-rule"\n{LEAST}')
    reloader.look()
    assert ("no-such-rule" in reloader.problem, guessed()) == (True, [(0,), (0,)])
    path.write_text(f'devices = "most-free"\n{LEAST}')
    reloader.look()
    assert (reloader.problem, guessed()) == ("", [(0,), (1,)])
    cache.handler("Pod").apply("ADDED", make_pod("z", "100m", "a", annotations=share))
    assert guessed() == [(0,), (0,), (1,)]


def test_it_looks_every_two_seconds_and_at_once_when_asked(story, virtual):
    async def live():
        task = asyncio.create_task(story.reloader.run())
        clock = asyncio.get_running_loop().time
        story.path.write_text(MOST)
        while not story.used:
            await asyncio.sleep(0.1)
        assert 1.9 < clock() < 2.2
        story.path.write_text(LEAST)
        await asyncio.sleep(0.2)
        assert len(story.used) == 1
        story.reloader.now.set()
        await asyncio.sleep(0.1)
        assert len(story.used) == 2
        task.cancel()

    virtual(live())
