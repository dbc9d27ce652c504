"""The registry: names, options, and policies of other packages."""

import importlib.metadata
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Literal

import pytest
from tests.plugins.packages import distribution

from foresail.errors import OptionError
from foresail.plugins.options import converted, options_of
from foresail.plugins.registry import NameClashWarning
from foresail.policies import DEVICE_RULES, FILTERS, POLICIES, REGISTRY, policy
from foresail.testing import check_policy

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "my-policy"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, table in (("policy", POLICIES), ("filter", FILTERS), ("device rule", DEVICE_RULES))
        for name in table
    ],
)
def test_every_name_builds_a_fresh_object_and_explains_itself(kind, name):
    assert REGISTRY.build(kind, name, {}) is not REGISTRY.build(kind, name, {})
    assert REGISTRY.find(kind, name).summary
    assert REGISTRY.find(kind, name).origin == "built-in"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("best-fitt", {}, 'no policy "best-fitt"; did you mean "best-fit"? (foresail policies lists all 20)'),
        ("zzz", {}, 'no policy "zzz" (foresail policies lists all 20)'),
        ("best-fit", {"levels": 1}, 'best-fit has no option "levels"; it has no options'),
        ("fgd", {"level": 1}, 'fgd has no option "level"; did you mean "levels"? it has levels, cover'),
        ("fgd", {"levels": "many"}, 'fgd: levels is "many"; allowed is a whole number'),
        ("fgd", {"levels": 1.5}, "fgd: levels is 1.5; allowed is a whole number"),
        ("fgd", {"levels": True}, "fgd: levels is True; allowed is a whole number"),
        ("fgd", {"levels": 0}, "fgd: levels is 0; at least 1 is needed (the published policy has 100)"),
        ("dot-product", {"norm": "l2"}, 'dot-product: norm is "l2"; allowed is max, node, pod'),
        ("balanced", {"version": 1.36}, "balanced: version is 1.36; allowed is 1.21, 1.21-difference, 1.22, 1.36"),
        ("simon", {"count_gpu": "perhaps"}, 'simon: count_gpu is "perhaps"; allowed is true or false'),
        ("power", {"cores_per_socket": 0}, "power: cores_per_socket is 0; a socket has at least 1 core"),
        (
            "power",
            {"cpu_idle_w": 200},
            "power: cpu_idle_w is 200.0 and cpu_full_w is 120.0; need 0 <= idle <= full power",
        ),
    ],
)
def test_errors_say_what_is_wrong_and_what_is_allowed(name, options, message):
    with pytest.raises(OptionError) as raised:
        policy(name, **options)
    assert str(raised.value) == message


def test_a_filter_is_no_policy():
    with pytest.raises(OptionError, match=r'"fit" is a filter, not a policy; a policy is one of balanced, best-fit'):
        policy("fit")


def test_text_options_become_what_the_constructor_wants():
    def scorer(
        *,
        count: int = 1,
        part: float = 0.5,
        on: bool = False,
        mode: Literal["a", "b"] = "a",
        most: int | None = None,
        untyped=3,
        name: str,
    ) -> None:
        raise NotImplementedError

    given = {"count": "7", "part": "1", "on": "yes", "mode": "b", "most": "none", "untyped": "4", "name": "x"}
    values = converted("scorer", scorer, given)
    assert values == {"count": 7, "part": 1.0, "on": True, "mode": "b", "most": None, "untyped": 4, "name": "x"}
    assert converted("scorer", scorer, {"name": "x", "most": "12"}) == {"name": "x", "most": 12}
    with pytest.raises(OptionError, match=r"^scorer needs the option name \(text\)$"):
        converted("scorer", scorer, {})
    assert [(option.name, option.allowed, option.required) for option in options_of(scorer)][:2] == [
        ("count", "a whole number", False),
        ("part", "a number", False),
    ]


def test_importing_the_registry_loads_no_kernels():
    code = "import sys, foresail.policies; print(sorted({'numba', 'numpy', 'polars'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


