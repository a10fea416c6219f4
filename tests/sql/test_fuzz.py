"""Whatever is written: statements, or one of our errors with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.errors import PenstockError
from penstock.sql.parse import parse
from tests.fuzzing import EXAMPLES, mutations
from tests.sql.corpus import EVERYTHING


def failure(text: str) -> PenstockError | None:
    try:
        parse(text)
    except PenstockError as error:
        return error
    return None


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutations(EVERYTHING))
def test_nearly_right_texts(text: str) -> None:
    error = failure(text)
    if error is not None:
        assert error.at is not None
        assert error.at.line <= text.count("\n") + 1
        assert error.render()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "f(" * 5000,
        "SELECT * FROM " + "(SELECT * FROM " * 5000 + "t" + ")" * 5000,
    ],
)
def test_nested_too_deeply(text: str) -> None:
    error = failure(text)
    assert error is not None
    assert error.code == "too-deep"
    assert error.at is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "struct(" * 100 + "1" + ")" * 100,
        "SELECT " + "decimal(" * 100 + "1" + ")" * 100,
        "SELECT * FROM a " + "JOIN b " * 40,
        "SELECT 1" + " AND 1" * 300,
    ],
)
def test_what_would_take_exponential_time(text: str) -> None:
    assert len(parse(text)) == 1
