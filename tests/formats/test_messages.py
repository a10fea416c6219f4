"""What all formats do with messages, and what json, csv, text, binary and msgpack do each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from penstock.errors import DataError, OptionError
from penstock.formats.registry import all_formats
from tests.connectors.conformance import COLUMNS, frame_of, known_rows, rows_of, same_rows
from tests.formats.messaging import check_poison, marked, messages
from tests.formats.reading import columns, reader, request, rows, writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

AB = columns("a BIGINT, b STRING")
NESTED = (
    "SELECT id, named_struct('n', id, 'of', named_struct('d', DATE'2024-02-01',"
    " 'm', CAST(1.5 AS DECIMAL(9, 2)))) AS s,"
    " array('x', NULL) AS l, map('k', id) AS m, CAST('b' AS BINARY) AS raw,"
    " TIMESTAMP'2024-02-01 01:02:03.456789' AS at, CAST(NULL AS DOUBLE) AS nothing FROM range(3)"
)


def test_which_formats_are_in_messages() -> None:
    found = {kind.name for kind in all_formats().values() if kind.in_messages}
    assert found == {"json", "csv", "avro", "msgpack", "text", "binary"}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["json", "csv", "avro", "msgpack", "tsv"])
def test_what_is_encoded_is_decoded(spark: SparkSession, name: str, streaming: bool) -> None:
    sent = writer(name).encode(frame_of(spark, known_rows()).selectExpr("*", "id AS _key"), ["_key"])
    assert [(f.name, f.dataType.simpleString()) for f in sent.schema] == [
        ("value", "binary"), ("_key", "bigint"),
    ]  # fmt: skip
    back = reader(name).decode(sent, COLUMNS, request(streaming=streaming), carried=["_key"])
    assert back.columns == [*(c.name for c in COLUMNS), "_key"]
    same_rows(rows_of(back), [{**row, "_key": row["id"]} for row in known_rows()], name)


@pytest.mark.parametrize("name", ["json", "avro", "msgpack"])
def test_structs_nest(spark: SparkSession, name: str) -> None:
    frame = spark.sql(NESTED)
    declared = tuple(columns_of(frame))
    back = reader(name).decode(writer(name).encode(frame), declared, request())
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert sorted(map(repr, back.collect())) == sorted(map(repr, frame.collect()))


def columns_of(frame: DataFrame) -> Any:
    from penstock.formats.frames import columns_of

    return columns_of(frame.schema)


@pytest.mark.parametrize("name", ["json", "csv", "avro", "msgpack", "text", "binary"])
def test_a_message_without_a_value_is_a_row_of_nulls(spark: SparkSession, name: str) -> None:
    of = {"text": "value STRING", "binary": "value BINARY"}.get(name, "a BIGINT, b STRING")
    declared, frame = columns(of), messages(spark, None, None)
    for streaming in (False, True):
        asked = request(on_error="skip", streaming=streaming)
        found = rows(reader(name).decode(frame, declared, asked, carried=["_offset"]))
        empty = [None] * len(declared)
        assert found == [(*empty, 0, False), (*empty, 1, False)]
        strict = columns(f"{of} NOT NULL")
        bad = rows(reader(name).decode_rejects(frame, strict, asked, carried=["_offset"]))
        last = strict[-1].name
        assert bad == [(None, "text", f"{last}: null, but it is NOT NULL", n) for n in (0, 1)]


@pytest.mark.parametrize("name", ["json", "csv", "avro", "msgpack"])
@pytest.mark.parametrize("streaming", [False, True])
def test_messages_are_counted_without_columns(spark: SparkSession, name: str, streaming: bool) -> None:
    sent = writer(name).encode(spark.sql("SELECT id AS a, 'x' AS b FROM range(5)"))
    for on_error in ("fail", "skip"):
        asked = request("", on_error=on_error, streaming=streaming)
        assert reader(name).decode(sent, AB, asked).count() == 5


@pytest.mark.parametrize("name", ["json", "csv", "avro", "msgpack"])
def test_a_stream_of_messages(spark: SparkSession, tmp_path: Path, name: str) -> None:
    sent = writer(name).encode(spark.sql("SELECT id AS a, 'x' AS b FROM range(3)"))
    sent.unionByName(messages(spark, b"\xff").select("value")).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("value BINARY").parquet(str(tmp_path / "in"))
    found: list[Any] = []

    def keep(batch: DataFrame, number: int) -> None:
        found.extend((row.a, row._rejected) for row in batch.collect())

    read = reader(name).decode(stream, AB, request(on_error="skip"))
    query = read.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "state"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(found, key=str) == [(0, False), (1, False), (2, False), (None, True)]


@pytest.mark.parametrize("streaming", [False, True])
def test_poison_in_json(spark: SparkSession, streaming: bool) -> None:
    bad = {1: b"{bad", 3: b'{"a": "x"}', 4: b'{"b": "\xff"}', 5: b"", 6: b'[{"a": 1}, {"a": "x"}]', 7: b"7"}
    frame = messages(spark, '{"a": 1}', bad[1], '[{"a": 2}, {"a": 3}]', *list(bad.values())[1:], "[]")
    errors = check_poison(frame, reader("json"), AB, bad, streaming=streaming)
    assert errors[5] == "there is nothing in the message"
    read = reader("json").decode(
        frame, AB, request(on_error="skip", streaming=streaming), carried=["_offset"]
    )
    good = [row for row in marked(read) if row[0] != "bad"]
    assert good == [(1, None), (2, None), (3, None)]


def test_json_by_patterns_and_nested(spark: SparkSession) -> None:
    frame = messages(spark, '{"d": "03.02.2024", "s": {"x": 1}}', '{"d": "2024", "s": {"x": 1}}', '{"s": 5}')
    form, declared = reader("json", date_format="dd.MM.yyyy"), columns("d DATE, s STRUCT<x:INT>")
    check_poison(frame, form, declared, {1: b'{"d": "2024", "s": {"x": 1}}', 2: b'{"s": 5}'})
    read = form.decode(frame, declared, request("s", on_error="skip"), carried=["_offset"])
    assert marked(read) == [((1,),), ((1,),), ("bad", 2)]


def test_a_rule_that_one_of_many_breaks_makes_the_message_bad(spark: SparkSession) -> None:
    frame = messages(spark, '[{"a": 1, "b": "x"}, {"a": 2, "b": "long"}]')
    declared = columns("a BIGINT, b VARCHAR(3)")
    for streaming in (False, True):
        errors = check_poison(
            frame, reader("json"), declared, {0: frame.collect()[0].value}, streaming=streaming
        )
        assert errors == {0: "b: longer than 3 characters"}


def test_how_json_is_written(spark: SparkSession) -> None:
    def sent(text: str, **options: Any) -> list[bytes]:
        return [bytes(row.value) for row in writer("json", **options).encode(spark.sql(text)).collect()]

    assert sent("SELECT 1 AS a, CAST(NULL AS INT) AS b, named_struct('x', 1) AS s") == [
        b'{"a":1,"s":{"x":1}}'
    ]
    assert sent("SELECT 1 AS a, CAST(NULL AS INT) AS b", null_fields=True) == [b'{"a":1,"b":null}']
    assert sent("SELECT DATE'2024-02-03' AS d", date_format="dd.MM.yyyy") == [b'{"d":"03.02.2024"}']
    assert sent("SELECT TIMESTAMP'2024-02-03 01:02:03.000004' AS t") == [
        b'{"t":"2024-02-03T01:02:03.000004Z"}'
    ]
    assert sent("SELECT 'as it is' AS value") == [b"as it is"]
    assert sent("SELECT CAST('raw' AS BINARY) AS value") == [b"raw"]
    assert sent("SELECT 5 AS value") == [b'{"value":5}']
    assert sent("SELECT 'x' AS value, 1 AS b") == [b'{"value":"x","b":1}']


@pytest.mark.parametrize("streaming", [False, True])
def test_poison_in_csv(spark: SparkSession, streaming: bool) -> None:
    bad = {1: b"x,y", 2: b"1", 3: b"1,2,3", 4: b"1,\xff", 5: b"", 6: b" # 1,x"}
    frame = messages(spark, '1,"x, ""y"""', *bad.values(), "2,y\n", ",", '3,"two\nlines"')
    form = reader("csv", comment="#")
    errors = check_poison(frame, form, AB, bad, streaming=streaming)
    assert errors[6] == "there is nothing in the message"
    read = form.decode(frame, AB, request(on_error="skip", streaming=streaming), carried=["_offset"])
    good = [row for row in marked(read) if row[0] != "bad"]
    assert good == [(1, 'x, "y"'), (2, "y"), (None, None), (3, "two\nlines")]
    unused = form.decode(frame, AB, request("b", on_error="skip", streaming=streaming), carried=["_offset"])
    assert ("y",) in marked(unused)


