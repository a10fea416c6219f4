"""Files delivered whole or not at all: written aside in a hidden folder, then moved into place.

Where a move is a copy, as on object stores, Spark's own writers put them in place by a committer that shows
them all at the end. A file's name tells its pipeline, batch and sink, so a batch that runs again replaces
what it left before, and whoever reads the folder, with whatever tool, sees each row once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote
from uuid import uuid4
from zoneinfo import ZoneInfo

from penstock.connectors import storage as stores
from penstock.connectors.base import Batch, Format
from penstock.connectors.session_settings import changed
from penstock.connectors.storage import Hadoop, Local, Storage, join
from penstock.connectors.templates import NO_VALUE, Target, uncompressed
from penstock.errors import DataError, OptionError, SetupError, did_you_mean
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATH_COLUMN = "_penstock_path"
ASIDE = {
    "mapreduce.outputcommitter.factory.class": (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
    ),
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""Files that nobody sees yet need not be moved a second time; and on Azure, whole folders cannot be."""


class Committer:
    """How Spark's own writers put files in place at once, on a store where a move is a copy."""

    def settings(self, label: str) -> Mapping[str, str]:
        """Settings of Spark's session while the files of a batch are written, whose names begin so."""
        raise NotImplementedError

    def clear(self, storage: Storage, folder: str, label: str) -> None:
        """Removes what an earlier try of the batch, which failed or was killed, has left half done."""


@dataclass(frozen=True)
class Delivery:
    """A batch on its way to a target."""

    target: Target
    batch: Batch
    format: Format
    mode: Literal["append", "overwrite"] | None = None
    partition_by: tuple[str, ...] = ()
    timestamp_column: str | None = None
    rows_per_file: int | None = None
    committer: Committer | None = None
    """None where files are moved."""

    @property
    def can_be_committed(self) -> bool:
        """Whether Spark's own writers can give files the names and the place that they are to have."""
        ending = uncompressed(self.target.name.partition("*")[2])
        named = not self.target.single and ending in ("", uncompressed(self.format.suffix))
        timed = self.target.templated and self.timestamp_column is not None
        return self.format.by_spark and named and not timed

    @property
    def label(self) -> str:
        """Names the batch and the sink; two sinks of one statement may share a folder."""
        pipeline = re.sub(r"[^A-Za-z0-9._-]", "-", self.batch.pipeline).lstrip("._-") or "pipeline"
        sink = hashlib.sha256(self.batch.sink.encode()).hexdigest()[:6]
        return f"{pipeline}-{self.batch.number:06d}-{sink}"

    def is_own(self, path: str) -> bool:
        """Whether a file is of this batch, from this try or an earlier one."""
        pattern = rf".*{re.escape(self.label)}-\d{{5,}}([-.].*)?"
        return re.fullmatch(pattern, path.rpartition("/")[2]) is not None

    def scope(self, spark: SparkSession) -> str | None:
        """The folders below the root that the batch writes to; None where the times of rows tell."""
        return None if self.timestamp_column else _at_batch_time(self, spark)


def deliver(frame: DataFrame, delivery: Delivery) -> None:
    """Puts the rows into files in their place; leaves nothing behind when it fails."""
    spark, target = frame.sparkSession, delivery.target
    storage = stores.of(spark, target.root)
    now = _at_batch_time(delivery, spark)
    check_compression(target, delivery.format.suffix)
    if target.single and delivery.mode == "append" and (file := next(target.data_files(storage, now), None)):
        raise DataError(
            "append-to-file",
            f"{file} is one file, which cannot be added to",
            hint="write to a folder (a path that ends in '/'), or set mode = 'overwrite'",
        )
    if delivery.committer is not None and delivery.can_be_committed:
        _commit(frame, delivery, delivery.committer, storage, now)
    else:
        _move_in(frame, delivery, storage, now)


def _commit(frame: DataFrame, delivery: Delivery, committer: Committer, storage: Storage, now: str) -> None:
    """The committer shows the new files, or none of them; then the old ones go."""
    # Invariant 2
    target = delivery.target
    folder, name = target.folder_of(now), target.name.partition("*")[0] + delivery.label
    if delivery.batch.again:
        committer.clear(storage, folder, name)
    old = set(_replaced(storage, delivery, now))
    try:
        settings = {**committer.settings(name), "mapreduce.output.basename": name}
        with changed(frame.sparkSession, settings):
            _stage(frame, delivery, storage, folder)
    except BaseException:
        with suppress(Exception):
            committer.clear(storage, folder, name)
        raise
    _remove(storage, old, target.root)


