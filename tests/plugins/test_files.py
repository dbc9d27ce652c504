import importlib

import pytest

from foresail.controllers import controller
from foresail.errors import InputError, OptionError
from foresail.plugins.files import files_of, sources_of
from foresail.policies import policy


class Reads:
    def __init__(self, reads):
        self.reads = reads


def test_files_may_be_said_in_any_of_the_ways_in_which_paths_are_written(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.toml"
    first.touch()
    second.touch()
    assert files_of(Reads(first)) == (first,)
    assert files_of(Reads(str(first))) == (first,)
    assert files_of(Reads([str(first), second])) == (first, second)
    assert files_of(Reads(lambda: iter([second]))) == (second,)
    assert files_of(Reads(())) == files_of(object()) == ()


@pytest.mark.parametrize("reads", [7, [b"x"], None])
def test_what_is_no_path_is_refused(reads):
    with pytest.raises(OptionError, match=r"Reads: reads is .*; it gives the paths of the files that are read"):
        files_of(Reads(reads))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.npz: there is no such file; Reads reads it"):
        files_of(Reads(tmp_path / "gone.npz"))


def test_built_in_plugins_have_no_source_beside_foresail_itself():
    assert sources_of(policy("fgd")) == sources_of(controller("equal-shares")) == ()


def test_the_source_of_a_module_is_its_file_and_that_of_a_package_all_its_modules(packages):
    (packages / "lone_module.py").write_text("class Lone: ...\n")
    for name in ("__init__", "plugin", "maths/__init__", "maths/kernel"):
        path = packages / "whole_package" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("class Deep: ...\n")
    lone = importlib.import_module("lone_module").Lone()
    deep = importlib.import_module("whole_package.maths.kernel").Deep()
    assert sources_of(lone) == (packages / "lone_module.py",)
    assert [str(path.relative_to(packages / "whole_package")) for path in sources_of(deep)] == [
        "__init__.py",
        "maths/__init__.py",
        "maths/kernel.py",
        "plugin.py",
    ]


def test_what_was_typed_stands_in_no_file():
    namespace = {"__name__": "typed"}
    exec("class Typed: ...", namespace)  # noqa: S102 - our own words
    assert sources_of(namespace["Typed"]()) == ()
