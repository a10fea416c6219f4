"""The conformance suite, run on every built-in connector; and tried itself, on broken ones."""

from __future__ import annotations

import csv
import json
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors import memory, registry
from penstock.connectors.azure import Azure
from penstock.connectors.base import Column, Connector, SinkOptions, SourceOptions
from penstock.connectors.datagen import COLUMNS as DATAGEN_COLUMNS
from penstock.connectors.datagen import Datagen, Generator, Rows
from penstock.connectors.datagen import Source as DatagenSource
from penstock.connectors.delta.connector import Delta
from penstock.connectors.files import Files
from penstock.connectors.gcs import Gcs
from penstock.connectors.hdfs import Hdfs
from penstock.connectors.hudi.connector import Hudi
from penstock.connectors.iceberg.connector import Iceberg
from penstock.connectors.kafka.connector import Kafka
from penstock.connectors.memory import Memory
from penstock.connectors.s3 import S3
from penstock.connectors.stream.connector import Stream
from penstock.formats import registry as formats

from .buckets import AzureSubject, BucketSubject, GcsSubject, HdfsSubject, S3Subject
from .conformance import CHECKS, Check, Row, Subject, checks_for, known_rows
from .hudi_tables import HudiSubject
from .keyed import (
    ChangesAllColumns,
    DropsRowsWithoutKey,
    ForgetsBatches,
    IgnoresOrder,
    KeepsTheDeleted,
    Keyed,
    KeyedSubject,
    TurnsArrivalRound,
)
from .lakes import DeltaSubject, IcebergSubject
from .listed import DoublesRows, DropsRows, IgnoresStart, LeavesHalf, Listed, ListedSubject, LosesNewColumn
from .logs import StreamSubject
from .spooled import (
    ChangesIdentity,
    FindsOneKey,
    ForgetsTwice,
    IgnoresLatest,
    KeepsWhatItFound,
    LosesBetweenBatches,
    ReadsBeyondTheBatch,
    Spooled,
    SpooledSubject,
    StartsAnew,
)
from .subject import in_utc
from .topics import KafkaSubject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def typed(row: dict[str, Any]) -> Row:
    """A row of text or JSON values as a row of COLUMNS."""
    return {
        "id": int(row["id"]),
        "name": row["name"],
        "amount": float(row["amount"]) if row.get("amount") not in (None, "") else None,
        "day": date.fromisoformat(row["day"]),
        "at": datetime.fromisoformat(row["at"].replace("Z", "+00:00")),
        **({"note": row["note"]} if "note" in row else {}),
    }


class FilesSubject(Subject):
    required = frozenset(
        {"bounded", "unbounded", "replay", "lookup", "formats", "append", "overwrite", "create_target",
         "transactional", "evolve_schema"}
    )  # fmt: skip

    def __init__(self, folder: Path, ending: str) -> None:
        self.connector = Files()
        self.folder = folder
        self.ending = ending
        kind, _ = formats.find(ending)
        self.reading, self.writing = kind(kind.ReadOptions()), kind(kind.WriteOptions())
        self.format = self.reading

    def batch(self, number: int) -> Any:
        from dataclasses import replace

        return replace(super().batch(number), format=self.writing)

    def request(self, **changes: Any) -> Any:
        told = {} if self.ending == "parquet" else {"columns": self.columns}  # text does not tell its types
        return super().request(**told | changes)

    def declared(self) -> tuple[Column, ...]:
        return self.columns if self.ending == "parquet" else super().declared()

    def source(self) -> SourceOptions:
        return Files.Source(path=self._folder("source"))

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        return Files.Source(path=self._folder(name), watch=True)

    def add(self, rows: list[Row]) -> None:
        for name in ("source", "first"):
            if (self.folder / name).exists():
                self._put(self.folder / name, rows)

    def _folder(self, name: str) -> str:
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            self._put(folder, known_rows(0, 10))
            self._put(folder, known_rows(10, 10))
        return f"{folder}/*.{self.ending}"

    def _put(self, folder: Path, rows: list[Row]) -> None:
        """One more file, which appears whole."""
        made = self.folder / "made"
        self._make(made, rows)
        made.rename(folder / f"{len(list(folder.iterdir()))}.{self.ending}")

    def _make(self, path: Path, rows: list[Row]) -> None:
        if self.ending == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(rows), path)
            return
        texts = [{k: v.isoformat() if k in ("day", "at") else v for k, v in row.items()} for row in rows]
        with path.open("w", newline="") as file:
            if self.ending == "csv":
                writer = csv.DictWriter(file, list(texts[0]))
                writer.writeheader()
                writer.writerows(texts)
            else:
                file.writelines(json.dumps(row) + "\n" for row in texts)

    def sink(self, mode: Any) -> SinkOptions:
        return Files.Sink(path=f"{self.folder}/target/*.{self.ending}", mode=mode)

    def stored(self) -> list[Row]:
        rows: list[Row] = []
        for path in (self.folder / "target").rglob(f"*.{self.ending}"):
            if self.ending == "parquet":
                import pyarrow.parquet as pq

                table = pq.read_table(path, coerce_int96_timestamp_unit="us")
                rows += [row | {"at": in_utc(row["at"])} for row in table.to_pylist()]
                continue
            with path.open(newline="") as file:
                rows += map(typed, csv.DictReader(file) if self.ending == "csv" else map(json.loads, file))
        return rows

    def leftovers(self) -> list[str]:
        found = (self.folder / "target").rglob("*")
        return [str(path) for path in found if path.is_dir() or path.suffix != f".{self.ending}"]


