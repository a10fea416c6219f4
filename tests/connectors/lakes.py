"""Tables of a lake in the conformance suite; libraries that share nothing with Spark look into them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from penstock.connectors.base import Connector, SinkOptions, SourceOptions
from penstock.connectors.delta.connector import Delta
from penstock.connectors.iceberg.connector import Iceberg

from .subject import COLUMNS, Row, Subject, in_utc, known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW = {"BIGINT": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
          "TIMESTAMP": pa.timestamp("us", "UTC")}  # fmt: skip


def arrow_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(c.name, _ARROW[c.type]) for c in COLUMNS]))


class LakeSubject(Subject):
    required = frozenset(
        {"bounded", "unbounded", "replay", "lookup", "append", "overwrite", "upsert", "delete",
         "transactional", "create_target", "evolve_schema"}
    )  # fmt: skip

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: set[str] = set()

    def session(self, spark: SparkSession) -> SparkSession:
        session = spark.newSession()
        access = self.connector.access(self.sink(None))
        for key, value in access.settings.items() if access else ():
            session.conf.set(key, value)
        self.connector.check_target(session, self.sink(None))
        return session

    def at(self, name: str) -> dict[str, Any]:
        """The options of a table."""
        raise NotImplementedError

    def put(self, name: str, rows: list[Row]) -> None:
        """Adds rows to a table, which may not be there."""
        raise NotImplementedError

    def content(self, name: str) -> list[Row]:
        """All rows of a table; none when it is not there."""
        raise NotImplementedError

    def source(self) -> SourceOptions:
        return self._source("source")

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        return self._source(name, watch=True)

    def _source(self, name: str, **more: Any) -> SourceOptions:
        if name not in self._made:
            self._made.add(name)
            self.put(name, known_rows())
        model: Any = self.connector.Source
        options: SourceOptions = model(**self.at(name), **more)
        return options

    def add(self, rows: list[Row]) -> None:
        for name in self._made & {"source", "first"}:
            self.put(name, rows)

    def sink(self, mode: Any) -> SinkOptions:
        model: Any = self.connector.Sink
        options: SinkOptions = model(**self.at("target"), mode=mode)
        return options

    def merging_sink(self, **more: Any) -> SinkOptions:
        model: Any = self.connector.Sink
        options: SinkOptions = model(**self.at("target"), merge_on=("id",), **more)
        return options

    def stored(self) -> list[Row]:
        return [row | {"at": in_utc(row["at"])} for row in self.content("target")]


class DeltaSubject(LakeSubject):
    connector: Connector = Delta()

    def at(self, name: str) -> dict[str, Any]:
        return {"path": str(self.folder / name)}

    def put(self, name: str, rows: list[Row]) -> None:
        write_deltalake(self.folder / name, arrow_of(rows), mode="append")

    def content(self, name: str) -> list[Row]:
        if not DeltaTable.is_deltatable(str(self.folder / name)):
            return []
        rows: list[Row] = DeltaTable(self.folder / name).to_pyarrow_table().to_pylist()
        return rows


class IcebergSubject(LakeSubject):
    connector: Connector = Iceberg()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{folder}/iceberg.db", warehouse=f"file://{folder}/iceberg"
        )
        self._catalog.create_namespace_if_not_exists("db")

    def at(self, name: str) -> dict[str, Any]:
        return {"catalog": "lake", "table": f"db.{name}", "state": str(self.folder)}

    def put(self, name: str, rows: list[Row]) -> None:
        table = self._catalog.create_table_if_not_exists(f"db.{name}", arrow_of(rows).schema)
        table.append(arrow_of(rows))

    def content(self, name: str) -> list[Row]:
        try:
            rows: list[Row] = self._catalog.load_table(f"db.{name}").scan().to_arrow().to_pylist()
        except NoSuchTableError:
            return []
        return rows
