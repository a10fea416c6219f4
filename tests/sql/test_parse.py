from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from penstock.errors import StatementError
from penstock.options import Setting
from penstock.sql import statements as s
from penstock.sql.parse import parse
from tests.sql.corpus import EVERYTHING, SELECTS, STATEMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = TypeVar("Kind", bound=s.Statement)


def one(text: str, kind: type[Kind]) -> Kind:
    (statement,) = parse(text)
    assert isinstance(statement, kind)
    return statement


def query(text: str) -> s.Query:
    return one(text, s.Select).query


def spark_sql(text: str) -> str:
    found = query(text)
    return found.spark_sql([f"v{i}" for i in range(len(found.relations))])


def values(settings: tuple[Setting, ...]) -> dict[str, Any]:
    return {setting.key: setting.value for setting in settings}


def error(text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        parse(text, "f.sql")
    assert caught.value.at is not None
    return caught.value


# Statements.


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements_are_read_in_any_case(text: str) -> None:
    (statement,) = parse(text)
    assert statement.text == text
    if "`" not in text:
        (lower,) = parse(text.lower())
        assert type(lower) is type(statement)


@pytest.mark.parametrize("text", ["", "  \n", ";", " ; ;\n;", "-- nothing", "/* nothing */ ; -- at all"])
def test_no_statements(text: str) -> None:
    assert parse(text) == []


def test_several_statements_know_their_places() -> None:
    text = (
        "-- one\nSELECT 1;\n\n/* two */ SELECT a\nFROM 'x' WITH (format = 'csv',\n  header = true)\nINTO out;"
    )
    first, second = parse(text, "f.sql")
    assert (str(first.at), first.text) == ("f.sql:2:1", "SELECT 1")
    assert str(second.at) == "f.sql:4:11"
    assert isinstance(second, s.Select)
    (relation,) = second.query.relations
    assert (str(relation.at), relation.at.length) == ("f.sql:5:6", 3)
    assert [str(setting.at) for setting in relation.settings] == ["f.sql:5:16", "f.sql:6:3"]
    assert str(second.sinks[0].at) == "f.sql:7:6"
    assert second.query.text[relation.start : relation.end] == "'x'"


def test_values_of_options() -> None:
    statement = one(
        """CREATE SINK s FROM x WITH (a = 'it''s', b = "say \\"hi\\"", c = 1, d = -2.5, e = 1e3, f = TRUE,
        g = null, h = INTERVAL '5' MINUTE, i = interval 1 hour 30 minutes, j = earliest, k = exactly-once,
        l = 5s, properties.bootstrap.servers = 'h:1', 'quoted.key' = 1, "other.key" = 2, `back` = 3,)""",
        s.CreateSink,
    )
    assert values(statement.settings) == {
        "a": "it's", "b": 'say "hi"', "c": 1, "d": -2.5, "e": 1000.0, "f": True, "g": None, "h": "5 minutes",
        "i": "1 hour 30 minutes", "j": "earliest", "k": "exactly-once", "l": "5s",
        "properties.bootstrap.servers": "h:1", "quoted.key": 1, "other.key": 2, "back": 3,
    }  # fmt: skip


def test_create_source() -> None:
    statement = one(
        "CREATE OR REPLACE SOURCE IF NOT EXISTS a.b (`odd name` INT NOT NULL COMMENT 'x', at TIMESTAMP(3), "
        "data JSONB, s STRUCT<timestamp: STRING, Key: INT>, WATERMARK FOR at AS at - INTERVAL '5' SECOND,) "
        "WITH (connector = 'kafka') FORMAT DEBEZIUM ENCODE AVRO (schema.registry = 'r')",
        s.CreateSource,
    )
    assert (statement.kind, statement.name, statement.replace, statement.if_not_exists) == (
        "source", "a.b", True, True,
    )  # fmt: skip
    assert [(c.name, c.type, c.nullable) for c in statement.columns] == [
        ("odd name", "INT", False),
        ("at", "TIMESTAMP", True),
        ("data", "STRING", True),
        ("s", "STRUCT<timestamp: STRING, Key: INT>", True),
    ]
    assert statement.watermark == s.Watermark("at", "at - INTERVAL '5' SECOND")
    assert (statement.row_format, statement.encoding) == ("DEBEZIUM", "AVRO")
    assert values(statement.settings) == {"connector": "kafka", "schema.registry": "r"}


@pytest.mark.parametrize(
    ("clause", "expected"),
    [("ROW FORMAT 'json'", (None, "JSON")), ("row format csv", (None, "CSV")),
     ("ROW FORMAT debezium_json", ("DEBEZIUM", "JSON")), ("FORMAT PLAIN ENCODE JSON", ("PLAIN", "JSON"))],
)  # fmt: skip
def test_row_formats(clause: str, expected: tuple[str | None, str]) -> None:
    for text in (f"CREATE TABLE t WITH (a = 1) {clause}", f"CREATE TABLE t {clause} WITH (a = 1)"):
        statement = one(text, s.CreateSource)
        assert (statement.kind, statement.row_format, statement.encoding) == ("table", *expected)


def test_a_sink_from_a_name_reads_all_of_it() -> None:
    statement = one("CREATE SINK out FROM db.s WITH (a = 1)", s.CreateSink)
    assert statement.query.spark_sql(["v"]) == "SELECT * FROM `v` AS `s`"
    assert statement.query.star


def test_small_statements() -> None:
    assert one("DROP VIEW IF EXISTS a.b", s.Drop).if_exists
    assert one("show connectors", s.Show).kind == "connector"
    assert one("DESC 'x.csv' WITH (header = true)", s.Describe).target.is_uri
    assert isinstance(one("EXPLAIN SELECT 1", s.Explain).statement, s.Select)
    assert one("SET spark.a.b = local[2] x", s.Set).setting.value == "local[2] x"
    assert one("SET a = -1", s.Set).setting.value == -1
    assert one("RESTART PIPELINE `p q`", s.Lifecycle).name == "p q"


# Where a WITH belongs.


@pytest.mark.parametrize(
    ("text", "of_relation", "of_statement"),
    [
        ("INSERT INTO a SELECT * FROM t WITH (x = 1)", {}, {"x": 1}),
        ("INSERT INTO a SELECT * FROM t k WITH (x = 1)", {}, {"x": 1}),
        ("INSERT INTO a SELECT * FROM t WITH (x = 1) WHERE b", {"x": 1}, {}),
        ("INSERT INTO a SELECT * FROM 'u' WITH (x = 1)", {"x": 1}, {}),
        ("INSERT INTO a SELECT * FROM 'u' k WITH (x = 1) WITH (y = 2)", {"x": 1}, {"y": 2}),
        ("INSERT INTO a SELECT b FROM t GROUP BY b WITH (x = 1)", {}, {"x": 1}),
        ("INSERT INTO a SELECT b FROM t ORDER BY b LIMIT 1 WITH (x = 1)", {}, {"x": 1}),
        ("INSERT INTO a SELECT b FROM (SELECT b FROM t) k WITH (x = 1)", {}, {"x": 1}),
        ("CREATE SINK a AS SELECT b FROM t WITH (x = 1)", {}, {"x": 1}),
        ("CREATE SINK a AS SELECT b FROM t WITH (x = 1) FORMAT PLAIN ENCODE JSON", {}, {"x": 1}),
    ],
)
def test_a_with_at_the_end(text: str, of_relation: dict[str, int], of_statement: dict[str, int]) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, (s.Insert, s.CreateSink))
    assert values(statement.query.relations[0].settings) == of_relation
    assert values(statement.settings) == of_statement


