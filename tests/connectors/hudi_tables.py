"""The Hudi connector in the conformance suite; its target is read by hudi-rs alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import SinkOptions, SourceOptions
from penstock.connectors.hudi.connector import Hudi
from penstock.engine.jars import fetch

from .subject import Row, Subject, frame_of, in_utc, known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def hudi_connector() -> Hudi:
    """The connector as the engine hands it out."""
    connector = Hudi()
    connector.jar_files = tuple(fetch(Hudi.private_jars))
    return connector


def stored_rows(
    path: Path | str, access: Mapping[str, str] | None = None, *, hidden: bool = False
) -> list[Row]:
    """The rows of a table, by hudi-rs."""
    from hudi import HudiTable

    rows = [row for batch in HudiTable(str(path), dict(access or {})).read() for row in batch.to_pylist()]
    return rows if hidden else [{k: v for k, v in r.items() if not k.startswith("_hoodie_")} for r in rows]


class HudiSubject(Subject):
    required = frozenset(
        {"bounded", "append", "overwrite", "upsert", "delete", "create_target", "transactional",
         "evolve_schema", "lookup"}
    )  # fmt: skip
    spark: SparkSession

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connector = Hudi()

    def session(self, spark: SparkSession) -> SparkSession:
        self.spark, self.connector = spark, hudi_connector()
        return spark

    @cached_property
    def _source(self) -> SourceOptions:
        self._put(known_rows(0, 10), 0)
        self._put(known_rows(10, 10), 1)
        return Hudi.Source(path=str(self.folder / "source"))

    def source(self) -> SourceOptions:
        return self._source

    def add(self, rows: list[Row]) -> None:
        self._put(rows, 2)

    def _put(self, rows: list[Row], number: int) -> None:
        sink = Hudi.Sink(path=str(self.folder / "source"), mode="append")
        self.connector.write(frame_of(self.spark, rows), sink, self.batch(number))

    def sink(self, mode: Any) -> SinkOptions:
        return Hudi.Sink(path=str(self.folder / "target"), mode=mode)

    def merging_sink(self, **options: Any) -> SinkOptions:
        return Hudi.Sink(path=str(self.folder / "target"), merge_on=("id",), **options)

    def stored(self) -> list[Row]:
        if not (self.folder / "target").exists():
            return []
        return [row | {"at": in_utc(row["at"])} for row in stored_rows(self.folder / "target")]

    def leftovers(self) -> list[str]:
        """What stands outside of Hudi's own folder and is no row, and what was staged in it."""
        target = self.folder / "target"
        odd = [path for path in target.rglob("*") if path.suffix == ".avro"]
        odd += [path for path in target.glob("*") if path.suffix != ".parquet" and path.name[0] != "."]
        return [str(path) for path in odd]
