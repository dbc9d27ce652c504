import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.errors import OptionError
from foresail.plugins.naming import parse_named, written

WORDS = st.text("abcxyz019_.-", min_size=1)


@given(WORDS, st.dictionaries(WORDS, st.text("abc019/.:=() ", min_size=1).map(str.strip)))
def test_what_is_written_is_read_again(name, options):
    assert parse_named(written(name, options), "controller", "equal-shares") == (name, options)


def test_blanks_around_names_and_values_do_not_count():
    assert parse_named(" a : x = 1 , path=/m:2/w.npz", "controller", "a")[1] == {"x": "1", "path": "/m:2/w.npz"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", '"" is no controller'),
        ("a:", '"a:" is no controller'),
        ("a(x=1)", '"a(x=1)" is no controller'),
        ("a:x", '"x" in "a:x" is no option'),
        ("a:=1", '"=1" in "a:=1" is no option'),
        ("a:x=1,", '"" in "a:x=1," is no option'),
    ],
)
def test_what_cannot_be_read_is_shown_with_examples(text, said):
    with pytest.raises(OptionError) as error:
        parse_named(text, "controller", "eq")
    assert str(error.value) == f"{said}; examples: eq, eq:every_s=30, eq:key=value,key=value"


def test_an_option_that_stands_there_twice_is_refused():
    with pytest.raises(OptionError, match='"a:x=1,x=2" gives x twice; give it once'):
        parse_named("a:x=1,x=2", "controller", "a")
