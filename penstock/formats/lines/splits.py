"""Files of lines in byte ranges: cut into splits on the driver, read in chunks of whole lines on workers."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import mmap
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, cast

SPLIT_SIZE = 128 << 20
CHUNK_SIZE = 2 << 20
_SMALLEST_SPLIT = 1 << 20
_RECORD_LIMIT = 64 << 20
"""A record in quotes that is longer than this is cut, lest a stray quote take all memory."""
_BOM = codecs.BOM_UTF8

COMPRESSED = (".gz", ".bz2", ".zst")
"""Endings of compressed files that Python reads."""
FOREIGN = (".deflate", ".snappy", ".lz4")
"""Endings of compressed files that only Hadoop reads."""


@dataclass(frozen=True)
class Split:
    """The lines of a file that begin in a byte range."""

    path: str
    start: int
    stop: int
    """Behind the range; for a file that is read whole, its size."""
    size: int
    modified: int
    """Microseconds since 1970."""
    whole: bool = False
    """Whether the file must be read from its start to its end."""
    detail: Any = None
    """What the decoder must know of this file."""


@dataclass(frozen=True)
class Chunk:
    """Whole lines, and where they stand."""

    data: bytes
    lines_before: Callable[[], int]
    """Counts the lines of the file before the first one."""


def plan_splits(
    files: Sequence[Path],
    cores: int,
    *,
    whole: bool = False,
    inspect: Callable[[Path], tuple[int, Any]] = lambda _: (0, None),
) -> list[Split]:
    """Cuts files into splits of at most about `SPLIT_SIZE`, as many for each core.

    `inspect` tells where the data of a file begins, and what its decoder must know.
    """
    stats = [(file, file.stat()) for file in files]
    total = sum(stat.st_size for _, stat in stats)
    rounds = max(1, -(-total // (SPLIT_SIZE * cores)))
    size = max(_SMALLEST_SPLIT, -(-total // (rounds * cores)))
    splits = []
    for file, stat in stats:
        begin, detail = inspect(file)
        about = (stat.st_size, stat.st_mtime_ns // 1_000_000 * 1000)
        if whole or file.name.lower().endswith(COMPRESSED):
            splits.append(Split(str(file), begin, stat.st_size, *about, True, detail))
            continue
        pieces = max(1, round((stat.st_size - begin) / size))
        edges = [begin + (stat.st_size - begin) * i // pieces for i in range(pieces + 1)]
        splits += [
            Split(str(file), start, stop, *about, False, detail)
            for start, stop in pairwise(edges)
            if stop > start
        ]
    return splits


def open_stream(path: str, encoding: str = "utf-8") -> BinaryIO:
    """A file's bytes in UTF-8, decompressed by its ending, without a byte order mark."""
    # ruff: noqa: SIM115 - the caller closes it
    lower = path.lower()
    if lower.endswith(".gz"):
        stream = cast(BinaryIO, gzip.open(path, "rb"))
    elif lower.endswith(".bz2"):
        stream = cast(BinaryIO, bz2.open(path, "rb"))
    elif lower.endswith(".zst"):
        import pyarrow as pa

        stream = cast(BinaryIO, io.BufferedReader(pa.input_stream(path, compression="zstd"), 1 << 20))
    else:
        stream = Path(path).open("rb")
    if codecs.lookup(encoding).name != "utf-8":
        return cast(BinaryIO, io.BufferedReader(_Recoded(stream, encoding), 1 << 20))
    return stream


class _Recoded(io.RawIOBase):
    """A stream of another encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._rest:
            data = self._stream.read(len(target))
            self._rest = self._decoder.decode(data, final=not data).encode()
            if not data and not self._rest:
                return 0
        count = min(len(target), len(self._rest))
        target[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def count_lines(data: bytes) -> int:
    """Line ends in `data`: `\\n`, `\\r\\n`, and `\\r` alone."""
    lines = data.count(b"\n")
    if b"\r" in data:
        lines += data.count(b"\r") - data.count(b"\r\n")
    return lines


def chunks(split: Split, *, encoding: str = "utf-8", quote: bytes | None = None) -> Iterator[Chunk]:
    """The lines of a split; with `quote`, a chunk ends only where no quotes are open."""
    with open_stream(split.path, encoding) as stream:
        if split.whole:
            yield from _whole(stream, split.start, quote)
        else:
            yield from _ranged(stream, split)


def _ranged(stream: BinaryIO, split: Split) -> Iterator[Chunk]:
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        position = split.start
        if position:
            # The line that holds the byte before belongs to the split before.
            position = whole.find(b"\n", position - 1) + 1 or len(whole)
        while position < split.stop:
            before = position
            target = min(before + CHUNK_SIZE, split.stop) - 1
            position = whole.find(b"\n", target) + 1 or len(whole)
            start = len(_BOM) if before == 0 and whole[: len(_BOM)] == _BOM else before
            yield Chunk(whole[start:position], partial(_lines_until, split.path, before))
            # Read once: these pages need not count as ours any longer.
            page = before // mmap.PAGESIZE * mmap.PAGESIZE
            whole.madvise(mmap.MADV_DONTNEED, page, position - page)


def _lines_until(path: str, position: int) -> int:
    lines = 0
    with Path(path).open("rb") as stream:
        while position > 0:
            data = stream.read(min(16 << 20, position))
            if not data:
                break
            data += stream.readline() if position > len(data) and not data.endswith(b"\n") else b""
            position -= len(data)
            lines += count_lines(data)
    return lines


def _whole(stream: BinaryIO, skip: int, quote: bytes | None) -> Iterator[Chunk]:
    """`skip` is a number of bytes after decompression."""
    lines = count_lines(_exactly(stream, skip))
    first = skip == 0
    while data := stream.read(CHUNK_SIZE):
        if not data.endswith(b"\n"):
            data += stream.readline()
        if quote is not None:
            data = _closed(stream, data, quote)
        if first:
            data, first = data.removeprefix(_BOM), False
        yield Chunk(data, partial(int, lines))
        lines += count_lines(data)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _closed(stream: BinaryIO, data: bytes, quote: bytes) -> bytes:
    parts, quotes, size = [data], data.count(quote), len(data)
    while quotes % 2 and size < _RECORD_LIMIT and (line := stream.readline()):
        parts.append(line)
        quotes += line.count(quote)
        size += len(line)
    return b"".join(parts)


DAMAGED = (OSError, EOFError, zlib.error, UnicodeError)
"""What a compressed or encoded file raises when it is not whole."""


def sample(files: list[Path], *, encoding: str = "utf-8", quote: bytes | None = None) -> Iterator[Chunk]:
    """The first chunk of each of the first files."""
    for file in files[:20]:
        size = os.path.getsize(file)
        yield from _first(chunks(Split(str(file), 0, size, size, 0, True), encoding=encoding, quote=quote))


def _first(items: Iterator[Chunk]) -> Iterator[Chunk]:
    for item in items:
        yield item
        return