def _move_in(frame: DataFrame, delivery: Delivery, storage: Storage, now: str) -> None:
    """Writes the files aside, then moves each into its place."""
    target = delivery.target
    aside = join(target.root, f".penstock-{delivery.label}")
    made = _first_missing(storage, target.root)
    placed: list[str] = []
    # Invariant 2
    try:
        storage.delete(aside)
        with changed(frame.sparkSession, ASIDE):
            _stage(frame, delivery, storage, aside)
        moves = dict(_destinations(storage, delivery, aside, now))
        old = set(_replaced(storage, delivery, now))
        for source, place in moves.items():
            storage.move(source, place)
            placed.append(place)
        _remove(storage, old - set(placed), target.root)
    except BaseException:
        with suppress(Exception):
            _remove(storage, set(placed), target.root)
            storage.delete(aside)
            if made is not None:
                _remove_empty(storage, target.root, made)
        raise
    storage.delete(aside)


def check_compression(target: Target, suffix: str) -> None:
    """Readers go by a name's ending, so it must not lie about the bytes."""
    ending = target.name if target.single else target.name.partition("*")[2]
    said, done = (name[len(uncompressed(name)) :].lower() for name in (ending, suffix))
    if (said or target.single) and said != done:
        raise OptionError(
            "bad-option",
            f"the path ends in '{ending.rpartition('/')[2]}', but the files' ending is '{suffix}'",
            hint=f"set `compression`, or end the path in '{suffix}'",
        )


def check_writable(storage: Storage, target: Target) -> None:
    """Makes a folder where staging would stand, and removes all that it made."""
    try:
        made = _first_missing(storage, target.root)
        _check_way(storage, target, made)
        trial = join(target.root, f".penstock-{uuid4().hex}")
        try:
            storage.make_folder(trial)
        finally:
            _remove_empty(storage, trial, made or trial)
    except OSError as failure:
        raise SetupError(
            "target-not-writable",
            f"cannot write to {target.root}: {failure.strerror or failure}",
            hint="write to another folder, or change its permissions",
        ) from failure


def _check_way(storage: Storage, target: Target, made: str | None) -> None:
    """No file where a folder is to be, and no folder where a file is to be; `made` is not there yet."""
    root, names = stores.segments(made or target.root)
    above = root + "/".join(names[:-1] if made else names)
    there = storage.find(above)
    if there is not None and not there.is_folder:
        hint = "write to another folder, or move the file away"
        raise DataError("file-in-the-way", f"{above} is a file, but the path has it as a folder", hint=hint)
    file = join(target.root, target.below)
    if target.single and (there := storage.find(file)) and there.is_folder:
        hint = f"write '{target.below}/' for files in it, or choose another name"
        raise DataError("folder-in-the-way", f"{file} is a folder, but the path has it as a file", hint=hint)


def _stage(frame: DataFrame, delivery: Delivery, storage: Storage, folder: str) -> None:
    from pyspark.sql import functions as f

    target = delivery.target
    keys = partition_columns(frame, target, delivery.partition_by)
    if target.templated and delivery.timestamp_column:
        time = f.col(quoted(column_of(frame, delivery.timestamp_column))).cast("timestamp")
        frame = frame.withColumn(_PATH_COLUMN, target.expression(time))
        keys.insert(0, _PATH_COLUMN)
    limit = delivery.rows_per_file
    with changed(frame.sparkSession, {"spark.sql.files.maxRecordsPerFile": str(limit)} if limit else {}):
        rows = frame.coalesce(1) if target.single else frame
        if isinstance(storage, Hadoop) and not delivery.format.by_spark:
            _upload(rows, delivery, storage, folder, tuple(keys))
        else:
            delivery.format.write(rows, folder, tuple(keys))


def _upload(
    frame: DataFrame, delivery: Delivery, storage: Hadoop, folder: str, keys: tuple[str, ...]
) -> None:
    """By way of a local folder, for a format that is written nowhere else."""
    check_format(frame, delivery.target, delivery.format)
    if delivery.batch.aside:
        os.makedirs(delivery.batch.aside, exist_ok=True)
    with TemporaryDirectory(prefix=f".{delivery.label}-", dir=delivery.batch.aside) as scratch:
        local = os.path.join(scratch, "files")
        delivery.format.write(frame, local, keys)
        for file in stores.files_below(Local(), local, recursive=True):
            storage.put(file, join(folder, os.path.relpath(file, local)))


