"""A setting stands once: its option, its key in files, its words in a command and its place in manifests follow."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from foresail.cli.options import Given, OptionSource, takes_options
from foresail.core.backoff import Backoff
from foresail.errors import InputError
from foresail.experiments.request import RunRequest
from foresail.settings import SettingsFile, command_words, described, from_plain, make, plain, setting
from foresail.sim.protocols.clock_settings import ClockSettings


@dataclass(frozen=True)
class Inner:
    pause_s: float = 2.5
    """How long nothing happens."""
    way: Literal["up", "down"] = "up"
    """Where to."""


@dataclass(frozen=True)
class Outer:
    names: tuple[str, ...] = setting((), option="--name", example="a")
    """Who."""
    quick: bool = False
    """Whether it is quick."""
    keeps: bool = setting(default=True, option="--drop", negates=True)
    """Whether all is kept."""
    late: int = setting(0, said_if_given=True)
    """Came later."""
    clock: Inner = setting(default_factory=Inner)
    """Protocol clock"""


def parsed(kind, words):
    """What a verb with these settings is given for these words."""
    found = []
    app = typer.Typer()

    @app.command()
    @takes_options(OptionSource(kind))
    def verb(given: Given) -> None:
        found.append(make(kind, given.of(kind)))

    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return found[0]


def test_a_field_is_an_option_with_its_meaning_unit_and_default():
    app = typer.Typer()
    app.command()(takes_options(OptionSource(Outer))(lambda given: None))
    said = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    assert "--pause SECONDS Protocol clock: how long nothing happens. [default: 2.5]" in said
    assert "--way <up|down> Protocol clock: where to. [default: up]" in said
    assert "Whether it is quick." in said


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        Outer,
        names=st.lists(st.text("abc", min_size=1), max_size=2).map(tuple),
        quick=st.booleans(),
        keeps=st.booleans(),
        late=st.integers(0, 9),
        clock=st.builds(Inner, pause_s=st.sampled_from([2.5, 0.125, 7.0]), way=st.sampled_from(["up", "down"])),
    )
)
def test_settings_come_back_from_their_command_and_from_their_manifest(wanted):
    assert parsed(Outer, command_words(wanted)) == wanted
    assert from_plain(Outer, json.loads(json.dumps(plain(wanted)))) == wanted


def test_what_manifests_knew_nothing_of_is_said_only_if_it_was_given():
    assert "late" not in plain(Outer())
    assert plain(Outer(late=3))["late"] == 3


def test_the_command_of_a_run_names_every_setting_that_is_not_a_default():
    clock = ClockSettings(until_s=7.5, fail_impossible=False, backoff=Backoff(1, 10), after_failure="resume")
    request = RunRequest("n.csv", "p.csv", "fgd", protocol="clock", controllers=("equal-shares",), clock=clock)
    assert request.command == [
        *("foresail", "simulate", "--protocol", "clock", "--nodes", "n.csv", "--pods", "p.csv", "--policy", "fgd"),
        *("--seed", "42", "--controller", "equal-shares", "--until", "7.5", "--after-failure", "resume"),
        *("--keep-impossible", "--backoff", "1:10"),
    ]
    assert parsed(RunRequest, request.command[2:]) == request


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"quick": 1}, "quick is 1; write true or false"),
        ({"late": 1.5}, "late is 1.5; a whole number is needed, such as 0"),
        ({"clock": {"pause_s": "x"}}, "[clock]: pause_s is 'x'; a number is needed, such as 2.5"),
        ({"clock": {"pause": 1}}, '[clock]: unknown key "pause"; did you mean "pause_s"? keys are pause_s, way'),
        ({"names": []}, 'names is []; a list is needed, such as ["a"]'),
    ],
)
def test_a_mistake_in_a_file_names_file_key_value_and_remedy(data, said):
    with pytest.raises(InputError) as refused:
        SettingsFile(Path("x.toml")).table(Outer, data)
    assert str(refused.value) == f"x.toml: {said}"


@pytest.mark.parametrize("kind", [RunRequest, ClockSettings])
def test_every_setting_says_what_it_means(kind):
    assert [one.key for one in described(kind) if not one.meaning] == []
