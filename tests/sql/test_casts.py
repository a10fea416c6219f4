from __future__ import annotations

import pytest

from penstock.sql.parse import parse
from penstock.sql.statements import Select


def check(text: str) -> str | None:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return statement.query.failed_cast


def fails(value: str, kind: str, written: str) -> str:
    return (
        f"WHEN ({value}) IS NOT NULL AND TRY_CAST({value} AS {kind}) IS NULL AND typeof({value}) <> 'variant'"
        f" THEN concat('{written} fails on ', coalesce(left(TRY_CAST({value} AS STRING), 200), '?'))"
    )


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("SELECT CAST(a AS INT) FROM t", [fails("a", "INT", "CAST(a AS INT)")]),
        ("SELECT t.a :: int FROM t", [fails("t.a", "int", "t.a :: int")]),
        ("SELECT -f(a)::int x FROM t", [fails("f(a)", "int", "f(a)::int")]),
        (
            "SELECT CAST(CAST(a AS INT) AS STRING) FROM t",
            [
                fails("a", "INT", "CAST(a AS INT)"),
                fails("TRY_CAST(a AS INT)", "STRING", "CAST(CAST(a AS INT) AS STRING)"),
            ],
        ),
        (
            "SELECT a::int::string FROM t",
            [fails("a", "int", "a::int"), fails("TRY_CAST(a AS int)", "string", "a::int::string")],
        ),
        (
            "SELECT (a->>'b')::int FROM t",
            [fails("(get_json_object(a, '$.b'))", "int", "(a->>\\'b\\')::int")],
        ),
        ("SELECT 1 FROM t WHERE CAST(a AS INT) > 1", [
            fails("a", "INT", "CAST(a AS INT)"), "WHEN (TRY_CAST(a AS INT) > 1) IS NOT TRUE THEN ''"]),
        # Conditions without a CAST come first; then the SELECT list, for the rows that are left.
        ("SELECT CAST(b AS DATE) FROM t WHERE CAST(a AS INT) BETWEEN 1 AND 2 AND c", [
            "WHEN (c) IS NOT TRUE THEN ''", fails("a", "INT", "CAST(a AS INT)"),
            "WHEN (TRY_CAST(a AS INT) BETWEEN 1 AND 2) IS NOT TRUE THEN ''",
            fails("b", "DATE", "CAST(b AS DATE)")]),
        ("SELECT CAST(b AS DATE) FROM t WHERE c OR CAST(a AS INT) = 1 AND d", [
            "WHEN (c OR CAST(a AS INT) = 1 AND d) IS NOT TRUE THEN ''",
            fails("b", "DATE", "CAST(b AS DATE)")]),
        ("SELECT CAST(a -- why\n AS INT) FROM t", [fails("a", "INT", "CAST(a -- why AS INT)")]),
        ("SELECT sum(CAST(a AS INT)) FROM t GROUP BY b", [fails("a", "INT", "CAST(a AS INT)")]),
    ],
)  # fmt: skip
def test_what_tells_of_a_failed_cast(text: str, steps: list[str]) -> None:
    assert check(text) == f"CASE {' '.join(steps)} END"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t",
        "SELECT TRY_CAST(a AS INT) FROM t",
        "SELECT CASE WHEN a THEN CAST(b AS INT) END FROM t",
        "SELECT coalesce(CAST(b AS INT), 1), if(a, b::int, 0), nvl(a, b::int) FROM t",
        "SELECT a AND CAST(b AS BOOLEAN) FROM t",
        "SELECT 1 FROM t WHERE a OR CAST(b AS INT) > 1",
        "SELECT 1 FROM t WHERE a IN (CAST(b AS INT), 1)",
        "SELECT filter(a, x -> CAST(x AS INT) > 1) FROM t",
        "SELECT try_add(CAST(a AS INT), 1) FROM t",
        "SELECT sum(a) FILTER (WHERE CAST(b AS INT) > 1) FROM t",
        "SELECT CAST(row_number() OVER (ORDER BY a) AS INT) FROM t",
        "SELECT a FROM t ORDER BY CAST(a AS INT)",
        "SELECT count(*) AS n FROM t GROUP BY CAST(a AS INT) HAVING CAST(n AS INT) > 1",
        "SELECT CAST(a AS INT) FROM t WHERE rand() < 0.5",
        "SELECT CAST(a AS INT) FROM t JOIN u ON t.id = u.id",
        "SELECT CAST(a AS INT) FROM t TABLESAMPLE (5 ROWS)",
        "SELECT CAST(a AS INT) FROM t LATERAL VIEW explode(b) x AS c",
        "SELECT CAST(a AS INT) FROM (SELECT a FROM t)",
        "SELECT CAST(a AS INT) FROM t WHERE b IN (SELECT b FROM u)",
        "SELECT CAST(a AS INT) FROM t UNION ALL SELECT b FROM t",
        "WITH w AS (SELECT CAST(a AS INT) AS a FROM t) SELECT a FROM w",
    ],
)
def test_what_is_not_certain_is_left_to_spark(text: str) -> None:
    assert check(text) is None


def test_the_text_for_spark_stays_as_it_was_written() -> None:
    (statement,) = parse("SELECT CAST(a AS INT), b::int FROM t")
    assert isinstance(statement, Select)
    assert statement.query.spark_sql(["v"]) == "SELECT CAST(a AS INT), b::int FROM `v` AS `t`"
