from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import DataError
from penstock.schema import Column, avro_columns, ddl, from_avsc, is_flat


def avsc(folder: Path, *fields: dict[str, Any]) -> str:
    file = folder / "s.avsc"
    file.write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    return str(file)


def test_columns_of_an_avro_schema(tmp_path: Path) -> None:
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    path = avsc(
        tmp_path,
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "from", "type": point},
        {"name": "to", "type": "point"},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["a"]}},
    )
    assert [(c.name, c.type, c.nullable) for c in from_avsc(path)] == [
        ("id", "BIGINT", False),
        ("note", "STRING", True),
        ("at", "TIMESTAMP", False),
        ("day", "DATE", False),
        ("price", "DECIMAL(10, 2)", False),
        ("tags", "ARRAY<STRING>", False),
        ("counts", "MAP<STRING, BIGINT>", False),
        ("from", "STRUCT<`x`: INT>", False),
        ("to", "STRUCT<`x`: INT>", False),
        ("kind", "STRING", False),
    ]


def test_a_name_with_its_namespace_is_found_again() -> None:
    point = {"type": "record", "name": "point", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": point}, {"name": "b", "type": "n.point"}]
    found = avro_columns({"type": "record", "name": "r", "fields": fields})
    assert [c.type for c in found] == ["STRUCT<`x`: INT>"] * 2


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"type": "record", "fields": [{"name": "a", "type": "odd"}]}']
)
def test_a_schema_file_that_cannot_be_understood_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.avsc"
    file.write_text(content)
    with pytest.raises(DataError, match=r"bad\.avsc"):
        from_avsc(str(file))


def test_a_missing_schema_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.avsc"):
        from_avsc(str(tmp_path / "none.avsc"))


def test_ddl_quotes_names() -> None:
    assert ddl([Column("a`b", "INT", False), Column("c", "STRING")]) == "`a``b` INT NOT NULL, `c` STRING"


def test_flat_types() -> None:
    flat = ["int", "VARCHAR(5)", "decimal(10, 2)", "Timestamp", "NUMERIC"]
    assert [is_flat(Column("c", t)) for t in flat] == [True] * 5
    assert [is_flat(Column("c", t)) for t in ["ARRAY<INT>", "STRUCT<a: INT>", "BINARY", "VARIANT"]] == [
        False
    ] * 4
