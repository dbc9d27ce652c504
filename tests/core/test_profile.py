"""Profiles: from names, mixes, files and plain data, and the errors on the way."""

import json

import numpy as np
import pytest

from foresail.core.decide import decide
from foresail.core.profile import Profile, UsedScore
from foresail.errors import ForesailError, InputError, OptionError, PolicyError
from foresail.policies.gpu_sharing.dot_product import DotProduct
from foresail.policies.gpu_sharing.fgd import Fgd
from foresail.policies.plain.devices import LeastSufficient, MostFree
from foresail.policies.plain.random import Random
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_pod, make_table

EXAMPLES = "examples: fgd, power:100+fgd:900, dot-product(dimension=share,norm=node)"
FILTERS = ["schedulable", "taints", "node-selector", "fit"]


def plain(*scores, name, tie="lowest-rank", **more):
    return {"name": name, "filters": FILTERS, **more, "tie": tie, "scores": list(scores)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fgd", plain({"policy": "fgd", "weight": 1.0}, name="fgd")),
        (
            "power:100 + fgd:900",
            plain({"policy": "power", "weight": 100.0}, {"policy": "fgd", "weight": 900.0}, name="power:100+fgd:900"),
        ),
        (
            "dot-product(dimension=share, norm=node)",
            plain(
                {"policy": "dot-product", "weight": 1.0, "dimension": "share", "norm": "node"},
                name="dot-product(dimension=share,norm=node)",
            ),
        ),
        (
            "fgd(levels=50,cover=0.9):2.5",
            plain({"policy": "fgd", "weight": 2.5, "levels": 50, "cover": 0.9}, name="fgd(levels=50,cover=0.9):2.5"),
        ),
    ],
)
def test_text_becomes_plain_data_and_plain_data_the_same_profile(text, expected):
    profile = load_profile(text)
    assert profile.description == expected
    again = load_profile(json.loads(json.dumps(profile.description)))
    assert again.description == expected
    assert (again.name, [(used.name, used.weight, type(used.plugin)) for used in again.scores]) == (
        profile.name,
        [(used.name, used.weight, type(used.plugin)) for used in profile.scores],
    )


