"""A Hudi table as hudi-rs knows it: its settings, its columns, its commits, its files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.connectors import storage as stores
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
COMMIT_TIME = "_hoodie_commit_time"

_MISSING = "missing-table"
_NOT_THERE = re.compile(r"hoodie\.properties not found(?!.*(?:NoSuchBucket|ContainerNotFound))", re.DOTALL)
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
    operation: str
    told: dict[str, str]

    @property
    def time(self) -> str:
        return f"{datetime.strptime(self.instant[:14], '%Y%m%d%H%M%S'):%Y-%m-%d %H:%M:%S}"


def hudi() -> Any:
    """The package hudi-rs."""
    try:
        import hudi
    except ImportError:
        raise SetupError(
            "missing-package", "Hudi needs the package hudi", hint="pip install 'penstock[hudi]'"
        ) from None
    return hudi


@contextmanager
def told(path: str) -> Iterator[None]:
    """What hudi-rs complains of is an OSError that names the table; it hides signed addresses itself."""
    try:
        yield
    except Exception as failure:
        if type(failure).__name__ != "HudiCoreError":
            raise
        kind = FileNotFoundError if _NOT_THERE.search(str(failure)) else OSError
        raise kind(f"{path}: {failure}") from None


def find(path: str, access: Mapping[str, str]) -> Table | None:
    """The table in a folder, if there is one."""
    try:
        return Table(path, access)
    except DataError as failure:
        if failure.code == _MISSING:
            return None
        raise


class Table:
    """A table that is there, as it is now."""

    def __init__(self, path: str, access: Mapping[str, str] | None = None) -> None:
        """`access` is what hudi-rs must know of its store."""
        self.path, self.access = path, dict(access or {})
        try:
            if not stores.is_remote(path) and not os.path.isfile(f"{path}/.hoodie/hoodie.properties"):
                raise FileNotFoundError
            with told(self.path):
                self._table = hudi().HudiTable(path, self.access)
        except FileNotFoundError:
            raise DataError(_MISSING, f"there is no Hudi table in {path}", hint="check the path") from None
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
        with told(self.path):
            found = avro_columns(json.loads(self._table.get_schema_in_avro_str()))
        return tuple(Column(column.name, column.type) for column in found)

    def commits(self) -> Iterator[Commit]:
        """The commits that the timeline still has, the newest first."""
        with told(self.path):
            timeline = self._table.get_timeline()
            done = [*timeline.get_completed_commits(), *timeline.get_completed_replacecommits()]
        for instant in sorted(done, key=lambda one: str(one.timestamp), reverse=True):
            with told(self.path):
                metadata = json.loads(timeline.get_instant_metadata_in_json(instant))
            operation = str(metadata.get("operationType") or instant.action).upper()
            yield Commit(instant.timestamp, operation, metadata.get("extraMetadata") or {})

    def files(self, options: Any) -> list[Any]:
        """The slices of files that a read with such options needs."""
        with told(self.path):
            slices: list[Any] = self._table.get_file_slices(options)
        return slices

    def holds_rows(self) -> bool:
        reader = hudi().HudiFileGroupReader(self.path, self.access)
        first = hudi().HudiReadOptions().with_projection([COMMIT_TIME]).with_batch_size(1)
        with told(self.path):
            return any(
                batch.num_rows
                for one in self.files(None)
                for batch in reader.read_file_slice_from_paths_stream(
                    one.base_file_relative_path(), [], first
                )
            )