def test_a_dialect_of_csv(spark: SparkSession) -> None:
    options = {"delimiter": "|", "quote": "'", "null_value": "NA", "date_format": "dd.MM.yyyy"}
    frame = spark.sql("SELECT 'a|b' AS s, ' c ' AS t, DATE'2024-02-03' AS d, CAST(NULL AS INT) AS n")
    sent = writer("csv", **options).encode(frame)
    assert [bytes(row.value) for row in sent.collect()] == [b"'a|b'| c |03.02.2024|NA"]
    back = reader("csv", **options).decode(sent, columns("s STRING, t STRING, d DATE, n INT"), request())
    assert rows(back) == rows(frame)


def test_what_csv_cannot_hold(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="CSV cannot hold column 's'"):
        writer("csv").encode(spark.sql("SELECT named_struct('x', 1) AS s"))
    with pytest.raises(DataError, match="CSV cannot hold column 's'"):
        reader("csv").decode(messages(spark, "1"), columns("s STRUCT<x:INT>"), request())
    with pytest.raises(OptionError, match="messages of CSV are UTF-8"):
        reader("csv", encoding="latin-1").decode(messages(spark, "1"), AB, request())


def test_poison_in_text(spark: SparkSession) -> None:
    frame = messages(spark, "one", b"\xff\xfe", "", "long one")
    errors = check_poison(frame, reader("text"), columns("line VARCHAR(5)"), {1: b"\xff\xfe", 3: b"long one"})
    assert errors == {1: "not UTF-8", 3: "line: longer than 5 characters"}
    read = reader("text").decode(
        frame, columns("value STRING"), request(on_error="skip"), carried=["_offset"]
    )
    assert marked(read) == [("one",), ("bad", 1), ("",), ("long one",)]


