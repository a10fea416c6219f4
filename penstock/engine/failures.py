"""What Spark raises -> our errors: with the place in the user's own text, and without Spark's stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from penstock.connectors import storage as stores
from penstock.connectors.base import Connector
from penstock.errors import DataError, PenstockError, Place, RunError, SetupError, StatementError
from penstock.formats.base import UNKNOWN_MARKER, bad_record
from penstock.plan.nodes import Scan, Transform, Write

_BAD_FILE = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|Not an Avro data file|Malformed ORC|"
    r"FileFormatException|CannotReadFooter|Could not read footer|AvroRuntimeException|InvalidAvroMagic|"
    r"orc\.impl\.ReaderImpl|Unexpected end of input stream|not a gzip file|ZipException"
)
_OTHER_TYPE = re.compile(r"Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (\w+)")
_FILE = re.compile(r"(?:file|path|footer for)[:\s]+(\S*?(?:file:/|/)[^\s,;'\"]+)", re.IGNORECASE)
_CALLED = re.compile(r"^An error occurred while calling \S+\s*:\s*[\w.$]+: ")
_CONDITION = re.compile(r"^\[([A-Z0-9_]+)(?:\.[\w.]+)?\]\s*")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


@dataclass(frozen=True)
class Asked:
    """A query as Spark was given it."""

    node: Transform
    views: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.node.query.spark_sql(self.views)

    def place(self, start: int, stop: int) -> Place:
        return self.node.query.place(self.views, start, stop)


@contextmanager
def in_query(asked: Asked) -> Iterator[None]:
    """Errors of Spark's analyser, placed in the query as it was written."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as failure:
        raise _in_query(failure, asked) from None


@contextmanager
def at_end(end: Scan | Write) -> Iterator[None]:
    """Errors of opening a source or a sink, placed there."""
    try:
        yield
    except PenstockError as failure:
        failure.at = failure.at or end.at
        raise
    except Exception as failure:
        translated = translate(failure, name=end.label, ends=(end,))
        translated.at = translated.at or end.at
        raise translated from failure


def _in_query(failure: Any, asked: Asked) -> PenstockError:
    message = _message(failure)
    query = asked.node.query
    for view, relation in zip(asked.views, query.relations, strict=True):
        message = message.replace(f"`{view}`.", "").replace(f"`{view}`", f"'{relation.name}'")
    hint = None
    suggestion = re.search(r"Did you mean one of the following\? \[(.+?)\]", message)
    if suggestion:
        hint = f"columns there: {suggestion[1].replace('`', '')}"
        message = message[: suggestion.start()].rstrip()
    return StatementError(
        _code(failure, "analysis"), message, at=_place(failure, [asked]) or query.at, hint=hint
    )


def _place(failure: Any, queries: Sequence[Asked]) -> Place | None:
    """Where in the user's text Spark says that it failed."""
    for context in getattr(failure, "getQueryContext", list)() or ():
        if context.contextType().name != "SQL":
            continue
        start, stop = context.startIndex(), context.stopIndex() + 1
        for asked in queries:
            if start >= 0 and asked.text[start:stop] == context.fragment():
                return asked.place(start, stop)
    found = re.search(r"\(line (\d+), pos (\d+)\)", str(failure))
    if found is None or len(queries) != 1:
        return None
    lines = queries[0].text.splitlines(keepends=True)
    offset = sum(map(len, lines[: int(found[1]) - 1])) + int(found[2])
    return queries[0].place(offset, offset + 1)


def is_passing(failure: Exception, connectors: Iterable[Connector]) -> bool:
    """Whether a failure may go away by itself, as the connectors that take part judge it."""
    return any(connector.is_passing(failure) for connector in connectors)


