"""Whether a column of a file can be read as another type with every value kept.

What Spark's readers do with the rest depends on the format: they fail, give nulls, or take the bytes for
something else, such as 123.45 of a DECIMAL(5, 2) for the BIGINT 12345. So it is never left to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError
from penstock.formats.footers import types_in
from penstock.formats.frames import spark_ddl
from penstock.formats.paths import local_path
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_WIDER: Mapping[str, frozenset[str]] = {
    "tinyint": frozenset({"smallint", "int", "bigint", "double"}),
    "smallint": frozenset({"int", "bigint", "double"}),
    "int": frozenset({"bigint", "double"}),
    "float": frozenset({"double"}),
}
_ALSO: Mapping[str, Mapping[str, frozenset[str]]] = {
    "parquet": {
        "string": frozenset({"binary"}),
        "binary": frozenset({"string"}),  # texts of writers that do not mark them
        "date": frozenset({"timestamp_ntz"}),
        "timestamp": frozenset({"timestamp_ntz"}),
        "timestamp_ntz": frozenset({"timestamp"}),
    },
    "orc": {
        "tinyint": frozenset({"float", "string"}),
        "smallint": frozenset({"float", "string"}),
        "int": frozenset({"string"}),
        "bigint": frozenset({"string"}),
        "date": frozenset({"string"}),
        "string": frozenset({"binary"}),
    },
    "avro": {"date": frozenset({"timestamp_ntz"})},
}
"""What the reader of a format converts beside that."""
_DIGITS: Mapping[str, Mapping[str, int]] = {
    "parquet": {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20},
    "orc": {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19},
    "avro": {},
}
"""How many digits a DECIMAL needs before its point, to be read from whole numbers."""


@dataclass(frozen=True)
class Misfit:
    """A column of a file that cannot be read as wanted."""

    column: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.column} is {self.found}, which cannot be read as {self.wanted}"

    def error(self, file: str) -> DataError:
        file = str(local_path(file) or file)
        return DataError(
            "column-types",
            f"{file} has {self.column} as {self.found}, which cannot be read as {self.wanted}",
            hint="declare the columns, with types that take the values of all files",
        )


def misfits(
    spark: SparkSession, kind: str, files: Sequence[str], columns: Sequence[Column], used: Sequence[Column]
) -> dict[str, Misfit | Exception]:
    """The files with a column that is `used` and cannot be read, and those that do not open."""
    from pyspark.sql.types import DataType, StructType

    wanted = DataType.fromDDL(spark_ddl(used)) if used else StructType()
    assert isinstance(wanted, StructType)
    names = [c.name for c in columns]
    bad: dict[str, Misfit | Exception] = {}
    judged: dict[int, Misfit | None] = {}  # most files share one schema
    for file, found in types_in(spark, kind, files).items():
        if isinstance(found, Exception):
            bad[file] = found
            continue
        if id(found) not in judged:
            judged[id(found)] = misfit(kind, _named(kind, found, names), wanted)
        if one := judged[id(found)]:
            bad[file] = one
    return bad


def _named(kind: str, found: StructType, names: Sequence[str]) -> StructType:
    """The columns of a file by their names; Hive's ORC has numbers in place of them."""
    from pyspark.sql.types import StructField, StructType

    if kind != "orc" or not all(field.name.startswith("_col") for field in found):
        return found
    return StructType([StructField(name, f.dataType) for name, f in zip(names, found, strict=False)])


def misfit(kind: str, found: StructType, wanted: StructType, above: str = "") -> Misfit | None:
    """The first of the `wanted` columns that is `found` with a type which cannot be read so."""
    from pyspark.sql.types import StructType

    there = {field.name.lower(): field.dataType for field in found}
    for field in wanted:
        type = there.get(field.name.lower())
        name = f"{above}{field.name}"
        if isinstance(type, StructType) and isinstance(field.dataType, StructType):
            if inside := misfit(kind, type, field.dataType, f"{name}."):
                return inside
        elif type is not None and not _fits(kind, type, field.dataType):
            return Misfit(name, type.simpleString().upper(), field.dataType.simpleString().upper())
    return None


def _fits(kind: str, found: DataType, wanted: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return misfit(kind, found, wanted) is None
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        return _fits(kind, found.elementType, wanted.elementType)
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        keys, values = (found.keyType, wanted.keyType), (found.valueType, wanted.valueType)
        return _fits(kind, *keys) and _fits(kind, *values)
    name, other = _name(found), _name(wanted)
    if isinstance(wanted, DecimalType):
        whole = wanted.precision - wanted.scale
        if isinstance(found, DecimalType):
            return wanted.scale >= found.scale and whole >= found.precision - found.scale
        return whole >= _DIGITS[kind].get(name, 99)
    return name == other or other in _WIDER.get(name, ()) or other in _ALSO[kind].get(name, ())


def _name(type: Any) -> str:
    from pyspark.sql.types import CharType, VarcharType

    return "string" if isinstance(type, CharType | VarcharType) else str(type.simpleString())
