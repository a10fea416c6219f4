"""Bytes of a file or a pipe as payloads: lines of JSON, records of CSV, MessagePack, raw lines.

Blank lines of JSON and CSV are passed over. What is no record of its format is told with its place.
"""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator, from_json

from penstock.errors import DataError, InputError, Place, SetupError, did_you_mean
from penstock.streams.message import csv_rows
from penstock.streams.producer import Unkeyed

LONGEST = 64 * 1024 * 1024
"""Bytes of one record; more of them without an end are no record."""
_SHOWN = 200
Framed = tuple[bytes, bytes | None]
Bad = Callable[[DataError], None]


class Frames(ABC):
    """Takes bytes as they come, in pieces of any size, and gives whole records."""

    def __init__(self, source: str, key: str | None, bad: Bad | None) -> None:
        self._source = source
        self._key = key
        self._path = () if key is None else tuple(key.split("."))
        self._bad = bad
        self.line = 0
        """How many lines were read."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Bytes of a record that has not ended."""

    @abstractmethod
    def feed(self, data: bytes) -> Iterable[Framed]:
        """The records that end in `data`."""

    @abstractmethod
    def end(self) -> Iterable[Framed]:
        """What is left, when nothing follows it."""

    def _wrong(self, line: int, text: bytes, why: str, column: int = 1) -> DataError:
        shown = text.decode("utf-8", "replace")
        shown = shown[:_SHOWN] if column <= _SHOWN and shown.isprintable() else ""
        return DataError(
            "bad-line",
            f"line {line} {why}",
            at=Place(self._source, line, column, 1, shown),
            hint=f"the lines before it are stored: mend it and go on with 'tail -n +{line}', or --skip-bad",
        )

    def _tell(self, failure: DataError) -> None:
        if self._bad is None:
            raise failure
        self._bad(failure)

    def _key_of(self, value: Any) -> bytes | None:
        """Raises LookupError where there is no such field."""
        if self._key is None:
            return None
        for name in self._path:
            if not isinstance(value, dict) or name not in value:
                raise LookupError(f"has no field '{self._key}' for the key")
            value = value[name]
        if value is None or isinstance(value, bytes):
            return value
        return (
            value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=str)
        ).encode()


class Lines(Frames):
    """Records that end where a line does; the last line needs no line feed."""

    def __init__(self, source: str, key: str | None, bad: Bad | None) -> None:
        super().__init__(source, key, bad)
        self._parts: list[bytes] = []
        self._waiting = 0

    @property
    def waiting(self) -> int:
        return self._waiting

    def feed(self, data: bytes) -> Iterable[Framed]:
        if b"\n" not in data:
            self._wait(data)
            return ()
        lines = data.split(b"\n")
        lines[0] = b"".join((*self._parts, lines[0]))
        self._parts, self._waiting = [], 0
        self._wait(lines.pop())
        return self._records(lines, data)

    def end(self) -> Iterable[Framed]:
        rest = b"".join(self._parts)
        self._parts, self._waiting = [], 0
        return self._records([rest], rest) if rest else ()

    def _wait(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._waiting += len(data)
        if self._waiting > LONGEST:
            raise self._wrong(self.line + 1, b"", f"has more than {LONGEST:,} bytes")

    @abstractmethod
    def _records(self, lines: list[bytes], text: bytes) -> Iterable[Framed]:
        """`text` is where the lines were found, all but the beginning of the first."""


class RawLines(Lines):
    """Each line, whatever it is, without its line feed."""

    def _records(self, lines: list[bytes], text: bytes) -> Iterable[Framed]:
        self.line += len(lines)
        return Unkeyed(lines)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no value of JSON")


_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(parse_constant=_refuse))["scan_once"]
"""What json itself reads a value with; it tells where the value ends."""


def _value(payload: bytes) -> Any:
    """What a line says; what the quick way does not take, json takes, or tells why not."""
    try:
        return from_json(payload, allow_inf_nan=False)
    except ValueError:
        text = payload.decode("utf-8-sig")
        value, end = _scan(text, 0)
        if end != len(text):
            raise json.JSONDecodeError("more after the value", text, end) from None
        return value


_object = SchemaValidator({"type": "typed-dict", "fields": {}, "extra_behavior": "ignore"}).validate_json
"""Raises for what is no object of JSON, and else gives an empty one: to make no values takes a third of the
time. It reads as `from_json` does, but lets pass what follows."""
_NO_VALUES = (b"NaN", b"Infinity")


