from __future__ import annotations

from typing import Any

import pytest

from penstock.sql.parse import parse
from penstock.sql.statements import Select


def filters(where: str, source: str = "'a.csv' t") -> tuple[Any, ...]:
    (statement,) = parse(f"SELECT 1 FROM {source} WHERE {where}")
    assert isinstance(statement, Select)
    return statement.query.relations[0].filters


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("a = 1", (("a", "=", 1),)),
        ("t.a > 2.5 AND (b <= -3 AND 'x' = c)", (("a", ">", 2.5), ("b", "<=", -3), ("c", "=", "x"))),
        ("5 < a", (("a", ">", 5),)),
        ("a IN ('x', 'y') AND b IS NOT NULL", (("a", "in", ("x", "y")), ("b", "is not null", None))),
        ("ok = true", (("ok", "=", True),)),
        ("a = 1 OR b = 2", ()),
        ("NOT a = 1", ()),
        ("a NOT IN (1)", ()),
        ("a IN (1, NULL)", ()),
        ("a = b", ()),
        ("a + 1 = 2", ()),
        ("data.a = 1", ()),
        ("a = 'it''s' AND b = 'a\\\\b' AND c = 10L", ()),
        ("a BETWEEN 1 AND 2", ()),
        ("a IS NULL", ()),
    ],
)
def test_simple_conditions_on_columns(where: str, found: tuple[Any, ...]) -> None:
    assert filters(where) == found


@pytest.mark.parametrize(
    "source",
    ["'a.csv' t JOIN 'b.csv' u ON true", "'a.csv' t LATERAL VIEW explode(x) AS a", "'a.csv' t, 'b.csv' u"],
)
def test_none_where_a_name_may_mean_something_else(source: str) -> None:
    assert filters("a = 1", source) == ()


def test_each_relation_has_the_conditions_of_its_own_select() -> None:
    (statement,) = parse(
        "SELECT * FROM (SELECT * FROM 'a.csv' WHERE a > 1) WHERE a < 9"
        " UNION SELECT * FROM 'b.csv' WHERE b = 2"
    )
    assert isinstance(statement, Select)
    assert [r.filters for r in statement.query.relations] == [(("a", ">", 1),), (("b", "=", 2),)]
