"""The first record of a CSV file, which names its columns."""

from __future__ import annotations

from pathlib import Path

from penstock.formats.lines.csv_record import Dialect, skipped
from penstock.formats.lines.splits import DAMAGED, open_stream
from penstock.formats.sampling import header_of


def read_header(file: Path, dialect: Dialect, encoding: str) -> tuple[list[str], int]:
    """The names of the columns, and how many bytes stand before the data; no names for an empty file.

    Bytes are counted as they are in UTF-8 after decompression.
    """
    begin = 0
    try:
        with open_stream(str(file), encoding) as stream:
            while line := stream.readline():
                record = line
                while (
                    dialect.multiline
                    and record.count(dialect.quote.encode()) % 2
                    and (line := stream.readline())
                ):
                    record += line
                begin += len(record)
                if not skipped(record.decode("utf-8", "replace").removeprefix("\ufeff"), dialect):
                    return header_of(record, dialect, str(file)), begin
    except DAMAGED as failure:
        if isinstance(failure, (FileNotFoundError, PermissionError)):
            raise
        # A damaged file is met again, and told of, where its records are read.
        return [], 0
    return [], begin
