from __future__ import annotations

import pytest

from penstock import errors
from penstock.errors import OptionError, PenstockError, Place, did_you_mean


def test_an_error_shows_its_place_underlined_and_its_hint() -> None:
    text = "SELECT *\nFROM 'x' WITH (topik = 'a')"
    at = Place.of("q.sql", text, text.index("topik"), text.index("topik") + 5)
    error = OptionError(
        "unknown-option", "unknown option 'topik' for kafka", at=at, hint="did you mean 'topic'?"
    )
    assert str(error) == (
        "error[unknown-option]: unknown option 'topik' for kafka\n"
        "  --> q.sql:2:16\n"
        "   |\n"
        " 2 | FROM 'x' WITH (topik = 'a')\n"
        "   |                ^^^^^\n"
        "  hint: did you mean 'topic'?"
    )
    assert error.to_dict() == {
        "code": "unknown-option",
        "message": "unknown option 'topik' for kafka",
        "at": {"source": "q.sql", "line": 2, "column": 16},
        "hint": "did you mean 'topic'?",
    }


@pytest.mark.parametrize(
    ("start", "end", "line", "column", "length"),
    [(0, 1, 1, 1, 1), (3, 99, 2, 1, 2), (99, None, 3, 1, 1), (-5, None, 1, 1, 1), (2, 4, 1, 3, 1)],
)
def test_a_place_never_leaves_its_text(
    start: int, end: int | None, line: int, column: int, length: int
) -> None:
    place = Place.of("x", "ab\ncd\n", start, end)
    assert (place.line, place.column, place.length) == (line, column, length)


def test_tabs_before_the_place_keep_the_underline_aligned() -> None:
    error = PenstockError("x", "m", at=Place.of("x", "\t\tab", 2, 4))
    assert error.render().splitlines()[-1] == "   | \t\t^^"


def test_every_error_class_has_the_exit_code_of_its_family() -> None:
    for name, code in {
        "InputError": 2,
        "DataError": 2,
        "ConfigError": 2,
        "SetupError": 3,
        "RunError": 1,
    }.items():
        assert getattr(errors, name).exit_code == code


def test_the_nearest_name_is_suggested_else_all_when_few() -> None:
    assert did_you_mean("topik", ["topic", "key"]) == "did you mean 'topic'?"
    assert did_you_mean("zzz", ["topic", "key"]) == "known: key, topic"
    assert did_you_mean("zzz", [f"k{i}" for i in range(50)]) is None