def check_format(frame: DataFrame, target: Target, format: Format) -> None:
    """Raises where workers cannot hand their files on."""
    if not stores.is_remote(target.root) or format.by_spark:
        return
    master = frame.sparkSession.sparkContext.master or ""
    if not master.startswith("local"):
        raise OptionError(
            "local-format",
            f"{format.name} files go into stores only where Spark is one process, and here it is {master}",
            hint="write another format, such as json, or set `master: local[*]`",
        )


def column_of(frame: DataFrame, name: str) -> str:
    """The column that an option names."""
    fits = [c for c in frame.columns if c.lower() == name.lower()]
    if not fits:
        hint = did_you_mean(name, frame.columns)
        raise OptionError("unknown-column", f"the rows have no column '{name}'", hint=hint)
    return fits[0]


def partition_columns(frame: DataFrame, target: Target, names: Sequence[str]) -> list[str]:
    """The columns that become folders: those of `names` that are no keys of the path, which stand there."""
    in_path = target.partition_keys()
    known = {column.lower(): column for column in reversed(frame.columns)}
    doubled = next((key.name for key in target.partitions() if key.name.lower() in known), None)
    if doubled is not None:
        raise OptionError(
            "doubled-column",
            f"there would be two columns '{doubled}', and readers would see the path's, not that of the rows",
            hint="give the column of the rows, or the key of the path, another name, or leave the column out",
        )
    for name in names:
        if name.lower() not in {*known, *in_path}:
            raise OptionError(
                "unknown-column",
                f"partition_by names '{name}', which is neither a column of the rows nor a key of the path",
                hint=did_you_mean(name, [*frame.columns, *in_path]),
            )
    columns = [known[name.lower()] for name in names if name.lower() not in in_path]
    if columns and len({*columns}) == len(frame.columns):
        raise OptionError(
            "no-columns-left",
            "partition_by names all columns of the rows, and none is left for the files",
            hint="leave one out, or select more",
        )
    return columns


def _destinations(storage: Storage, delivery: Delivery, aside: str, now: str) -> Iterator[tuple[str, str]]:
    """Where each staged file goes; `now` is the path at the batch's time."""
    target = delivery.target
    staged = sorted(stores.files_below(storage, aside, recursive=True))
    for part, source in enumerate(staged):
        *folders, _ = source[len(aside) + 1 :].split("/")
        below = now
        if folders and folders[0].startswith(f"{_PATH_COLUMN}="):
            value = folders.pop(0).partition("=")[2]
            below = target.without_time() if value == NO_VALUE else unquote(value)
        if target.single:
            yield source, join(target.root, below)
        else:
            name = target.file_name(f"{delivery.label}-{part:05d}", delivery.format.suffix)
            yield source, join(target.folder_of("/".join(filter(None, [below, *folders]))), name)


def _at_batch_time(delivery: Delivery, spark: SparkSession) -> str:
    time = delivery.batch.time
    if time.tzinfo is not None:
        time = time.astimezone(ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "UTC"))
    return delivery.target.at(time)


def _replaced(storage: Storage, delivery: Delivery, now: str) -> Iterator[str]:
    """Files that this batch takes the place of: its own earlier ones, or all that the path means.

    By the batch's time, a path means one folder; by the rows' times, all that it could have written.
    """
    # Invariant 3
    if delivery.mode != "overwrite" and not delivery.batch.again:
        return  # to look for what cannot be there would cost more with each batch
    for path in delivery.target.data_files(storage, None if delivery.timestamp_column else now):
        if delivery.mode == "overwrite" or delivery.is_own(path):
            yield path


def _remove(storage: Storage, files: set[str], root: str) -> None:
    """Deletes files, and the folders below the root that this leaves empty."""
    for path in sorted(files):
        storage.delete(path)
    for folder in {path.rpartition("/")[0] for path in files} - {root}:
        _remove_empty(storage, folder, root + "/")


def _remove_empty(storage: Storage, folder: str, highest: str) -> None:
    """Deletes an empty folder and those above it that this leaves empty, down from `highest`."""
    while len(folder) >= len(highest) and storage.delete_empty(folder):
        folder = folder.rpartition("/")[0]


def _first_missing(storage: Storage, folder: str) -> str | None:
    """The highest folder that is to be made for this one."""
    missing = None
    root, names = stores.segments(folder)
    while names and storage.find(path := root + "/".join(names)) is None:
        missing = path
        names.pop()
    return missing