def test_a_with_behind_each_uri() -> None:
    statement = one(
        "SELECT * FROM 'a' WITH (x = 1) k JOIN 'b' AS h WITH (y = 2) ON k.a = h.b, 'c' "
        "INTO 'o' WITH (z = 3), name, 'p'",
        s.Select,
    )
    assert [values(r.settings) for r in statement.query.relations] == [{"x": 1}, {"y": 2}, {}]
    assert [(sink.name, sink.is_uri, values(sink.settings)) for sink in statement.sinks] == [
        ("o", True, {"z": 3}), ("name", False, {}), ("p", True, {}),
    ]  # fmt: skip
    assert spark_sql(statement.text) == "SELECT * FROM `v0`  k JOIN `v1` AS h  ON k.a = h.b, `v2`"


# Queries.


@pytest.mark.parametrize("text", SELECTS)
def test_sparks_own_sql_goes_through_untouched(text: str) -> None:
    found = query(text)
    written = [text[r.start : r.end] for r in found.relations]
    if "TABLESAMPLE" in text:
        return  # the alias of an unnamed sample is tested below
    assert found.edits == ()
    # Put back what was written, and the text must be the same.
    printed = found.spark_sql([f"<{i}>" for i in range(len(written))])
    for i, (relation, name) in enumerate(zip(found.relations, written, strict=True)):
        label = relation.name.rpartition(".")[2]
        printed = printed.replace(f"`<{i}>` AS `{label}`", name).replace(f"`<{i}>`", name)
    assert printed == found.text