class DatagenSubject(Subject):
    required = frozenset({"bounded", "replay"})
    columns = DATAGEN_COLUMNS

    def __init__(self, folder: Path) -> None:
        self.connector = Datagen()

    def source(self) -> SourceOptions:
        return DatagenSource(rows=40, seed=7, splits=3, fields={"name": Generator(null_ratio=0.2)})

    def rows(self) -> list[Row]:
        source = self.source()
        assert isinstance(source, DatagenSource)
        reader = Rows(source.model_copy(update={"splits": 1}), DATAGEN_COLUMNS)
        (split,) = reader.splits()
        return [row for batch in reader.read(split, 0, 40) for row in batch.to_pylist()]

    def declared(self) -> tuple[Column, ...]:
        return (Column("id", "BIGINT"), Column("name", "STRING"))


class MemorySubject(Subject):
    required = frozenset({"bounded", "append", "overwrite", "create_target", "transactional"})

    def __init__(self, folder: Path) -> None:
        self.connector = Memory()
        memory.clear()

    def source(self) -> SourceOptions:
        memory.put("source", known_rows())
        return memory.Source(table="source")

    def sink(self, mode: Any) -> SinkOptions:
        return memory.Sink(table="target", mode=mode)

    def stored(self) -> list[Row]:
        return memory.rows("target") if "target" in memory._tables else []


SUBJECTS: dict[str, Any] = {
    "files-json": lambda folder: FilesSubject(folder, "json"),
    "files-csv": lambda folder: FilesSubject(folder, "csv"),
    "files-parquet": lambda folder: FilesSubject(folder, "parquet"),
    "datagen": DatagenSubject,
    "memory": MemorySubject,
    "listed": ListedSubject,
    "spooled": SpooledSubject,
    "keyed": KeyedSubject,
    "kafka": lambda folder: KafkaSubject(typed),
    "stream": lambda folder: StreamSubject(folder, typed),
    "s3": lambda folder: S3Subject(),
    "gcs": lambda folder: GcsSubject(),
    "azure": lambda folder: AzureSubject(),
    "hdfs": lambda folder: HdfsSubject(),
    "delta": DeltaSubject,
    "iceberg": IcebergSubject,
    "hudi": HudiSubject,
}
CONNECTORS = {
    "files": Files, "datagen": Datagen, "memory": Memory, "kafka": Kafka, "listed": Listed, "stream": Stream,
    "spooled": Spooled, "keyed": Keyed, "s3": S3, "gcs": Gcs, "azure": Azure,
    "hdfs": Hdfs, "delta": Delta, "iceberg": Iceberg, "hudi": Hudi,
}  # fmt: skip
SERVERS = ("kafka", "s3", "gcs", "azure", "hdfs")
CASES = [
    pytest.param(make, check, id=f"{name}-{check.__name__}", marks=[pytest.mark.server] * (name in SERVERS))
    for name, make in SUBJECTS.items()
    for check in checks_for(CONNECTORS[name.split("-")[0]]())
]


