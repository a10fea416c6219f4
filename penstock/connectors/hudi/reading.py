"""Rows of a Hudi table, one split for each slice of a file, read by hudi-rs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Column, Offset, Reader, ReadRequest, Split
from penstock.connectors.hudi.access import access_of
from penstock.connectors.hudi.table import COMMIT_TIME, HIDDEN, Table, hudi, told
from penstock.connectors.scanned import Scanned
from penstock.schema import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FILE_NAME = "_hoodie_file_name"
_OLDER = re.compile(r"not found in parquet file schema\. Available columns: \[(.*?)\]")
"""What is said of a file that is older than a column, and which columns it has."""
_BITS = {"INT": 31, "BIGINT": 63}


@dataclass(frozen=True)
class Slices(Reader):
    """The rows of a table now, or `as_of` an instant."""

    path: str
    chosen: tuple[Column, ...]
    as_of: str | None = None
    filters: tuple[tuple[str, str, str], ...] = ()
    access: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What hudi-rs must know of the table's store, secrets included."""

    def columns(self) -> tuple[Column, ...]:
        return self.chosen

    def splits(self) -> list[Split]:
        return [Split(one.base_file_relative_path()) for one in self.files(self.filters)]

    def files(self, filters: Any) -> list[Any]:
        """Those that such conditions leave."""
        return Table(self.path, self.access).files(self._options(filters))

    def earliest(self, split: Split) -> Offset:
        return 0

    def latest(self, split: Split) -> Offset:
        return 1

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches(split, None)
        except OSError as failure:
            older = _OLDER.search(str(failure))  # said before the first row is read
            if older is None:
                raise
            yield from self._batches(split, older[1].split(", "))

    def _batches(self, split: Split, there: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of a file that has these columns; None for all that are chosen."""
        names = [c.name for c in self.chosen if there is None or c.name in there]
        filters = [one for one in self.filters if there is None or one[0] in there]
        options = self._options(filters).with_projection(list(dict.fromkeys([*names, COMMIT_TIME])))
        with told(self.path):
            reader = hudi().HudiFileGroupReader(self.path, dict(self.access))
            for batch in reader.read_file_slice_from_paths_stream(split.id, [], options):
                yield self._whole(batch, split)

    def _options(self, filters: Any) -> Any:
        options = hudi().HudiReadOptions().with_filters(list(filters))
        return options if self.as_of is None else options.with_as_of_timestamp(self.as_of)

    def _whole(self, batch: pa.RecordBatch, split: Split) -> pa.RecordBatch:
        """A batch with all columns; what an older file lacks is null."""
        import pyarrow as pa

        there = dict(zip(batch.schema.names, batch.columns, strict=True))
        # Rows that are copied from file to file need not tell where they stand now.
        there[_FILE_NAME] = pa.array([split.id.rpartition("/")[2]] * batch.num_rows, pa.string())
        missing = pa.nulls(batch.num_rows)
        names = [column.name for column in self.chosen]
        return pa.RecordBatch.from_arrays([there.get(name, missing) for name in names], names)


def all_rows(source: Any) -> Slices:
    """All rows and columns that a source means."""
    access = access_of(source)
    table = Table(source.path, access)
    as_of, since = (m if m is None else table.instant(m) for m in (source.as_of, source.since))
    # A file that changed holds rows that did not.
    changed = () if since is None else ((COMMIT_TIME, ">", since),)
    return Slices(source.path, table.columns(), as_of, changed, access)


def read(spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
    """The rows of a source, of the columns that are used; filters leave out files and rows."""
    from pyspark.sql import functions as f

    from penstock.connectors.adapter import all_ranges, as_declared, read_ranges

    reader = _reader(source, request)
    frame = read_ranges(spark, reader, all_ranges(reader), reader.chosen)
    if not request.columns or not request.hidden:
        return as_declared(frame, request)
    own = {c.name.lower(): c for c in request.columns}
    return frame.select(
        *(
            f.col(quoted(name)).cast(own[name.lower()].type).alias(own[name.lower()].name)
            if name.lower() in own
            else f.col(quoted(name))
            for name in frame.columns
        )
    )


def scanned(source: Any, request: ReadRequest) -> Scanned:
    """The files that are read of a source, and those that filters leave out."""
    reader = _reader(source, request)
    there, read = reader.files(()), reader.files(reader.filters)
    size = sum(one.base_file_size for one in read)
    return Scanned(
        source.path,
        len(read), len(there) - len(read),
        size, sum(one.base_file_size for one in there) - size,
        tuple(column.name for column in reader.chosen),
        ", ".join(" ".join(condition) for condition in reader.filters),
    )  # fmt: skip


def _reader(source: Any, request: ReadRequest) -> Slices:
    """What reads the columns that are used, hidden ones included, of the rows that may be wanted."""
    from penstock.connectors.adapter import chosen

    whole = all_rows(source)
    hidden = (c for c in HIDDEN if c.name in request.hidden)
    columns = tuple(dict.fromkeys((*chosen(whole.chosen, request), *hidden)))
    return replace(whole, chosen=columns, filters=(*whole.filters, *_pushed(request, whole.chosen)))


def _pushed(request: ReadRequest, columns: tuple[Column, ...]) -> tuple[tuple[str, str, str], ...]:
    """The conditions that hudi-rs understands as Spark does: whole numbers and plain text."""
    kinds = {c.name.lower(): c for c in columns}
    found = []
    for name, operator, value in request.filters:
        column = kinds.get(name.lower())
        values = value if isinstance(value, tuple) else (value,)
        if column is None or operator not in ("=", "<", "<=", ">", ">=", "in"):
            continue
        if all(_is_plain(one, column) for one in values):
            found.append((column.name, operator.upper(), ",".join(map(str, values))))
    return tuple(found)


def _is_plain(value: Any, column: Column) -> bool:
    if isinstance(value, str):
        return column.type == "STRING" and value == value.strip() and "," not in value and value != ""
    if isinstance(value, bool) or not isinstance(value, int) or column.type not in _BITS:
        return False
    return value.bit_length() <= _BITS[column.type]