# --- other packages --------------------------------------------------------------------------------------------------


GOOD = """
    class First:
        '''Prefer the first node.'''
        row_wise = True
        def __init__(self, *, bonus: int = 1):
            self.bonus = bonus
        def score(self, pod, nodes):
            return (nodes.index == 0) * self.bonus

    class Even:
        '''Keep to even rows.'''
        reason = "are odd"
        def passes(self, pod, nodes):
            return nodes.index % 2 == 0

    class Nothing:
        pass
"""


def test_policies_of_other_packages_are_found_by_name(packages):
    distribution(packages, "good-pack", {"first": "good_pack:First", "even": "good_pack:Even"}, GOOD)
    assert policy("first", bonus="5").bonus == 5
    assert REGISTRY.build("filter", "even", {}).reason == "are odd"
    entries = {entry.name: entry for entry in REGISTRY.registered()}
    assert (entries["first"].kind, entries["first"].origin, entries["first"].summary) == (
        "policy",
        "good-pack 1.0",
        "Prefer the first node",
    )
    assert entries["even"].kind == "filter"
    with pytest.raises(
        OptionError, match=r'no policy "frist"; did you mean "first"\? \(foresail policies lists all 21\)'
    ):
        policy("frist")


def test_a_broken_package_is_named_and_spares_the_others(packages):
    distribution(packages, "bad-pack", {"bad": "bad_pack:Bad", "gone": "bad_pack:Gone"}, "import does_not_exist\n")
    distribution(packages, "good-pack", {"first": "good_pack:First", "odd": "good_pack:Nothing"}, GOOD)
    assert policy("first").bonus == 1
    broken = {entry.name: (entry.origin, entry.error) for entry in REGISTRY.registered() if entry.factory is None}
    missing = "ModuleNotFoundError: No module named 'does_not_exist'"
    assert broken == {
        "bad": ("bad-pack 1.0", missing),
        "gone": ("bad-pack 1.0", missing),
        "odd": ("good-pack 1.0", "good_pack:Nothing has no score(), passes(), refuses() or devices()"),
    }
    with pytest.raises(OptionError, match=r'^"bad" of bad-pack 1.0 cannot be loaded: ModuleNotFoundError'):
        policy("bad")


def test_a_policy_whose_constructor_raises_anything_is_told_by_name(packages):
    source = """
    class Weights:
        def __init__(self) -> None:
            open("/no/such/weights")

        def score(self, pod, nodes): ...
    """
    distribution(packages, "heavy-pack", {"heavy": "heavy_pack:Weights"}, source)
    with pytest.raises(OptionError, match=r'^"heavy" of heavy-pack 1.0 cannot be made: FileNotFoundError: .*weights'):
        policy("heavy")


def test_a_name_that_is_taken_is_refused_with_a_warning(packages):
    distribution(packages, "good-pack", {"fgd": "good_pack:First", "mine": "good_pack:First"}, GOOD)
    distribution(packages, "later-pack", {"mine": "later_pack:First"}, GOOD)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert type(policy("fgd")).__module__ == "foresail.policies.gpu_sharing.fgd"
        assert type(policy("mine")).__module__ == "good_pack"
    said = [str(warning.message) for warning in caught if warning.category is NameClashWarning]
    remedy = "has a policy of that name; give the entry point another name"
    assert said == [
        f'"fgd" of good-pack 1.0 is ignored: built-in {remedy}',
        f'"mine" of later-pack 1.0 is ignored: good-pack 1.0 {remedy}',
    ]


def test_the_example_package_declares_what_it_ships(packages):
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    source = (EXAMPLE / "my_policy.py").read_text(encoding="utf-8")
    distribution(packages, "my-policy", declared["foresail.policies"], source)
    check_policy(policy("tight-memory"))
    assert [point.name for point in importlib.metadata.entry_points(group="foresail.policies")] == ["tight-memory"]