def _says_no_value(text: bytes) -> bool:
    # Most texts have not even the first letter, which is found much faster.
    return any(word[:1] in text and word in text for word in _NO_VALUES)


def _are_objects(payloads: list[bytes]) -> bool:
    try:
        return not any(map(_object, payloads))
    except ValueError:
        return False


class JsonLines(Lines):
    def _records(self, lines: list[bytes], text: bytes) -> Iterable[Framed]:
        if not self._path:
            payloads = list(filter(None, map(bytes.strip, lines)))
            if not _says_no_value(lines[0]) and not _says_no_value(text) and _are_objects(payloads):
                self.line += len(lines)
                return Unkeyed(payloads)
        return self._one_by_one(lines)

    def _one_by_one(self, lines: list[bytes]) -> Iterator[Framed]:
        """Where a key is wanted, or not all of them are objects."""
        keyed = bool(self._path)
        for line in lines:
            self.line += 1
            payload = line.strip()
            if not payload:
                continue
            try:
                value = _value(payload)
                key = self._key_of(value) if keyed else None
            except (StopIteration, ValueError, LookupError, RecursionError) as failure:
                self._tell(self._unread(line, payload, failure))
                continue
            yield payload, key

    def _unread(self, line: bytes, payload: bytes, failure: Exception) -> DataError:
        before = len(line) - len(line.lstrip())
        if isinstance(failure, LookupError):
            return self._wrong(self.line, line, str(failure.args[0]), before + 1)
        if isinstance(failure, StopIteration):
            return self._wrong(self.line, line, "is not JSON: expected a value", before + failure.value + 1)
        if isinstance(failure, json.JSONDecodeError):
            why = failure.msg[:1].lower() + failure.msg[1:]
            return self._wrong(self.line, line, f"is not JSON: {why}", before + failure.pos + 1)
        return self._wrong(self.line, line, f"is not JSON: {failure}", before + 1)


class Dialect(NamedTuple):
    """How values stand in a record of CSV."""

    delimiter: str = ","
    quote: str = '"'
    """The sign around values that hold delimiters; empty for none."""

    @classmethod
    def of(cls, format: str, delimiter: str | None, quote: str | None) -> Dialect:
        """As a command is told it; what is not told is as usual."""
        for option, given in (("--delimiter", delimiter), ("--quote", quote)):
            if given is not None and format != "csv":
                raise InputError("usage", f"{option} is for CSV", hint="--format csv")
        told = (
            cls() if delimiter is None else cls({"tab": "\t", "\\t": "\t"}.get(delimiter.lower(), delimiter))
        )
        told = told if quote is None else told._replace(quote=quote)
        if len(told.delimiter) != 1 or told.delimiter in "\r\n":
            raise InputError("usage", "--delimiter: expected one character that is no line end, or tab")
        if len(told.quote) > 1 or not told.quote.isascii() or told.quote in (told.delimiter, "\r", "\n"):
            raise InputError(
                "usage", "--quote: expected one ASCII character, or nothing", hint="not the delimiter"
            )
        return told


class CsvRecords(Lines):
    """A record may go over several lines, inside quotes; with `header`, the first one names the columns."""

    def __init__(
        self, source: str, key: str | None, bad: Bad | None, dialect: Dialect, *, header: bool
    ) -> None:
        super().__init__(source, key, bad)
        self._dialect = dialect
        self._delimiter, self._quote = dialect.delimiter.encode(), dialect.quote.encode()
        if key is not None and not header and not (key.isdecimal() and int(key) > 0):
            raise InputError(
                "usage", f"CSV without a header has no column '{key}'", hint="--header, or a number from 1"
            )
        self._header = header
        self._first: bytes | None = None
        self._columns: list[str] = []
        self._open: list[bytes] = []
        """Lines of a record that has not ended."""
        self._open_bytes = 0
        self._in_quotes = False

    @property
    def waiting(self) -> int:
        return self._waiting + self._open_bytes

    def _records(self, lines: list[bytes], text: bytes) -> Iterator[Framed]:
        for line in lines:
            self.line += 1
            self._open.append(line)
            self._open_bytes += len(line) + 1
            self._in_quotes ^= bool(self._quote) and line.count(self._quote) % 2 == 1
            if self._in_quotes:
                if self._open_bytes > LONGEST:
                    raise self._unclosed()
                continue
            record = b"\n".join(self._open).removesuffix(b"\r")
            start, self._open, self._open_bytes = self.line - len(self._open) + 1, [], 0
            # Each of several files that are written after one another has its header.
            is_blank = not record.strip() and self._delimiter not in record
            if is_blank or (self._header and record == self._first):
                continue
            try:
                rows = record.decode("utf-8-sig").splitlines(keepends=True)
                fields = next(csv_rows(rows, *self._dialect))
                if self._header and self._first is None:
                    self._begin(record, fields)
                    continue
                key = self._field(fields)
            except (csv.Error, UnicodeDecodeError, LookupError) as failure:
                why = str(failure) if isinstance(failure, LookupError) else f"is not CSV: {failure}"
                self._tell(self._wrong(start, record, why))
                continue
            yield record, key

    def end(self) -> Iterator[Framed]:
        yield from super().end()
        if self._open:
            failure = self._unclosed()
            self._open, self._open_bytes, self._in_quotes = [], 0, False
            self._tell(failure)

    def _unclosed(self) -> DataError:
        start = self.line - len(self._open) + 1
        return self._wrong(start, self._open[0], "opens a quote that is never closed")

    def _begin(self, record: bytes, fields: list[str]) -> None:
        if self._key is not None and self._key not in fields:
            hint = did_you_mean(self._key, fields)
            raise InputError("no-column", f"the header has no column '{self._key}'", hint=hint)
        self._first, self._columns = record, fields

    def _field(self, fields: list[str]) -> bytes | None:
        if self._header and len(fields) != len(self._columns):
            raise LookupError(f"has {len(fields)} fields, and the header {len(self._columns)}")
        if self._key is None:
            return None
        number = self._columns.index(self._key) if self._header else int(self._key) - 1
        if number >= len(fields):
            raise LookupError(f"has no field {self._key} for the key")
        return fields[number].encode()


