"""What a source's path means: which files, which columns from their folders, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.connectors import storage as stores
from penstock.connectors.base import METADATA, POSITION, REJECTED, Column, Format, ReadRequest, SourceOptions
from penstock.connectors.storage import Entry, Storage
from penstock.connectors.templates import NO_VALUE, as_glob, uncompressed
from penstock.connectors.watching import paths_in
from penstock.errors import DataError, InputError, did_you_mean
from penstock.options import Value
from penstock.schema import METADATA_TYPES, Unknown, ddl, from_avsc, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_files(
    spark: SparkSession, path: str, source: SourceOptions, request: ReadRequest, *, recursive: bool = False
) -> DataFrame:
    """The rows of the files that `path` means, or of those in a batch of the watched ones."""
    found = resolve(spark, path, source, request, recursive=recursive)
    if not found.files:
        return _no_rows(spark, found)
    frame = found.format.read(spark, found.files, found.columns, found.request)
    if not found.request.partitions:
        return frame
    keys = request.prune(found.request.partitions)
    if not {c.name.lower() for c in keys} <= {c.lower() for c in frame.columns}:
        frame = _with_partitions(spark, found, keys)
    there = {c.lower(): c for c in frame.columns}
    wanted = [there[c.name.lower()] for c in request.prune(found.order)]
    hidden = [c for c in (METADATA, REJECTED) if c in frame.columns]
    return frame.select(*(quoted(c) for c in [*wanted, *hidden]))


def _no_rows(spark: SparkSession, found: Found) -> DataFrame:
    """What a batch without files gives."""
    request = found.request
    fields = ", ".join(f"{name}: {METADATA_TYPES[name]}" for name in sorted(request.metadata))
    hidden = [Column(METADATA, f"STRUCT<{fields}>")] if fields else []
    hidden += [Column(REJECTED, "BOOLEAN")] if request.on_error != "fail" else []
    return spark.createDataFrame([], ddl((*request.prune(found.order), *hidden)))


def _with_partitions(spark: SparkSession, found: Found, keys: tuple[Column, ...]) -> DataFrame:
    """For a format that reads no folders' names: the keys' values, from the path of each row's file."""
    from pyspark.sql import functions as f

    request = replace(found.request, metadata=found.request.metadata | {"path"}, partitions=(), base=None)
    frame = found.format.read(spark, found.files, found.columns, request)
    for key in keys:
        pattern = f"/{re.escape(found.keys[key.name.lower()])}=([^/]*)/"
        text = f.regexp_extract(f.col(f"{METADATA}.path"), pattern, 1)
        value = f.url_decode(f.replace(text, f.lit("+"), f.lit("%2B")))
        frame = frame.withColumn(key.name, f.when(text != NO_VALUE, value).cast(key.type))
    return frame if found.request.metadata else frame.drop(METADATA)


def file_rejects(
    spark: SparkSession, path: str, source: SourceOptions, request: ReadRequest, *, recursive: bool = False
) -> DataFrame:
    """The bad records of the files that `path` means."""
    found = resolve(spark, path, source, request, recursive=recursive)
    return found.format.rejects(spark, found.files, found.columns, found.request)


def traced_files(
    spark: SparkSession, path: str, source: SourceOptions, request: ReadRequest, *, recursive: bool = False
) -> DataFrame:
    """The same rows as `read_files` gives, with the file of each and its number in it."""
    from pyspark.sql import functions as f

    more = replace(request, metadata=request.metadata | {"path", "row_number"})
    frame = read_files(spark, path, source, more, recursive=recursive)
    place = f.struct(f.col(f"{METADATA}.path").alias("file"), f.col(f"{METADATA}.row_number").alias("row"))
    traced = frame.withColumn(POSITION, place)
    return traced if request.metadata else traced.drop(METADATA)


@dataclass(frozen=True)
class Found:
    """What a format needs to read files, and what becomes of its columns."""

    format: Format
    files: list[str]
    columns: tuple[Column, ...]
    """Those that stand in the files."""
    request: ReadRequest
    order: tuple[Column, ...]
    """All columns, as they are to stand in the frame."""
    keys: dict[str, str]
    """Lower-case names of partition columns -> the keys as they stand in folders' names."""


def resolve(
    spark: SparkSession, path: str, source: SourceOptions, request: ReadRequest, *, recursive: bool = False
) -> Found:
    form = known_format(request.format, path)
    if request.records is not None:
        files = paths_in(request.records)
    else:
        storage = stores.of(spark, stores.absolute(path))
        files = find(storage, path, recursive)
        if not files:
            raise missing(storage, path)
    base, values = partitions_of(files, _written_root(path))
    columns = request.columns or (from_avsc(source.schema_file) if source.schema_file else ())
    declared = {c.name.lower(): c for c in columns}
    if not columns:
        columns = form.discover(spark, files)
    folded = {key.lower() for key in values}
    order = [*columns, *(Column(k, "") for k in values if not declared and k.lower() not in _lower(columns))]
    keys = [
        declared.get(key.lower(), Column(key, _type_of(texts)))
        for key, texts in values.items()
        if not declared or key.lower() in declared
    ]
    return Found(
        format=form,
        files=files,
        columns=tuple(c for c in columns if c.name.lower() not in folded),
        request=replace(request, partitions=tuple(keys), base=base if keys else None),
        order=tuple(order),
        keys={key.lower(): key for key in values},
    )


