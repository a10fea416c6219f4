"""The columns of a stream's sources, kept so that a restart means the same; and what new fields lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import ReadRequest, Unknown
from penstock.engine import failures
from penstock.engine.state import State
from penstock.errors import DataError, Place
from penstock.plan.nodes import Scan
from penstock.schema import Column, from_avsc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Columns:
    """The columns of all sources of a stream, by the places of their scans."""

    def __init__(
        self, state: State, scans: Mapping[Place, Scan], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self._state, self._scans, self._tell = state, scans, tell
        self._kept: dict[str, Any] = {}
        self._columns: dict[Place, tuple[Column, ...]] = {}
        self._added: dict[Place, frozenset[str]] = {}
        self._strange: dict[Place, tuple[Column, ...]] = {}
        self._closed: frozenset[Place] = frozenset()
        """Scans in whose records reading itself meets fields that the columns lack."""

    def open(self, kept: dict[str, Any], found: Mapping[Place, tuple[Column, ...]]) -> None:
        """Takes what the state of the pipeline tells of streams, and what was `found` of other sources.

        What a statement declares comes first: it may have changed.
        """
        self._kept = kept
        for at, scan in self._scans.items():
            known = kept["columns"].get(scan.identity, ()) if scan.unbounded else ()
            added = kept.get("added", {}).get(scan.identity, ()) if scan.unbounded else ()
            self._columns[at] = declared(scan) or tuple(Column(*c) for c in known) or found.get(at, ())
            self._added[at] = frozenset(added)

    def request(self, scan: Scan, records: DataFrame | None = None) -> ReadRequest:
        """What is asked of a source."""
        strange = self._strange.get(scan.at, ())
        return replace(
            scan.request,
            columns=(*self._columns[scan.at], *strange),
            optional=self._added[scan.at] | _names(strange),
            strange=tuple(column.name for column in strange),
            closed=scan.at in self._closed,
            records=records,
        )

    def follow(
        self,
        spark: SparkSession,
        scans: Iterable[Scan],
        records: Mapping[Place, DataFrame] | None = None,
        *,
        atomic: bool = False,
    ) -> None:
        """Looks for fields that the columns lack in a batch, before it is built, and does what is wanted.

        With `atomic`, a batch that fails leaves nothing behind: where reading meets such fields by itself, it
        is not read twice then. Once it has met some, `look` does what is wanted.
        """
        self._strange, self._closed = {}, frozenset()
        followed = [scan for scan in scans if scan.evolution not in (None, "discard_value")]
        closed = {s.at for s in followed if atomic and s.connector.meets_unknown(s.options, self.request(s))}
        for scan in followed:
            if scan.at not in closed:
                self._look(spark, scan, records or {})
        self._closed = frozenset(closed)

    def look(self, spark: SparkSession, scans: Iterable[Scan], records: Mapping[Place, DataFrame]) -> None:
        """Looks for fields of which reading has met some."""
        closed, self._closed = self._closed, frozenset()
        for scan in scans:
            if scan.at in closed:
                self._look(spark, scan, records)

    def _look(self, spark: SparkSession, scan: Scan, records: Mapping[Place, DataFrame]) -> None:
        with failures.at_end(scan):
            request = self.request(scan, records.get(scan.at))
            found = scan.connector.unknown(spark, scan.options, request)
        if found:
            self._meet(scan, found)

    def _meet(self, scan: Scan, found: Sequence[Unknown]) -> None:
        new = tuple(unknown.column for unknown in found)
        if scan.evolution == "freeze":
            raise _changed(
                scan,
                found,
                "its columns lack",
                "set schema_evolution: 'evolve' adds them, 'discard_row' drops such rows, 'discard_value'"
                " such fields; nothing is lost, the batch is still to be delivered",
            )
        twins = _twins((*self._columns[scan.at], *new))
        if doubled := [unknown for unknown in found if unknown.column.name.lower() in twins]:
            raise _changed(
                scan,
                doubled,
                "differ from another only in upper and lower case",
                "declare the columns, or set schema_evolution = 'discard_value' to leave such fields out",
            )
        if scan.evolution == "discard_row":
            self._strange[scan.at] = new
            return
        self._keep(scan, new)
        told = ", ".join(f"{u.column.name} {u.column.type} (first in {u.place})" for u in found)
        self._tell(f"new columns of {scan.label}: {told}")

    def _streams(self) -> list[Scan]:
        return [scan for scan in self._scans.values() if scan.unbounded]

    def _keep(self, scan: Scan, new: tuple[Column, ...]) -> None:
        """Adds columns; kept before the batch is delivered, so that it is the same when it runs again."""
        self._columns[scan.at] += new
        self._added[scan.at] |= _names(new)
        self._kept = {
            **self._kept,
            "columns": {s.identity: as_kept(self._columns[s.at]) for s in self._streams()},
            "added": {s.identity: sorted(self._added[s.at]) for s in self._streams()},
        }
        self._state.keep(self._kept)


def declared(scan: Scan) -> tuple[Column, ...]:
    """The columns that a statement declares, itself or by a schema file; none when they are to be found."""
    if scan.columns or scan.format is None or not scan.options.schema_file:
        return scan.columns
    with failures.at_end(scan):
        return from_avsc(scan.options.schema_file)


def as_kept(columns: Iterable[Column]) -> list[tuple[str, str, bool]]:
    """Columns as the state of a pipeline has them."""
    return [(column.name, column.type, column.nullable) for column in columns]


def _names(columns: Iterable[Column]) -> frozenset[str]:
    return frozenset(column.name.lower() for column in columns)


def _twins(columns: Iterable[Column]) -> set[str]:
    counts = Counter(column.name.lower() for column in columns)
    return {name for name, count in counts.items() if count > 1}


def _changed(scan: Scan, found: Sequence[Unknown], what: str, hint: str) -> DataError:
    told = ", ".join(f"{u.column.name} (first in {u.place})" for u in found)
    message = f"records of {scan.label} have fields that {what}: {told}"
    return DataError("schema-changed", message, at=scan.at, hint=hint)