def test_bytes_are_left_as_they_are(spark: SparkSession) -> None:
    frame = messages(spark, b"\x00\xff", b"")
    read = reader("binary").decode(frame, columns("value BINARY"), request())
    assert [bytes(row.value) for row in read.collect()] == [b"\x00\xff", b""]
    check_poison(messages(spark, b"\xff", None), reader("raw"), columns("v BINARY NOT NULL"), {1: None})
    sent = writer("binary").encode(read.selectExpr("value AS v", "1 AS _key"), ["_key"])
    assert [(bytes(row.value), row._key) for row in sent.collect()] == [(b"\x00\xff", 1), (b"", 1)]


@pytest.mark.parametrize("name", ["text", "binary"])
def test_one_column_only(spark: SparkSession, name: str) -> None:
    with pytest.raises(DataError, match=r"one (STRING|BINARY) column, not"):
        reader(name).decode(messages(spark, "x"), AB, request())
    with pytest.raises(DataError, match=r"one (STRING|BINARY) column, not"):
        reader(name).decode(messages(spark, "x"), columns("value INT"), request())
    with pytest.raises(DataError, match=r"one (STRING|BINARY) column, not"):
        writer(name).encode(spark.sql("SELECT 1 AS a, 'x' AS b"))
    sent = writer(name).encode(spark.sql("SELECT 'x' AS b, 1 AS _key"), ["_key"])
    assert [bytes(row.value) for row in sent.collect()] == [b"x"]


def test_poison_in_msgpack(spark: SparkSession) -> None:
    good, two = msgpack.packb({"a": 1, "b": "x"}), msgpack.packb({"a": "two"})
    bad = {1: good[:-1], 2: msgpack.packb([1]), 3: two, 4: b"\xc1", 5: good + good, 6: b""}
    errors = check_poison(messages(spark, good, *bad.values(), good), reader("msgpack"), AB, bad)
    assert errors == {
        1: "it ends in the middle of a record",
        2: "expected a map, found list",
        3: "a: expected BIGINT, found 'two'",
        4: "not MessagePack from byte 0 on",
        5: "there is more than one record in the message",
        6: "there is nothing in the message",
    }


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("json", [b'{"b": 1, "a": "x"}', b"bad", b'{"c": {"d": 1.5}}'],
         "b bigint, a string, c struct<d:double>"),
        ("csv", [b"1,x", b"2,y"], "_c0 bigint, _c1 string"),
        ("msgpack", [msgpack.packb({"a": 1, "b": b"x"}), b"\xc1"], "a bigint, b binary"),
        ("text", [], "value STRING"),
        ("binary", [], "value BINARY"),
    ],
)  # fmt: skip
def test_columns_are_found_in_messages(
    spark: SparkSession, name: str, given: list[bytes], expected: str
) -> None:
    assert reader(name).sample(spark, given, "topic t") == columns(expected)


@pytest.mark.parametrize("name", ["json", "csv", "msgpack", "avro"])
def test_nothing_to_look_at(spark: SparkSession, name: str) -> None:
    with pytest.raises(DataError, match="cannot tell the columns of topic t") as caught:
        reader(name).sample(spark, [], "topic t")
    assert caught.value.code == "empty-source"


def test_formats_of_files_say_so(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="'parquet' is for files, not for messages"):
        writer("parquet").encode(spark.range(1).toDF("a"))