class MessagePacks(Frames):
    """Values one after the other, with nothing between them; `line` counts values."""

    def __init__(self, source: str, key: str | None, bad: Bad | None) -> None:
        super().__init__(source, key, bad)
        try:
            import msgpack
        except ImportError:
            raise SetupError(
                "missing-package",
                "MessagePack needs the package msgpack",
                hint="pip install 'penstock[msgpack]'",
            ) from None
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * LONGEST, timestamp=3)
        self._bytes = bytearray()
        self._base = 0

    @property
    def waiting(self) -> int:
        return len(self._bytes)

    def feed(self, data: bytes) -> Iterator[Framed]:
        import msgpack

        if len(self._bytes) + len(data) > LONGEST:
            raise self._broken(f"more than {LONGEST:,} bytes")
        self._unpacker.feed(data)
        self._bytes += data
        start = 0
        while True:
            try:
                value = self._unpacker.unpack()
            except msgpack.OutOfData:
                break
            except (ValueError, msgpack.UnpackException) as failure:
                raise self._broken(str(failure) or type(failure).__name__) from None
            self.line += 1
            end = self._unpacker.tell() - self._base
            payload, start = bytes(self._bytes[start:end]), end
            try:
                key = self._key_of(value)
            except LookupError as failure:
                why = str(failure.args[0])
                self._tell(
                    DataError("bad-line", f"value {self.line} {why}", hint="--skip-bad passes it over")
                )
                continue
            yield payload, key
        # Not what the unpacker tells: it has gone into the value that is not whole.
        del self._bytes[:start]
        self._base += start

    def end(self) -> Iterator[Framed]:
        if self._bytes:
            raise self._broken("it ends in the middle")
        yield from ()

    def _broken(self, why: str) -> DataError:
        return DataError(
            "bad-line",
            f"value {self.line + 1} is not MessagePack: {why}",
            at=Place(self._source, self.line + 1),
            hint="the values before it are stored; nothing after it can be read",
        )


FORMATS = ("ndjson", "csv", "msgpack", "raw")


def frames(
    format: str,
    source: str,
    *,
    key: str | None = None,
    header: bool = False,
    dialect: Dialect | None = None,
    bad: Bad | None = None,
) -> Frames:
    """What makes payloads of bytes. `bad` is told of lines that are passed over; without it they raise."""
    known_format(format)
    if header and format != "csv":
        raise InputError("usage", "--header is for CSV")
    if format == "csv":
        return CsvRecords(source, key, bad, dialect or Dialect(), header=header)
    if format == "raw":
        if key is not None:
            raise InputError("usage", "raw lines have no fields for --key", hint="--format ndjson, or csv")
        return RawLines(source, key, bad)
    return (JsonLines if format == "ndjson" else MessagePacks)(source, key, bad)


def known_format(format: str) -> str:
    if format not in FORMATS:
        raise InputError(
            "unknown-format", f"there is no format '{format}'", hint=did_you_mean(format, FORMATS)
        )
    return format
