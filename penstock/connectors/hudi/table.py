"""A Hudi table as hudi-rs knows it: its settings, its columns, its commits, its files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Column
from penstock.connectors.hudi.instants import as_instant
from penstock.errors import DataError, SetupError
from penstock.schema import avro_columns, ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HIDDEN = tuple(
    Column(f"_hoodie_{name}", "STRING")
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)
"""What Hudi keeps beside the columns of each row."""


_USUAL = {
    "hoodie.table.base.file.format": "parquet",
    "hoodie.populate.meta.fields": "true",
    "hoodie.datasource.write.drop.partition.columns": "false",
}
"""Without these, columns would be missing from the files."""


@dataclass(frozen=True)
class Commit:
    """A commit that is done, and what its writer has told of it."""

    instant: str
    told: dict[str, str]


def is_table(path: str) -> bool:
    return os.path.isfile(os.path.join(path, ".hoodie", "hoodie.properties"))


def hudi() -> Any:
    """The package hudi-rs."""
    try:
        import hudi
    except ImportError:
        raise SetupError(
            "missing-package", "Hudi needs the package hudi", hint="pip install 'penstock[hudi]'"
        ) from None
    return hudi


class Table:
    """A table that is there, as it is now."""

    def __init__(self, path: str) -> None:
        if not is_table(path):
            raise DataError("missing-table", f"there is no Hudi table in {path}", hint="check the path")
        self.path = path
        self._table = hudi().HudiTable(path)
        self.settings: dict[str, str] = self._table.hudi_options()
        if self._table.is_mor:
            raise DataError(
                "merge-on-read",
                f"{path} is a MERGE_ON_READ table",
                hint="updates written to it would be lost; only COPY_ON_WRITE tables are read and written",
            )
        for key, wanted in _USUAL.items():
            if self.settings.get(key, wanted).lower() != wanted:
                raise DataError("other-table", f"{path} has {key} = {self.settings[key]}, not {wanted}")

    @property
    def record_key(self) -> tuple[str, ...]:
        return self._names("hoodie.table.recordkey.fields")

    @property
    def partition_by(self) -> tuple[str, ...]:
        # A key generator of several kinds writes `column:kind`.
        return tuple(name.partition(":")[0] for name in self._names("hoodie.table.partition.fields"))

    @property
    def indexes(self) -> tuple[str, ...]:
        return self._names("hoodie.table.metadata.partitions")

    def _names(self, key: str) -> tuple[str, ...]:
        return tuple(name for name in self.settings.get(key, "").split(",") if name)

    def instant(self, moment: str | int) -> str:
        return as_instant(moment, utc=str(self._table.timezone).lower() == "utc")

    @cached_property
    def schema(self) -> StructType:
        """The columns that the newest rows have, without those that are hidden."""
        from pyspark.sql.types import StructType

        found = StructType.fromDDL(ddl(self.columns()))
        assert isinstance(found, StructType)
        return found

    def columns(self) -> tuple[Column, ...]:
        # By the Avro schema: hudi-rs panics when it makes Arrow's of some types, such as a local timestamp.
        found = avro_columns(json.loads(self._table.get_schema_in_avro_str()))
        return tuple(Column(column.name, column.type) for column in found)

    def commits(self) -> Iterator[Commit]:
        """The commits that the timeline still has, the newest first."""
        timeline = self._table.get_timeline()
        done = [*timeline.get_completed_commits(), *timeline.get_completed_replacecommits()]
        for instant in sorted(done, key=lambda one: str(one.timestamp), reverse=True):
            metadata = json.loads(timeline.get_instant_metadata_in_json(instant))
            yield Commit(instant.timestamp, metadata.get("extraMetadata") or {})

    def files(self, options: Any) -> list[Any]:
        """The slices of files that a read with such options needs."""
        slices: list[Any] = self._table.get_file_slices(options)
        return slices

    def holds_rows(self) -> bool:
        import pyarrow.parquet as pq

        paths = (os.path.join(self.path, one.base_file_relative_path()) for one in self.files(None))
        return any(pq.read_metadata(path).num_rows for path in paths)