@pytest.mark.parametrize(
    ("text", "relations"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM T JOIN u ON 1 = 1", ["t", "u"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a JOIN c) SELECT * FROM b", ["c"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", ["b"]),
        ("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", []),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a", ["a"]),
        ("SELECT (SELECT max(x) FROM u), b IN (SELECT c FROM db.v) FROM t", ["u", "db.v", "t"]),
        ("SELECT * FROM range(3), VALUES (1) AS x, explode(array(1))", []),
        ("TABLE t UNION TABLE u", ["t", "u"]),
        ("SELECT * FROM (t JOIN 'u' x ON a = b)", ["t", "u"]),
    ],
)
def test_relations(text: str, relations: list[str]) -> None:
    assert [relation.name for relation in query(text).relations] == relations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a->'b'->>'c' FROM t", "get_json_object(a, '$.b.c')"),
        ("SELECT t.a.b->0->>'odd key' FROM t", "get_json_object(t.a.b, '$[0][\\'odd key\\']')"),
        ("SELECT upper(f(a)->>'k') FROM t", "upper(get_json_object(f(a), '$.k'))"),
        ("SELECT (a || b)->>'$.c.d' FROM t", "get_json_object((a || b), '$.c.d')"),
        ("SELECT a->>'id'::int FROM t", "get_json_object(a, '$.id')::int"),
        ("SELECT a -> 'x' /* why */ ->> 'y' FROM t", "get_json_object(a , '$.x.y')"),
        ("SELECT transform(a->'b', x -> x->>'c') FROM t",
         "transform(get_json_object(a, '$.b'), x -> get_json_object(x, '$.c'))"),
        ("SELECT transform(xs, x -> 'c'), aggregate(xs, d->'e', (a, x) -> a) FROM t",
         "transform(xs, x -> 'c'), aggregate(xs, get_json_object(d, '$.e'), (a, x) -> a)"),
        ("SELECT json_extract(d->'e', '$.x')->>'z' FROM t",
         "get_json_object(get_json_object(get_json_object(d, '$.e'), '$.x'), '$.z')"),
        ("SELECT JSON_OBJECT('a', JSON_OBJECT('b', c->>'d')) FROM t",
         "named_struct('a', named_struct('b', get_json_object(c, '$.d')))"),
        ("SELECT 1 FROM t GROUP BY TUMBLE(a.ts, INTERVAL '5' MINUTE), k",
         "1 FROM `v0` AS `t` GROUP BY window(a.ts, '5 minutes'), k"),
        ("SELECT tumble_start(ts, '10 seconds'), TUMBLE_END(ts, INTERVAL 1 DAY) FROM t",
         "window(ts, '10 seconds').start, window(ts, '1 day').end"),
        ("SELECT HOP_START(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) FROM t",
         "window(ts, '1 hour', '1 minute').start"),
        ("SELECT * FROM db.t TABLESAMPLE (5 ROWS) WHERE a", "`v0` TABLESAMPLE (5 ROWS) AS `t` WHERE a"),
        ("TABLE t", "TABLE `v0`"),
    ],
)  # fmt: skip
def test_edits(text: str, expected: str) -> None:
    assert expected in spark_sql(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT *, _metadata.path FROM 'x'", "SELECT * EXCEPT (_metadata), _metadata.path FROM `v0`"),
        ("SELECT k.*, count(*), _metadata.path FROM 'x' k",
         "SELECT k.* EXCEPT (_metadata), count(*), _metadata.path FROM `v0` k"),
        ("SELECT * EXCEPT (a), _METADATA.path FROM 'x'",
         "SELECT * EXCEPT (a, _metadata), _METADATA.path FROM `v0`"),
        ("SELECT * FROM (SELECT *, _metadata.path FROM 'x')",
         "SELECT * FROM (SELECT * EXCEPT (_metadata), _metadata.path FROM `v0`)"),
        ("SELECT *, k._metadata.path FROM 'x' k JOIN t USING (id)",
         "SELECT * EXCEPT (`k`._metadata), k._metadata.path FROM `v0` k JOIN `v1` AS `t` USING (id)"),
        ("SELECT * FROM 'x' WITH (_metadata = 1)", "SELECT * FROM `v0` "),
    ],
)  # fmt: skip
def test_a_star_leaves_out_the_hidden_column(text: str, expected: str) -> None:
    found = query(text)
    owners = [["_metadata"] if "_metadata" in found.names and r.name == "x" else [] for r in found.relations]
    assert found.hiding(owners).spark_sql([f"v{i}" for i in range(len(owners))]) == expected


