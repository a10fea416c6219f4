"""A sound connector that merges, and broken ones that the conformance suite must catch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors import merging
from penstock.connectors.base import Batch, Capabilities, Connector, Refused, SinkOptions, Uri
from penstock.connectors.merging import ANEW, CHANGE, GONE, Merging

from .subject import Row, Subject, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Keyed(Connector):
    """A table in memory."""

    name = "keyed"
    capabilities = Capabilities(append=True, upsert=True, delete=True, transactional=True)
    Sink = Merging

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.delivered: set[int] = set()

    def settings_of(self, uri: Uri) -> dict[str, Any]:
        return {}

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        refused: Sequence[Refused] = ()
        if sink.merge_on:
            frame, refused = merging.without_keys(frame, sink)
            frame = merging.fold(frame, sink)
        rows = rows_of(frame)
        if batch.number in self.delivered:
            return refused
        self.delivered.add(batch.number)
        for row in rows:
            self.take(row, sink)
        return refused

    def take(self, row: Row, sink: Merging) -> None:
        """Does what a folded change says; a row without one is added."""
        change = row.pop(CHANGE, None)
        old = next((one for one in self.rows if change and one["id"] == row["id"]), None)
        if old is None:
            if change != GONE:
                self.rows.append(row)
        elif change == GONE:
            self.rows.remove(old)
        elif change == ANEW or not sink.insert_only:
            names = row if change == ANEW else sink.update_columns or row
            old |= {name: row[name] for name in names}


class ForgetsBatches(Keyed):
    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        self.delivered.clear()
        return super().write(frame, sink, batch)


class KeepsTheDeleted(Keyed):
    def take(self, row: Row, sink: Merging) -> None:
        if row.get(CHANGE) != GONE:
            super().take(row, sink)


class IgnoresOrder(Keyed):
    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        kept = frame.drop(*sink.order_by)
        return super().write(kept, sink.model_copy(update={"order_by": ()}), batch)


class TurnsArrivalRound(Keyed):
    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        from pyspark.sql import functions as f

        backwards = frame.sortWithinPartitions(f.monotonically_increasing_id().desc())
        return super().write(backwards, sink, batch)


class ChangesAllColumns(Keyed):
    def take(self, row: Row, sink: Merging) -> None:
        super().take(row, sink.model_copy(update={"update_columns": ()}))


class DropsRowsWithoutKey(Keyed):
    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        super().write(frame, sink, batch)
        return ()


class KeyedSubject(Subject):
    required = frozenset({"append", "upsert", "delete", "transactional"})

    def __init__(self, folder: Path, connector: Keyed | None = None) -> None:
        self.connector = connector or Keyed()

    def sink(self, mode: Any) -> SinkOptions:
        return Merging(mode=mode)

    def merging_sink(self, **options: Any) -> SinkOptions:
        return Merging(merge_on=("id",), **options)

    def stored(self) -> list[Row]:
        assert isinstance(self.connector, Keyed)
        return self.connector.rows