@pytest.mark.parametrize(("make", "check"), CASES)
def test_conforms(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, make: Any, check: Check
) -> None:
    subject = make(tmp_path)
    if isinstance(subject, KafkaSubject):
        subject.kafka = request.getfixturevalue("kafka")
    if isinstance(subject, BucketSubject):
        subject.server = request.getfixturevalue(subject.fixture)
    check(subject.session(spark), subject)


@pytest.mark.parametrize("name", SUBJECTS)
def test_declares_what_is_required(tmp_path: Path, name: str) -> None:
    subject = SUBJECTS[name](tmp_path)
    assert subject.required <= set(subject.connector.capabilities.names())


def test_every_capability_of_a_built_in_connector_is_tried() -> None:
    tried = {name.split("-")[0] for name in SUBJECTS}
    for name, connector in registry.all_connectors().items():
        if name in (
            "http",
            "terminal",
        ):  # read as files are, and nothing to read back; each has its own tests
            continue
        assert name in tried, f"{name} has no subject"
        assert connector.capabilities.names(), f"{name} can do nothing"


@pytest.mark.parametrize("connector", CONNECTORS.values())
def test_every_capability_that_has_checks_selects_some(connector: type[Connector]) -> None:
    selected = set(checks_for(connector()))
    for name in connector.capabilities.names():
        assert not selected.isdisjoint(CHECKS[name]) if name in CHECKS else True, name


BROKEN = [
    (DropsRows, "reads_all_rows", "rows are missing"),
    (DropsRows, "starts_at_a_position", "rows are missing"),
    (DropsRows, "appends", "rows are missing"),
    (DropsRows, "makes_the_target", "rows are missing"),
    (DoublesRows, "reads_all_rows", "rows too many"),
    (DoublesRows, "reads_for_counting", "another number"),
    (DoublesRows, "appends", "rows too many"),
    (DoublesRows, "overwrites", "rows too many"),
    (LeavesHalf, "failed_append_leaves_nothing", "rows too many"),
    (IgnoresStart, "starts_at_a_position", "got rows before it"),
    (IgnoresStart, "starts_at_a_position_in_spark", "got all rows"),
    (LosesNewColumn, "takes_a_new_column", "with the new column: 20 of 40 rows are missing"),
    (LosesBetweenBatches, "streams_rows_as_they_arrive", "rows are missing"),
    (ReadsBeyondTheBatch, "repeats_a_batch_as_it_was", "the batch that ran again: 7 rows too many"),
    (IgnoresLatest, "starts_after_what_is_there", "rows too many"),
    (StartsAnew, "keeps_to_where_it_started", "the batch that ran again: 7 of 7 rows are missing"),
    (ForgetsTwice, "acknowledges_more_than_once", "rows are missing"),
    (ChangesIdentity, "tells_sources_apart", "the same source is"),
    (FindsOneKey, "finds_rows_by_key", "rows are missing"),
    (KeepsWhatItFound, "finds_rows_that_were_added_since", "rows are missing"),
    (ForgetsBatches, "repeated_batch_changes_nothing", "rows too many"),
    (ForgetsBatches, "repeated_merge_changes_nothing", "batch 0 after batch 1"),
    (KeepsTheDeleted, "deletes", "rows too many"),
    (IgnoresOrder, "applies_changes_as_one_by_one", "several changes to a key"),
    (TurnsArrivalRound, "applies_changes_as_they_arrive", "several changes to a key"),
    (ChangesAllColumns, "applies_changes_as_one_by_one", "several changes to a key"),
    (DropsRowsWithoutKey, "hands_back_rows_without_a_key", "0 of 2 rows"),
]
BROKEN_SUBJECTS: dict[type[Connector], Any] = {
    Listed: ListedSubject,
    Spooled: SpooledSubject,
    Keyed: KeyedSubject,
}


@pytest.mark.parametrize(("broken", "name", "reason"), BROKEN)
def test_the_suite_fails_a_broken_connector(
    spark: SparkSession, tmp_path: Path, broken: type[Connector], name: str, reason: str
) -> None:
    (check,) = [check for checks in CHECKS.values() for check in checks if check.__name__ == name]
    (made,) = [subject for sound, subject in BROKEN_SUBJECTS.items() if issubclass(broken, sound)]
    subject = made(tmp_path, broken())
    with pytest.raises(AssertionError, match=reason):
        check(spark, subject)
