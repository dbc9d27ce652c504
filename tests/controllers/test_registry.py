"""Controllers by name: options, messages, and those of other packages."""

import warnings

import pytest
from tests.plugins.packages import distribution

from foresail.controllers import CONTROLLERS, REGISTRY, controller, in_words, load_controllers
from foresail.core.clock import SimClock
from foresail.core.control_loop import ControlLoop
from foresail.core.journal import Journal
from foresail.errors import OptionError
from foresail.plugins.registry import NameClashWarning

PACK = """
    class Tidy:
        '''Move the last pod to the first node.'''
        def __init__(self, *, after_s: float = 5.0, node: str):
            self.every_s = after_s
            self.node = node
        def act(self, view):
            return []

    class Scores:
        def score(self, pod, nodes): ...
"""


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_name_builds_a_fresh_controller_that_explains_itself_and_can_have_turns(name):
    assert controller(name) is not controller(name)
    assert REGISTRY.find("controller", name).summary
    clock = SimClock()
    ControlLoop({name: controller(name)}, clock, Journal(clock))


COUNT = len(CONTROLLERS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "equal-share",
            f'no controller "equal-share"; did you mean "equal-shares"? (foresail controllers lists all {COUNT})',
        ),
        (
            "equal-shares:every=5",
            'equal-shares has no option "every"; did you mean "every_s"? it has every_s, namespace',
        ),
        ("equal-shares:every_s=soon", 'equal-shares: every_s is "soon"; allowed is a number'),
        ("equal-shares:every_s=0", "equal-shares: every_s is 0.0; turns lie a number of seconds above 0 apart"),
        ("equal-shares:every_s=nan", "equal-shares: every_s is nan; turns lie a number of seconds above 0 apart"),
    ],
)
def test_errors_name_the_value_and_the_remedy(text, said):
    with pytest.raises(OptionError) as error:
        load_controllers([text])
    assert str(error.value) == said


def test_controllers_are_told_apart_by_their_options_as_understood():
    loaded = load_controllers(["equal-shares", " equal-shares: every_s=5"])
    assert {name: one.every_s for name, one in loaded.items()} == {
        "equal-shares": 10.0,
        "equal-shares:every_s=5.0": 5.0,
    }
    with pytest.raises(OptionError, match=r'the controller "equal-shares:every_s=5\.0" is given twice'):
        load_controllers(["equal-shares:every_s=5", "equal-shares:every_s=5.0"])


def test_turns_are_told_in_words():
    class WhenItSays:
        def next_time_s(self): ...

    assert in_words({**load_controllers(["equal-shares:every_s=0.5"]), "mine": WhenItSays()}) == (
        "equal-shares:every_s=0.5 every 0.5 s, mine when it says"
    )
    assert in_words({}) == ""


def test_controllers_of_other_packages_are_found_by_name_with_their_options_converted(packages):
    points = {"tidy": "tidy_pack:Tidy", "odd": "tidy_pack:Scores", "equal-shares": "tidy_pack:Tidy"}
    distribution(packages, "tidy-pack", points, PACK, group="foresail.controllers")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tidy = load_controllers(["tidy:after_s=7,node=n1"])["tidy:after_s=7.0,node=n1"]
    assert (tidy.every_s, tidy.node) == (7.0, "n1")
    (clash,) = caught
    assert clash.category is NameClashWarning
    assert str(clash.message) == (
        '"equal-shares" of tidy-pack 1.0 is ignored: built-in has a controller of that name; '
        "give the entry point another name"
    )
    assert [(entry.name, entry.kind, entry.origin, entry.error) for entry in REGISTRY.registered()] == [
        *((name, "controller", "built-in", "") for name in CONTROLLERS),
        ("odd", "", "tidy-pack 1.0", "tidy_pack:Scores has no act()"),
        ("tidy", "controller", "tidy-pack 1.0", ""),
    ]
    with pytest.raises(OptionError, match=r"^tidy needs the option node \(text\)$"):
        load_controllers(["tidy"])