@pytest.mark.parametrize(
    ("text", "star"),
    [
        ("SELECT a, count(*) FROM t", False),
        ("SELECT a * b FROM t", False),
        ("SELECT * FROM t", True),
        ("SELECT t.* FROM t", True),
        ("SELECT struct(*) FROM t", True),
        ("SELECT a FROM t WHERE b IN (SELECT * FROM u)", True),
        ("TABLE t", True),
        ("FROM t", True),
        ("SELECT a FROM t NATURAL JOIN u", True),
        ("SELECT a FROM t PIVOT (sum(b) FOR c IN (1, 2))", True),
        ("SELECT IDENTIFIER('a') FROM t", True),
    ],
)
def test_star(text: str, star: bool) -> None:
    assert query(text).star is star


def test_names() -> None:
    found = query("SELECT A, t.`B c`, date, x.from FROM t WHERE f(d['e']) AND v:g.h > 0 ORDER BY i").names
    assert {"a", "b c", "date", "from", "d", "v", "g", "i"} <= found
    assert "select" not in found


# Errors.


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ("SELECT 1;\n\nSELECT a\n  FORM 'x'", "syntax", "4:8", "did you mean FROM instead of 'FORM'?"),
        ("SELECT a FROM 'x' WHER b", "syntax", "1:24", "did you mean WHERE instead of 'WHER'?"),
        ("SELEC 1", "syntax", "1:1", "did you mean 'SELECT'?"),
        ("SELECT a, FROM t", "syntax", "1:11", None),
        ("SELECT a,, b FROM t", "syntax", "1:10", None),
        ("SELECT (a FROM t", "syntax", "1:11", None),
        ("SELECT a FROM t WHERE", "syntax", "1:22", None),
        ("SELECT a FROM t GROUP BY", "syntax", "1:25", None),
        ("SELECT a FROM 'x' 'y'", "syntax", "1:19", "`backticks`"),
        ("SELECT a FROM ''", "syntax", "1:15", None),
        ("SELECT a INTO 'x' FROM t", "syntax", "1:19", "INTO stands at the end"),
        ("SELECT a FROM t WHERE b WITH (c = 1)", "syntax", "1:25", "right behind a URI"),
        ("SELECT a FROM 'x' WITH (a = 1,\n A = 2)", "duplicate-option", "2:2", None),
        ("SELECT a FROM 'x' WITH (a)", "syntax", "1:26", "WITH (key = 'value', ...)"),
        ("SELECT a FROM 'x' WITH (a = )", "syntax", "1:29", None),
        ("SELECT a FROM 'x' WITH (a = 1 b = 2)", "syntax", "1:31", None),
        ("SELECT a FROM 'x' WITH (a = INTERVAL '5' PARSEC)", "syntax", "1:29", None),
        ("SELECT a FROM 'x' WITH (a = 1", "syntax", "1:30", None),
        ("SELECT a->b FROM t", "syntax", "1:11", "after->>'id'"),
        ("SELECT JSON_OBJECT('a') FROM t", "syntax", "1:8", "JSON_OBJECT('id', id"),
        ("SELECT JSON_EXTRACT(a) FROM t", "syntax", "1:8", "JSON_EXTRACT(data, '$.user.id')"),
        ("SELECT 1 FROM t GROUP BY TUMBLE(ts)", "syntax", "1:26", "GROUP BY TUMBLE(ts, INTERVAL"),
        ("SELECT 1 FROM t GROUP BY TUMBLE(ts, 5)", "syntax", "1:37", None),
        ("SELECT 'a", "unterminated", "1:8", None),
        ("SELECT `a", "unterminated", "1:8", None),
        ("SELECT 1 /* a", "unterminated", "1:10", "close it with */"),
        ("SELECT 1\0", "bad-character", "1:9", None),
        ("DELETE FROM x", "unsupported-statement", "1:1", "merge_on"),
        ("MERGE INTO x", "unsupported-statement", "1:1", "merge_on"),
        ("CREATE DATABASE x", "unsupported-statement", "1:8", "SOURCE"),
        ("INSERT OVERWRITE t SELECT 1", "unsupported-statement", "1:8", "mode = 'overwrite'"),
        ("SHOW DATABASES", "unsupported-statement", "1:6", "SOURCES"),
        ("SHOW TABELS", "syntax", "1:6", "did you mean SHOW TABLES?"),
        ("CREATE SURCE s WITH (a = 1)", "syntax", "1:8", "did you mean CREATE SOURCE?"),
        ("CREATE SOURCE s (a INTT) WITH (a = 1)", "syntax", "1:20", "did you mean 'INT'?"),
        ("CREATE SOURCE s (a INT, A INT) WITH (a = 1)", "duplicate-column", "1:25", None),
        ("CREATE SOURCE s (from INT) WITH (a = 1)", "syntax", "1:18", "`backticks`"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a)) WITH (a = 1)", "syntax", "1:24", "merge_on"),
        ("CREATE TABLE t (a INT)", "syntax", "1:23", "WITH (connector"),
        ("CREATE TABLE t AS SELECT 1", "syntax", "1:16", "CREATE VIEW t AS SELECT"),
        ("CREATE SINK a AS SELECT * FROM 'u' WITH (x = 1)", "syntax", "1:48", "the sink needs its own"),
        ("CREATE VIEW v AS SELECT 1 INTO 'x'", "syntax", "1:27", "only a SELECT takes INTO"),
        ("INSERT INTO t (a, b) SELECT 1, 2", "syntax", "1:15", "name them in the SELECT"),
        ("EXPLAIN EXTENDED SELECT 1", "syntax", "1:9", "--physical"),
        ("SET a", "syntax", "1:6", "SET key = value"),
        ("DROP TABLE 'x'", "syntax", "1:12", "`backticks`"),
        ("PAUSE x", "syntax", "1:7", None),
    ],
)
def test_errors(text: str, code: str, place: str, hint: str | None) -> None:
    found = error(text)
    assert (found.code, str(found.at)) == (code, f"f.sql:{place}")
    assert hint is None or hint in (found.hint or "")


