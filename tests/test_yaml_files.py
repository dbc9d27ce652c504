"""YAML of strangers: what would exhaust memory or the stack is refused with its line, and plain words stay text."""

import pytest
import yaml

from foresail.errors import InputError
from foresail.yaml_files import DEEPEST, read_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(10))}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name}\n  <<: [{', '.join(f'*{before}' for _ in range(10))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def read(tmp_path):
    def read_text(text, **more):
        path = tmp_path / "some.yaml"
        path.write_text(text, encoding="utf-8")
        return read_yaml(path, **more)

    return read_text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, r"some\.yaml:\d+: is no YAML: its aliases stand for more than 5000000 values"),
        (MERGES, r"some\.yaml:\d+: is no YAML: its aliases stand for more than"),
        ("a: &a [*a]\n", r"some\.yaml:1: is no YAML: an anchor contains itself"),
        ("[" * 30_000, "nests more than 200 levels deep"),
        ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000)), "nests more than 200 levels"),
        ("a: 1\nb: 2\na: 3\n", r'some\.yaml:3: is no YAML: the key "a" stands there twice'),
        ("a: !!bool x\n", "is no YAML that can be read"),
        ("a: !!int ''\n", "is no YAML that can be read"),
        (f"a: {'9' * 5000}\n", "is no YAML that can be read"),
        ("a: 1\n---\nb: 2\n", r"some\.yaml:\d: is no YAML: another document begins"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
    ],
)
def test_what_is_no_honest_tree_is_refused(read, text, said):
    with pytest.raises(InputError, match=said) as raised:
        read(text)
    assert len(str(raised.value)) < 1500


@pytest.mark.parametrize("words", ["1:30", "190:20:30.15", "2026-11-17", "2026-11-17T10:00:00Z"])
def test_times_stay_text(read, words):
    assert read(f"a: {words}\n") == {"a": words}


@pytest.mark.parametrize(
    "words",
    [
        "0",
        "-7",
        "+12",
        "0x1F",
        "0b11",
        "017",
        "1_000",
        "1.5",
        "-.5",
        "1e3",
        "1.5e3",
        "1.5e+3",
        ".inf",
        "-.INF",
        "yes",
        "~",
        "x",
    ],
)
def test_all_else_is_read_as_the_library_does(read, words):
    assert read(f"a: {words}\n") == yaml.safe_load(f"a: {words}\n")


def test_aliases_and_merges_of_ordinary_files_are_followed(read):
    text = "base: &base {cpu: 1, memory: 2}\nboth:\n  - *base\n  - {<<: *base, cpu: 3}\n"
    assert read(text) == yaml.safe_load(text)
    deep = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert read(deep) == yaml.safe_load(deep)


def test_errors_say_what_the_file_was_to_be(read, tmp_path):
    with pytest.raises(InputError, match="the kubeconfig is no YAML"):
        read("a: [", what="the kubeconfig")
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="the kubeconfig is not UTF-8 text"):
        read_yaml(tmp_path / "bad", what="the kubeconfig")
    with pytest.raises(InputError, match="give one"):
        read_yaml(tmp_path / "none", missing="give one")
