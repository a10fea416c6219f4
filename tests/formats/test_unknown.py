"""Fields that columns lack: every one is found, whatever its record looks like."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.formats import registry
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = tuple(Column(name, "STRING") for name in ("a", "b c", "a:b", "é", 'q"t', "n", ".*", "$"))


def unknown(spark: SparkSession, messages: list[str | None], format: str = "json") -> dict[str, str]:
    """The names that are found, and where."""
    kind, _ = registry.find(format)
    rows = [(None if m is None else m.encode(), n) for n, m in enumerate(messages)]
    frame = spark.createDataFrame(rows, "value BINARY, offset BIGINT")
    found = kind(kind.ReadOptions()).unknown_in_messages(frame, COLUMNS, ("offset",))
    return {one.column.name: one.place for one in found}


def test_known_fields_in_any_form_are_none(spark: SparkSession) -> None:
    messages = [
        '{"a": 1, "b c": "x", "a:b": ":", "é": 2, "q\\"t": 3, ".*": "\\"z\\": 1", "$": " : "}',
        '{"\\u0061" :\t1}',
        '{"n": {"z": 1, "y": [{"x": 2}]}}',
        '[{"a": 1}, {"a": 2, "n": {"z": 3}}]',
        '{"a": "{\\"z\\": 1}"}',
        '\ufeff {"a": 1}',
        '{"z": null}',
        '{"": 1}',
        '{"z": ',
        "[1, 2]",
        "7",
        "",
        None,
    ]
    assert unknown(spark, messages) == {}


@pytest.mark.parametrize(
    "message",
    [
        '{"z": 1}',
        '{"a": 1,"z"\n:1}',
        '\ufeff{"z": 1}',
        '{"a": ":", "z": [1]}',
        '{"n": {"a": 1}, "z": {"a": 1}}',
        '[{"a": 1}, {"z": 1}]',
        '{"\\u007a": 1}',
        '{"a": "\\\\", "z": false}',
        '{"a": 1, "z": "a"}',
        '{"z": {}}',
    ],
)
def test_one_field_is_found(spark: SparkSession, message: str) -> None:
    assert unknown(spark, ['{"a": 1}', message, message]) == {"z": "offset 1"}


@pytest.mark.parametrize("name", ["A", "aa", "xa", 'x"a', "a\\", ",", ": a", "b  c", "a:", "x", "$$"])
def test_names_that_resemble_others_are_found(spark: SparkSession, name: str) -> None:
    assert unknown(spark, [json.dumps({"a": 1, name: 1}, ensure_ascii=False)]) == {name: "offset 0"}


def test_made_up_records(spark: SparkSession) -> None:
    chance = random.Random(4)
    texts = ["a", "z", '"', ":", '":', '"a":', "\\", ", ", "é", "{", "}"]

    def text() -> str:
        return "".join(chance.choices(texts, k=chance.randint(0, 4)))

    def value(depth: int = 0) -> Any:
        some: list[Any] = [1, text(), None, True]
        if depth < 2:
            some += [{text(): value(depth + 1)}, [value(depth + 1)]]
        return chance.choice(some)

    known = {column.name for column in COLUMNS}
    for _ in range(5):
        rows = [{chance.choice([*known, text()]): value() for _ in range(3)} for _ in range(300)]
        expected = {k for row in rows for k, v in row.items() if k and v is not None and k not in known}
        assert unknown(spark, [json.dumps(row, ensure_ascii=False) for row in rows]).keys() == expected
