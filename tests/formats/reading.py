"""Reading files with a format, as a connector does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ReadRequest
from penstock.formats.base import Format
from penstock.formats.registry import find
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def reader(name: str, **options: Any) -> Format:
    kind, implied = find(name)
    return kind(kind.ReadOptions(**implied, **options))


def writer(name: str, **options: Any) -> Format:
    kind, implied = find(name)
    return kind(kind.WriteOptions(**implied, **options))


def columns(text: str) -> tuple[Column, ...]:
    """`a INT, b DECIMAL(10,2) NOT NULL` as columns."""
    found = []
    for part in text.split(", "):
        name, _, type = part.partition(" ")
        found.append(Column(name, type.removesuffix(" NOT NULL"), not type.endswith(" NOT NULL")))
    return tuple(found)


def request(used: str | None = None, **more: Any) -> ReadRequest:
    names = None if used is None else frozenset(used.split())
    metadata = frozenset(more.pop("metadata", "").split())
    return ReadRequest(used=names, metadata=metadata, **more)


def is_fast(frame: DataFrame) -> bool:
    """Whether a frame is decoded outside the JVM."""
    return "MapInArrow decode_lines" in frame._jdf.queryExecution().toString()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def rejects(
    spark: SparkSession, format: Format, path: Path, declared: tuple[Column, ...], used: str | None = None
) -> list[tuple[Any, ...]]:
    frame = format.rejects(spark, [str(path)], declared, request(used))
    assert frame.columns == ["payload", "error", "file", "line"]
    return sorted(rows(frame), key=lambda row: (row[2], row[3] or 0))