def translate(
    failure: Exception,
    queries: Sequence[Asked] = (),
    *,
    name: str = "a file",
    ends: Sequence[Scan | Write] = (),
) -> PenstockError:
    """An error of a running job; `queries` are those that it ran, `name` is what it read.

    The connectors of its `ends` are asked first: they know what their systems say.
    """
    if isinstance(failure, PenstockError):
        return failure
    for end in ends:
        told = [connector.explain_failure(failure, end.options) for connector in end.connectors]
        for one in filter(None, told):
            one.at = one.at or end.at
            return one
    text = str(failure)
    record = bad_record(text)
    if record is not None:
        return rejected(record, _scan_place(record.get("file"), queries))
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return SetupError(
            "disk-full", _line(text, "No space left|Disk quota"), hint="free some space and run it again"
        )
    if "Permission denied" in text or "AccessControlException" in text:
        return SetupError("permission", _line(text, "Permission denied|AccessControlException"))
    if _BAD_FILE.search(text):
        file = _FILE.search(text)
        found = re.sub(r"^file:/+", "/", file[1].rstrip(".")) if file else None
        at = _scan_place(found, queries)
        if other := _OTHER_TYPE.search(text):
            return _of_other_type(found or name, other, at)
        message = f"{found or name} is damaged, or not in this format"
        return DataError("bad-file", message, at=at, hint="check `format`")
    if "CAST_INVALID_INPUT" in text or "DIVIDE_BY_ZERO" in text or "ARITHMETIC_OVERFLOW" in text:
        at = _place(failure, queries)
        hint = "try_cast, try_divide and the like give NULL instead"
        return DataError("bad-value", _message(failure), at=at, hint=hint)
    at = _place(failure, queries)
    if isinstance(failure, _analysis_exception()):  # found while planning the job: nothing has run
        at = at or (queries[0].node.query.at if queries else None)
        return StatementError(_code(failure, "analysis"), _message(failure), at=at)
    return RunError(_code(failure, "spark"), _message(failure), at=at)


def _of_other_type(file: str, told: re.Match[str], at: Place | None) -> DataError:
    column, wanted, found = told.groups()
    return DataError(
        "column-types",
        f"{file} has {column} as {found}, which cannot be read as {wanted.upper()}",
        at=at,
        hint="declare the columns, with types that take the values of all files",
    )


def _analysis_exception() -> type[Exception]:
    from pyspark.errors import AnalysisException

    return AnalysisException


def _scan_place(file: str | None, queries: Sequence[Asked]) -> Place | None:
    """Where the statement names the source that a file is of."""
    scans = {scan.at: scan for asked in queries for scan in asked.node.scans()}
    if len(scans) > 1:
        scans = {at: scan for at, scan in scans.items() if file and _reads(scan, file)}
    return next(iter(scans)) if len(scans) == 1 else None


def _reads(scan: Scan, file: str) -> bool:
    path = getattr(scan.options, "path", None)
    patterns: Iterable[str] = stores.braces(stores.absolute(path)) if path else ()
    return any(fnmatchcase(file, one) or fnmatchcase(file, f"{one}/*") for one in patterns)


def rejected(record: dict[str, Any], otherwise: Place | None = None) -> DataError:
    """The error for a record that cannot be read; without a line of its own, it is placed `otherwise`."""
    payload = str(record.get("payload") or "")
    at = (
        Place(record["file"], record["line"], 1, max(1, len(payload)), payload)
        if record.get("line")
        else None
    )
    where = "" if at else f" in {record.get('file')}"
    return DataError(
        "bad-record",
        f"bad record{where}: {record['error']}",
        at=at or otherwise,
        hint="on_error = 'skip' drops such records and counts them, 'dead_letter' keeps them aside",
    )


def is_malformed(failure: Exception) -> bool:
    """Whether Spark's own reader met a bad record, whose place it does not tell."""
    return "MALFORMED_RECORD_IN_PARSING" in str(failure) or "MALFORMED_CSV_RECORD" in str(failure)


def met_unknown(failure: PenstockError) -> bool:
    """Whether a worker met fields that the columns lack, while it watched for them."""
    return UNKNOWN_MARKER in str(failure.__cause__)


def _code(failure: Exception, otherwise: str) -> str:
    condition = getattr(failure, "getCondition", lambda: None)()
    if not condition and (told := _CONDITION.match(_CALLED.sub("", str(failure).strip()))):
        condition = told[1]
    return condition.split(".")[0].lower().replace("_", "-") if condition else otherwise


def _message(failure: Exception) -> str:
    """Spark's own words: the first sentence, without class names, plan and stack."""
    text = str(failure).strip()
    if "Traceback (most recent call last)" in text:  # of a Python worker: its last line tells
        text = next((line for line in reversed(text.splitlines()) if re.match(r"[\w.]+: ", line)), text)
    text = _CONDITION.sub("", _CALLED.sub("", text))
    text = re.split(r"\n\s*(?:at |== |JVM stacktrace|;|'\w+ |\+- )", text)[0]
    return _SQL_STATE.sub("", " ".join(re.sub(r"; line \d+ pos \d+;?", "", text).split()))


def _line(text: str, pattern: str) -> str:
    line = next((line for line in text.splitlines() if re.search(pattern, line)), text)
    return re.sub(r"^(Caused by: )?([\w.$]+(Exception|Error): )*", "", line.strip())
