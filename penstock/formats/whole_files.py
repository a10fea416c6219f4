"""Formats where a bad file is bad as a whole: the sound ones are read, the others set aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from penstock.errors import DataError
from penstock.formats.base import REJECTED, REJECTS
from penstock.formats.frames import broken_rows
from penstock.formats.paths import files_of, local_path
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Load = Callable[[list[str]], "DataFrame"]
Look = Callable[[list[str]], Mapping[str, object]]
"""Those of files that cannot be read, each with the reason: an exception for one that does not open."""


def read_sound(spark: SparkSession, kind: str, paths: list[str], look: Look, load: Load) -> DataFrame:
    """Reads the files; each bad one is one rejected row without values."""
    sound, damaged = sift(kind, paths, look)
    if not damaged:
        return load(paths)
    frame = load(sound)
    return frame.unionByName(_empty_rows(spark, frame, len(damaged)))


def rejects_of_files(
    spark: SparkSession, kind: str, paths: list[str], used: Sequence[Column], look: Look, load: Load
) -> DataFrame:
    """The bad files, and the rows of the sound ones that their columns forbid."""
    sound, damaged = sift(kind, paths, look)
    rows = [(None, error, file, None) for file, error in damaged.items()]
    files = spark.createDataFrame(rows, REJECTS)
    if not sound or all(c.nullable and "CHAR" not in c.type.upper() for c in used):
        return files
    return files.unionByName(broken_rows(load(sound), used))


def bad_file(file: str, reason: str) -> DataError:
    """The error for a file of which nothing can be read."""
    return DataError("bad-file", f"{file} is damaged: {reason}", hint="get it again, or check `format`")


def unopened(kind: str, file: str, failure: Exception) -> Exception:
    """What to raise for a file that does not open; of stores, their connectors know what they say."""
    local = local_path(file)
    reason = None if local is None else _damage(kind, local)
    return failure if reason is None else bad_file(str(local), reason)


def sift(kind: str, paths: list[str], look: Look) -> tuple[list[str], dict[str, str]]:
    """The files that can be read, and those that cannot, with the reason."""
    files = files_of(paths)
    reasons = {file: _damage(kind, local) for file in files if (local := local_path(file))}
    bad = {file: reason for file, reason in reasons.items() if reason}
    for file, why in look([file for file in files if file not in bad]).items():
        bad[file] = f"not a whole {kind} file" if isinstance(why, Exception) else str(why)
    return [file for file in files if file not in bad], bad


def _damage(kind: str, file: Path) -> str | None:
    """What is wrong with a file of this kind, by its footer or header; None when it opens."""
    try:
        _OPENERS[kind](file)
    except PermissionError:
        raise
    except (OSError, ValueError, EOFError) as failure:
        return f"not a whole {kind} file: {' '.join(str(failure).split())[:200]}"
    return None


def _open_parquet(file: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.ParquetFile(file).close()


def _open_orc(file: Path) -> None:
    import pyarrow.orc

    pyarrow.orc.ORCFile(str(file))


def _open_avro(file: Path) -> None:
    """Walks over the header and the blocks, without decoding them."""
    with file.open("rb") as stream:
        _avro_header(stream)
        marker = _exactly(stream, 16)
        while head := stream.read(1):
            _long(stream, head)
            _skip(stream, _long(stream))
            if _exactly(stream, 16) != marker:
                raise ValueError("a block does not end as the header says")


def _avro_header(stream: BinaryIO) -> dict[bytes, bytes]:
    if stream.read(4) != b"Obj\x01":
        raise ValueError("it does not begin as an Avro file does")
    header: dict[bytes, bytes] = {}
    while count := _long(stream):
        if count < 0:
            _long(stream)
        for _ in range(abs(count)):
            key = _exactly(stream, _long(stream))
            header[key] = _exactly(stream, _long(stream))
    return header


def _long(stream: BinaryIO, head: bytes = b"") -> int:
    """A variable-length zig-zag number."""
    value = shift = 0
    while True:
        byte = (head or _exactly(stream, 1))[0]
        head = b""
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _exactly(stream: BinaryIO, size: int) -> bytes:
    if size < 0:
        raise ValueError("a text of negative size")
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("it ends in the middle")
    return data


def _skip(stream: BinaryIO, size: int) -> None:
    if size < 0:
        raise ValueError("a block of negative size")
    if size:
        stream.seek(size - 1, 1)
        _exactly(stream, 1)


_OPENERS: dict[str, Callable[[Path], None]] = {
    "parquet": _open_parquet,
    "orc": _open_orc,
    "avro": _open_avro,
}


def _empty_rows(spark: SparkSession, like: DataFrame, count: int) -> DataFrame:
    """Rejected rows without values, in the columns of another frame."""
    from pyspark.sql import functions as f

    names = [field for field in like.schema.fields if field.name != REJECTED]
    nulls = [f.lit(None).cast(field.dataType).alias(field.name) for field in names]
    return spark.range(count).select(*nulls, f.lit(True).alias(REJECTED))
