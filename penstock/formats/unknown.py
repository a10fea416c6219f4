"""Fields of records that the columns of their source lack. No record is left out: one among many is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.formats.lines.messages import VALUE
from penstock.formats.records import place_of
from penstock.schema import Column, Unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = "fields"
"""The column of the names of unknown fields."""
_RECORDS = 10_000
"""Records that are looked at for the type of a field."""


def unknown(
    strange: DataFrame, place: Sequence[str], sample: Callable[[list[bytes]], tuple[Column, ...]]
) -> tuple[Unknown, ...]:
    """The fields of `strange` records, of which `sample` tells the columns.

    Its columns are `value`, `fields`, of which each has a value in the record, and those that tell the place.
    """
    from pyspark.sql import functions as f

    each = strange.select(f.explode(FIELDS).alias("name"), f.struct(*place).alias("place"))
    first = each.groupBy("name").agg(f.min("place").alias("place")).collect()
    places = {row["name"]: place_of(row["place"].asDict()) for row in first}
    found: dict[str, Unknown] = {}
    while left := sorted(places.keys() - found):
        # Records with the more frequent fields alone might fill the sample.
        own = strange.where(f.arrays_overlap(FIELDS, f.array(*map(f.lit, left)))).select(VALUE)
        columns = [c for c in sample([bytes(row[0]) for row in own.take(_RECORDS)]) if c.name in left]
        # An object without fields tells no type.
        columns = columns or [Column(name, "STRING") for name in left]
        found |= {c.name: Unknown(c, places[c.name]) for c in columns}
    return tuple(found.values())


def lacking(found: Sequence[Column], columns: Sequence[Column], place: str) -> list[Unknown]:
    """Those of the columns that a file has `found` which `columns` lack, whatever their case."""
    known = {c.name.lower() for c in columns}
    return [Unknown(c, place) for c in found if c.name.lower() not in known]