def test_an_error_underlines_what_is_wrong() -> None:
    found = error("SELECT a\nFROM 'x' WITH (topik = 'a', topik = 'b')")
    assert found.render().splitlines()[-1] == "   |                             ^^^^^"


# Spark agrees.


@pytest.mark.spark
def test_spark_reads_every_query(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()
    for text in EVERYTHING:
        for statement in parse(text):
            found = getattr(statement, "query", None)
            if found is not None:
                parser.parsePlan(found.spark_sql([f"v{i}" for i in range(len(found.relations))]))


@pytest.mark.spark
def test_edits_mean_what_they_should(spark: SparkSession) -> None:
    frame = spark.sql(
        """SELECT '{"a": {"b": [1, {"c d": "x"}]}, "n": 5}' AS j, TIMESTAMP '2024-01-01 00:07:00' AS ts"""
    )
    frame.createOrReplaceTempView("v")
    (row,) = spark.sql(
        query(
            "SELECT j->'a'->'b'->0 AS zero, j->'a'->'b'->1->>'c d' AS c, (j->>'n')::INT + 1 AS n, "
            "JSON_EXTRACT(j, '$.n') AS e, to_json(JSON_OBJECT('o', JSON_OBJECT('k', j->>'n'))) AS o FROM t"
        ).spark_sql(["v"])
    ).collect()
    assert row.asDict() == {"zero": "1", "c": "x", "n": 6, "e": "5", "o": '{"o":{"k":"5"}}'}
    (row,) = spark.sql(
        query(
            "SELECT date_format(TUMBLE_START(ts, INTERVAL '5' MINUTE), 'mm') AS s, "
            "date_format(TUMBLE_END(ts, INTERVAL '5' MINUTE), 'mm') AS e, count(*) AS n "
            "FROM t GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE)"
        ).spark_sql(["v"])
    ).collect()
    assert row.asDict() == {"s": "05", "e": "10", "n": 1}
    rows = spark.sql(
        query(
            "SELECT count(*) AS n FROM t GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)"
        ).spark_sql(["v"])
    ).collect()
    assert [row.n for row in rows] == [1, 1]