def test_a_file_says_everything(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        name = "frugal"
        filters = ["fit"]
        devices = "most-free"
        tie = "dot-product(norm=pod)"

        [[scores]]
        policy = "fgd"
        weight = 3
        levels = 50

        [[scores]]
        policy = "power"
        """,
        encoding="utf-8",
    )
    profile = load_profile(path)
    assert profile.description == {
        "name": "frugal",
        "filters": ["fit"],
        "devices": "most-free",
        "tie": "dot-product(norm=pod)",
        "scores": [{"policy": "fgd", "weight": 3.0, "levels": 50}, {"policy": "power", "weight": 1.0}],
    }
    assert isinstance(profile.devices, MostFree)
    assert profile.tie is not None
    assert isinstance(profile.tie.plugin, DotProduct)
    assert [used.name for used in profile.filters] == ["fit"]
    assert load_profile(profile.description).description == load_profile(str(path)).description


def test_a_file_is_named_after_itself(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[[scores]]\npolicy = "best-fit"\n', encoding="utf-8")
    assert load_profile(path).name == "mine"


def test_each_load_has_plug_ins_of_its_own():
    assert load_profile("fgd").scores[0].plugin is not load_profile("fgd").scores[0].plugin


def test_the_device_rule_is_the_named_one_then_a_policys_own_then_least_sufficient():
    given = {"scores": [{"policy": "fgd"}], "devices": "least-sufficient"}
    assert isinstance(load_profile(given).devices, LeastSufficient)
    assert isinstance(load_profile("power:1+fgd:9").devices, Fgd)
    assert isinstance(load_profile("best-fit").devices, LeastSufficient)
    assert isinstance(load_profile("dot-product(dimension=extend)").devices, DotProduct)


def test_random_ties_are_the_random_policy():
    profile = load_profile({"scores": [{"policy": "fgd"}], "tie": "random"})
    assert profile.tie is not None
    assert isinstance(profile.tie.plugin, Random)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best-fitt", 'no policy "best-fitt"; did you mean "best-fit"? (foresail policies lists all 20)'),
        ("", f'"" is no policy; {EXAMPLES}'),
        ("fgd+", f'"" is no policy; {EXAMPLES}'),
        (
            "fgd(levels)",
            f'"levels" in "fgd(levels)" is no option; {EXAMPLES}',
        ),
        ("fgd:heavy", 'the weight of "fgd" is "heavy"; a weight is a number above 0, as in fgd:100'),
        ("fgd:-1", 'the weight of "fgd" is -1.0; a weight is a number above 0'),
        ("fgd:nan", 'the weight of "fgd" is nan; a weight is a number above 0'),
        ("fgd(weight=2)", '"weight" is no option of fgd; a weight stands behind a colon, as in fgd:100'),
        ("fgd(levels=x)", 'fgd: levels is "x"; allowed is a whole number'),
    ],
)
def test_mistakes_in_text(text, message):
    with pytest.raises(OptionError) as raised:
        load_profile(text)
    assert str(raised.value) == message


ONE_SCORE = '[[scores]]\npolicy = "fgd"\n'
MISTAKES = {
    "name = \n": (":1", "not TOML: invalid value"),
    "\n\n[[scores]]\npolicy = fgd\n": (":4", "not TOML: invalid value"),
    "": ("", 'profile "bad" has no scores; give it at least one [[scores]] table'),
    f"filter = []\n{ONE_SCORE}": (
        "",
        'unknown key "filter"; did you mean "filters"? keys are name, filters, devices, tie, scores',
    ),
    f'filters = "fit"\n{ONE_SCORE}': ("", f"filters is 'fit'; a list of names is needed, such as {FILTERS}"),
    f'filters = ["fits"]\n{ONE_SCORE}': (
        "",
        'filters: no filter "fits"; did you mean "fit"? (foresail policies lists all 17)',
    ),
    f'devices = "best"\n{ONE_SCORE}': ("", 'devices: no device rule "best" (foresail policies lists all 3)'),
    f"devices = 3\n{ONE_SCORE}": ("", 'devices is 3; text is needed, such as devices = "least-sufficient"'),
    f'tie = "lowest"\n{ONE_SCORE}': ("", 'tie: no policy "lowest" (foresail policies lists all 20)'),
    f'tie = "fgd:3"\n{ONE_SCORE}': ("", 'tie: "fgd:3" has a weight; only scores have weights'),
    'scores = "fgd"\n': ("", "scores is 'fgd'; write one [[scores]] table for each policy"),
    "[[scores]]\nweight = 1\n": ("", '[[scores]] number 1 has policy None; name one, such as policy = "fgd"'),
    f'{ONE_SCORE}weight = "2"\n': ("", "[[scores]] number 1: weight is '2'; a weight is a number above 0"),
    f"{ONE_SCORE}weight = 0\n": (
        "",
        '[[scores]] number 1: the weight of "fgd" is 0.0; a weight is a number above 0',
    ),
    f"{ONE_SCORE}{ONE_SCORE}level = 3\n": (
        "",
        '[[scores]] number 2: fgd has no option "level"; did you mean "levels"? it has levels, cover',
    ),
}


@pytest.mark.parametrize(("toml", "place", "message"), [(toml, *said) for toml, said in MISTAKES.items()])
def test_mistakes_in_a_file_name_the_file_the_key_and_the_remedy(tmp_path, toml, place, message):
    path = tmp_path / "bad.toml"
    path.write_text(toml, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        load_profile(path)
    assert str(raised.value) == f"{path}{place}: {message}"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: there is no such profile; give a TOML file or a policy's name"):
        load_profile(str(tmp_path / "none.toml"))


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_bytes(b"name = '\xff'\n")
    with pytest.raises(InputError, match="byte 8 is not UTF-8; a profile is a TOML file in UTF-8"):
        load_profile(path)


def test_a_profile_refuses_what_is_no_plug_in():
    with pytest.raises(ForesailError, match='"x" is not a scoring policy'):
        UsedScore("x", object())
    with pytest.raises(ForesailError, match='"x" is not a filter'):
        Profile("p", filters=[("x", object())], scores=[UsedScore("fgd", Fgd())], devices=LeastSufficient())


class Spoilt:
    """A score, filter and device rule that does one of its parts wrong."""

    reason = "are spoilt"
    keeps_best = False

    def __init__(self, part):
        self.part = part

    def _try(self, part, answer):
        if part == self.part:
            raise KeyError(part)
        return answer

    def score(self, _pod, nodes):
        return self._try("score", np.zeros(len(nodes)))

    def normalize(self, _pod, _nodes, raw):
        return self._try("normalize", raw)

    def same_for_all(self, _pod, _nodes):
        return self._try("same_for_all", None)

    def passes(self, _pod, nodes):
        return self._try("passes", np.ones(len(nodes), dtype=bool))

    def skips(self, _pod, _nodes):
        return self._try("skips", False)

    def devices(self, _pod, _nodes, _row):
        return self._try("devices", (0,))


@pytest.mark.parametrize(
    ("part", "whose"),
    [
        ("score", 'policy "x"'),
        ("normalize", 'policy "x"'),
        ("same_for_all", 'policy "x"'),
        ("passes", 'filter "y"'),
        ("skips", 'filter "y"'),
        ("devices", 'the device rule of "p"'),
    ],
)
def test_whatever_a_plug_in_raises_is_told_as_the_policys_fault(part, whose):
    table = make_table(free=[(4, 8, 1000)] * 3)
    spoilt = Spoilt(part)
    profile = Profile("p", filters=[("y", spoilt)], scores=[UsedScore("x", spoilt)], devices=spoilt)
    with pytest.raises(PolicyError, match=f"^{whose} failed on pod: KeyError: '{part}'$"):
        decide(make_pod(gpu=500, nodes=table), table, profile)