def columns_in(
    spark: SparkSession, path: str, source: SourceOptions, request: ReadRequest, *, recursive: bool = False
) -> tuple[Column, ...]:
    """All columns of the files that `path` means, with those of their folders' names."""
    found = resolve(spark, path, source, request, recursive=recursive)
    keys = {c.name.lower(): c for c in found.request.partitions}
    return tuple(keys.get(c.name.lower(), c) for c in found.order)


def unknown_in(spark: SparkSession, path: str, request: ReadRequest) -> tuple[Unknown, ...]:
    """The fields in a batch of watched files that the columns lack."""
    assert request.records is not None
    files = paths_in(request.records)
    form = known_format(request.format, path)
    return form.unknown_in_files(spark, files, request.columns) if files else ()


def facts(spark: SparkSession, path: str, *, recursive: bool = False) -> dict[str, Value]:
    """How many files a path means, their size in bytes, and how many values each partition key has."""
    storage = stores.of(spark, stores.absolute(path))
    files = _entries(storage, path, recursive)
    _, values = partitions_of([file.path for file in files], _written_root(path))
    sizes = (storage.size(file.path) if file.size is None else file.size for file in files)
    told: dict[str, Value] = {"files": len(files), "size": sum(sizes)}
    return told | ({"partitions": {key: len(set(texts)) for key, texts in values.items()}} if values else {})


def find(storage: Storage, path: str, recursive: bool = False) -> list[str]:
    """The files that a source's path means."""
    return [entry.path for entry in _entries(storage, path, recursive)]


def _entries(storage: Storage, path: str, recursive: bool) -> list[Entry]:
    files: list[Entry] = []
    for entry in stores.glob(storage, stores.absolute(as_glob(path))):
        if entry.is_folder:
            files += stores.entries_below(storage, entry.path, recursive=recursive)
        else:
            files.append(entry)
    return files


def ending_of(path: str) -> str | None:
    """The ending of a file's name, without that of its compression."""
    name = uncompressed(path.rpartition("/")[2])
    stem, dot, ending = name.rpartition(".")
    return ending.lower() if dot and stem and re.fullmatch(r"\w+", ending) else None


def partitions_of(files: list[str], root: str) -> tuple[str, dict[str, list[str]]]:
    """The folder above all `key=value` folders that stand below `root`, and the values of each key."""
    base, values, shape = root, dict[str, list[str]](), None
    for file in files:
        folders = file[len(root) :].strip("/").split("/")[:-1]
        first = next((i for i, name in enumerate(folders) if stores.is_partition(name)), len(folders))
        pairs = [name.partition("=")[::2] for name in folders[first:] if stores.is_partition(name)]
        above = stores.join(root, "/".join(folders[:first])).rstrip("/") if pairs else root
        here = (above, [key for key, _ in pairs]) if pairs else (None, [])
        if shape is not None and here != shape:
            raise DataError(
                "mixed-partitions",
                f"the folders of the files differ in their keys: {files[0]} and {file}",
                hint="read folders of one shape at a time, with a narrower pattern",
            )
        shape, base = here, above
        for key, value in pairs:
            values.setdefault(key, []).append(unquote(value))
    return base, values


def _type_of(texts: list[str]) -> str:
    """The type of a partition column, as Spark would guess it."""
    given = {t for t in texts if t != NO_VALUE}
    if given and all(re.fullmatch(r"[+-]?\d{1,18}", t) for t in given):
        return "INT" if all(abs(int(t)) < 2**31 for t in given) else "BIGINT"
    return "DATE" if given and all(_is_date(t) for t in given) else "STRING"


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _written_root(path: str) -> str:
    """The folder above which no name counts as a partition: a relative path's, or the root."""
    whole = stores.absolute(path)
    local = path[5:].removeprefix("//") if path.lower().startswith("file:") else path
    if stores.is_remote(whole) or local.startswith(("/", "~")):
        return stores.segments(whole)[0].rstrip("/")
    return stores.absolute(".") if ".." not in local.split("/") else stores.fixed_root(whole)


def _lower(columns: tuple[Column, ...]) -> set[str]:
    return {c.name.lower() for c in columns}


def known_format(form: Format | None, path: str) -> Format:
    """The format that was found for a path."""
    if form is None:
        raise InputError(
            "no-format", f"cannot tell the format of {path}", hint="set it: WITH (format = 'json')"
        )
    return form


def missing(storage: Storage, path: str) -> DataError:
    """Says what is there instead."""
    whole = stores.absolute(as_glob(path))
    folder = whole
    while storage.find(folder) is None and stores.segments(folder)[1]:
        root, names = stores.segments(folder)
        folder = root + "/".join(names[:-1])
    inside: list[Entry] = [e for e in storage.children(folder) if not e.hidden]
    if folder == whole:
        hint = "the folder has no files"
        if any(e.is_folder for e in inside):
            hint = f"there are folders in it, such as '{inside[0].name}': set recursive = true"
        return DataError("missing-file", f"no file in {path}", hint=hint)
    wanted = whole[len(folder) :].strip("/").split("/")[0]
    near = None if stores.is_wild(wanted) else did_you_mean(wanted, [e.name for e in inside])
    names_there = ", ".join(e.name + "/" * e.is_folder for e in inside[:10]) or "nothing"
    hint = f"{folder} has {names_there}" + (f"; {near}" if near and near.startswith("did") else "")
    return DataError("missing-file", f"no file matches {path}", hint=hint)
